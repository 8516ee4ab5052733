"""The options of TLS that belong together: pairs of files, and what clients have to present.

One pair is `certificate` and `key`. Several pairs are lists of both, in the same order, or the
tables `[[tls]]` of a file. This module reads no file that an option names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bolide.errors import ConfigError

if TYPE_CHECKING:
    from bolide.config.settings import Settings

SELF_SIGNED = "self-signed"
"""The certificate that the server makes itself, for development."""
PROTOCOLS = ("h2", "http/1.1")
"""The protocols that the server speaks over TLS, by their names in ALPN, in its preference."""
TABLE = "tls"
PAIR_OPTIONS = ("certificate", "key", "key_password_file")
"""What a table may contain; the options of the same names contain one value for each pair."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of one certificate and its key; `password` is "" if the key has none."""

    certificate: str
    key: str = ""
    password: str = ""

    @property
    def is_self_signed(self) -> bool:
        """Whether the server makes it."""
        return self.certificate == SELF_SIGNED

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it consists of."""
        if self.is_self_signed:
            return ()
        return tuple(path for path in (self.certificate, self.key, self.password) if path)


def pairs(
    certificates: Sequence[str], keys: Sequence[str], passwords: Sequence[str]
) -> tuple[Pair, ...]:
    """Combine the three options.

    Each certificate that the server does not make takes the next key; a single file with a password
    is for all keys.

    Raises:
        ConfigError: there are more of one than of another.
    """
    for name, paths in (("certificate", certificates), ("key", keys)):
        if "" in paths:
            raise ConfigError(f"{name}: the path is empty; give one (is a variable not set?)")
    remaining = list(keys)
    found: list[Pair] = []
    for certificate in certificates:
        if certificate == SELF_SIGNED:
            found.append(Pair(certificate))
        elif not remaining:
            raise ConfigError(
                f"certificate: {certificate} has no key; give the file with its private key too "
                f"(--key PATH), or {SELF_SIGNED} as the certificate for development"
            )
        else:
            found.append(Pair(certificate, remaining.pop(0)))
    if remaining:
        instead = f"; {SELF_SIGNED} has a key of its own" if SELF_SIGNED in certificates else ""
        raise ConfigError(
            f"key: {remaining[0]} has no certificate; give the file with its certificate too "
            f"(--certificate PATH){instead}"
        )
    return _with_passwords(found, passwords)


def _with_passwords(found: list[Pair], passwords: Sequence[str]) -> tuple[Pair, ...]:
    with_key = [index for index, pair in enumerate(found) if pair.key]
    if passwords and not with_key:
        raise ConfigError("key_password_file: there is no key; give one too (--key PATH)")
    if len(passwords) == 1:
        passwords = list(passwords) * len(with_key)
    elif len(passwords) not in (0, len(with_key)):
        raise ConfigError(
            f"key_password_file: {len(passwords)} files for {len(with_key)} keys; give one for all "
            "keys, or one for each"
        )
    for index, password in zip(with_key, passwords, strict=False):
        found[index] = Pair(found[index].certificate, found[index].key, password)
    return tuple(found)


def flattened(given: Mapping[str, object], source: str) -> Mapping[str, object]:
    """Replace the tables `[[tls]]` of a file, or dicts of a keyword, by the three options.

    Raises:
        ConfigError: a table is malformed, or an option is in a table and beside it.
    """
    if TABLE not in given:
        return given
    tables = given[TABLE]
    if isinstance(tables, Mapping):
        tables = [tables]
    if not isinstance(tables, list | tuple):
        raise ConfigError(
            f"{source}: {tables!r} is not a table; write [[{TABLE}]] and below it "
            "certificate and key"
        )
    if beside := [name for name in PAIR_OPTIONS if name in given]:
        raise ConfigError(f"{source}: {beside[0]} is given beside it; write every pair in a table")
    columns: dict[str, list[str]] = {name: [] for name in PAIR_OPTIONS}
    for table in tables:
        for name, value in _checked(table, source).items():
            columns[name].append(value)
    flat = {name: values for name, values in columns.items() if any(values)}
    return {**{name: value for name, value in given.items() if name != TABLE}, **flat}


def _checked(table: Any, source: str) -> dict[str, str]:
    """Return the values of one table; a key without a password has "" as its file."""
    if not isinstance(table, Mapping) or not table.get("certificate"):
        raise ConfigError(f"{source}: a table has no certificate; write certificate and key in it")
    for name, value in table.items():
        if name not in PAIR_OPTIONS:
            allowed = ", ".join(PAIR_OPTIONS)
            raise ConfigError(f"{source}: no such option {name!r}; a table may have {allowed}")
        if not isinstance(value, str):
            raise ConfigError(f"{source}: {name} is not text; give a path")
    if table["certificate"] == SELF_SIGNED:
        return {"certificate": SELF_SIGNED}
    if not table.get("key"):
        certificate = table["certificate"]
        raise ConfigError(f"{source}: the certificate {certificate} has no key; write its key too")
    return {name: str(table.get(name, "")) for name in PAIR_OPTIONS}


def check(values: Mapping[str, Any], given: Collection[str]) -> None:
    """Refuse options that do not go together; `given` are those that were set.

    Raises:
        ConfigError: an option needs another one.
    """
    found = pairs(*(values[name] for name in PAIR_OPTIONS))
    ca, mode = values["client_ca"], values["client_certificate"]
    if ca and mode == "none":
        raise ConfigError(
            "client_ca: clients are not asked for a certificate; give client_certificate too "
            "(--client-certificate required, or optional)"
        )
    if mode != "none" and not ca:
        raise ConfigError(
            f"client_certificate: {mode} needs the authority that signs clients' certificates; "
            "give it too (--client-ca PATH)"
        )
    if values["client_crl"] and not ca:
        raise ConfigError(
            "client_crl: clients are not asked for a certificate; give their authority and "
            "client_certificate too (--client-ca PATH --client-certificate required, or optional)"
        )
    if values["https_port"] and not values["redirect_to_https"]:
        raise ConfigError(
            "https_port: no client is redirected; give the address for http too "
            "(--redirect-to-https ADDRESS)"
        )
    if found:
        return
    for name in ("client_ca", "redirect_to_https", "tls_minimum", "alpn"):
        if name in given and values[name]:
            raise ConfigError(
                f"{name}: the server does not use TLS; give a certificate and its key too "
                "(--certificate PATH --key PATH)"
            )


def check_redirection(settings: Settings) -> None:
    """Refuse to redirect clients from an address where they are served.

    Raises:
        ConfigError: there is such an address.
    """
    served = {replace(each, scheme="") for each in settings.addresses if each.port or each.path}
    for each in settings.redirect_to_https:
        if replace(each, scheme="") in served:
            raise ConfigError(
                f"redirect_to_https: {each} is where the application is served; give an address of "
                "its own for clients that use http"
            )
