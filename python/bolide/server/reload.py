"""A reload: which options it can change, and what workers do after it.

It changes every option but those whose sockets and files the supervisor has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bolide.config import development, proxies
from bolide.errors import ConfigError
from bolide.server import capacity, logs, loop
from bolide.server.logs import logger
from bolide.server.process.access_log import open_access_log
from bolide.server.process.jobs import with_siblings
from bolide.server.tls import certificates

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.server.worker import Job

BOUND = (
    "host",
    "port",
    "uds",
    "uds_mode",
    "uds_owner",
    "uds_group",
    "bind",
    "redirect_to_https",
    "pid_file",
    "management",
    "preload",
    "debug",
    "reload",
    "reload_dir",
    "reload_include",
    "reload_exclude",
)
"""Options that say where the server listens, and what it does before its first worker."""


def job_of_now(before: Job, reread: Callable[[], Settings] | None) -> Job:
    """Return the job with the options, certificates and access log of now.

    Args:
        before: what the workers do now.
        reread: returns the options as they are now; they stay without it.

    Raises:
        ConfigError: one of them is not valid.
        OSError: the system has no descriptor or memory left.
    """
    settings = before.settings
    if reread is not None:
        settings = unchangeable_kept(before.settings, reread())
    capacity.raise_descriptor_limit(settings)
    loop_name = loop.choose(settings.loop)
    used = before.certificates
    if used is not None and not used.serves(settings):
        used = certificates.Certificates(settings, after=used)
    access_log_fd = open_access_log(settings.access_log)
    try:
        job = replace(
            before,
            settings=settings,
            loop_name=loop_name,
            access_log_fd=access_log_fd,
            certificates=used,
        )
        job = with_siblings(job)
        logs.configure(*settings.logging)
    except BaseException:
        if access_log_fd is not None:
            os.close(access_log_fd)
        raise
    if used is not None and used is before.certificates:
        used.renew()
    return job


def unchangeable_kept(now: Settings, read: Settings) -> Settings:
    """Return the options that were read, with the addresses of now.

    Options that stay although they were changed are logged.

    Raises:
        ConfigError: TLS was switched on or off, which changes what is at an address; or an option
            does not go with one that stays.
    """
    if read.scheme != now.scheme:
        state = "on" if read.scheme == "https" else "off"
        raise ConfigError(f"TLS was switched {state}, which needs a restart")
    kept = {name: getattr(now, name) for name in BOUND}
    changed = [name for name, value in kept.items() if getattr(read, name) != value]
    if changed:
        verb = "was changed, which takes" if len(changed) == 1 else "were changed, which take"
        logger.warning("%s %s effect after a restart", " and ".join(changed), verb)
    settings = replace(read, **kept)
    development.check(settings)
    proxies.check(settings)
    return settings
