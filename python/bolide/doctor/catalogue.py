"""The kernel settings of `catalogue.toml`, and the verdict on each.

A setting with a rule in `rule.py` is judged by that rule, any other only against its default.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec

from bolide.doctor.finding import (
    Case,
    Finding,
    Judgement,
    Verdict,
    fine,
    setting_path,
    version,
)
from bolide.doctor.rule import RULES
from bolide.doctor.source import Unreadable

GROUP = "kernel setting"


class EarlierDefault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The default in kernels before a version."""

    before: str
    value: str


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the catalogue; `catalogue.toml` explains the fields."""

    name: str
    default: str
    does: str
    advice: str
    default_note: str = ""
    earlier: list[EarlierDefault] = []
    since: str = ""
    removed: str = ""
    without_effect: str = ""
    when_absent: str = ""
    is_irrelevant: bool = False

    def default_on(self, kernel: tuple[int, ...]) -> str:
        """Return the default in a kernel's version; empty if it is computed at boot."""
        for each in self.earlier:
            if kernel and kernel < version(each.before):
                return each.value
        return self.default


@cache
def settings() -> tuple[Setting, ...]:
    """Read the catalogue."""
    text = resources.files(__package__).joinpath("catalogue.toml").read_text("utf-8")
    return tuple(msgspec.convert(tomllib.loads(text)["setting"], list[Setting]))


def examine(case: Case) -> list[Finding]:
    """Judge every setting of the catalogue."""
    return [_examine(setting, case) for setting in settings()]


def _examine(setting: Setting, case: Case) -> Finding:
    value: str | None = None
    try:
        value = " ".join(case.source.text(setting_path(setting.name)).split())
        judgement = _judge(setting, value, case)
    except Unreadable as error:
        judgement = _absent(setting, case, error) if value is None else _unknown(error)
    default = setting.default_on(case.kernel)
    return Finding(
        name=setting.name,
        group=GROUP,
        value=value,
        default=default or setting.default_note,
        verdict=judgement.verdict,
        why=judgement.why,
        does=setting.does,
        advice=setting.advice,
        fix=judgement.fix,
    )


def _judge(setting: Setting, value: str, case: Case) -> Judgement:
    if setting.is_irrelevant:
        return fine("It has no effect on an HTTP server.")
    if setting.without_effect and case.kernel >= version(setting.without_effect):
        return fine(f"It has had no effect since Linux {setting.without_effect}.")
    rule = RULES.get(setting.name)
    found = rule(case) if rule else None
    if found is not None:
        return found
    default = setting.default_on(case.kernel)
    if default and value != default:
        quoted = f'"{default}"' if " " in default else default
        why = f"Changed from its default, {default}."
        return Judgement(Verdict.ADVICE, why, f"sysctl -w {setting.name}={quoted}")
    return fine("At its default." if default else "No problem with this value.")


def _absent(setting: Setting, case: Case, error: Unreadable) -> Judgement:
    if not error.is_absent:
        return _unknown(error)
    if not case.kernel and (setting.removed or setting.since):
        return Judgement(Verdict.UNKNOWN, f"{error}, and the kernel's version is unknown.")
    if setting.removed and case.kernel >= version(setting.removed):
        return Judgement(Verdict.GONE, f"Linux {setting.removed} removed it; setting it fails.")
    if setting.since and case.kernel < version(setting.since):
        return Judgement(Verdict.GONE, f"It does not exist before Linux {setting.since}.")
    if setting.is_irrelevant or setting.without_effect:
        return fine("It does not exist, and would have no effect on an HTTP server.")
    if setting.when_absent:
        return fine(f"It does not exist: {setting.when_absent}.")
    why = f"{error}; this kernel was built without it, or a container hides it."
    return Judgement(Verdict.UNKNOWN, why)


def _unknown(error: Unreadable) -> Judgement:
    return Judgement(Verdict.UNKNOWN, f"{error}.")
