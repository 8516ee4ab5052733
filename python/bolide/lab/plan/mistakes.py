"""What is wrong in a study although each of its values is valid: reported before anything runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from bolide.lab.matching import fits
from bolide.lab.record.schema import Claim, Published

FIELD_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110 section 5.1."""
FIELD_VALUE = re.compile(r"[\t -~]*")
FRAMING = ("content-length", "transfer-encoding", "connection", "keep-alive", "upgrade")
"""Fields that the generator writes itself, because the framing of responses depends on them."""

CONDITION = re.compile(
    r"\s*[A-Za-z_][\w.]*\s*(?:[<>]=?|[=!]=)\s*[0-9][0-9_]*(?:\.[0-9]+)?\s*(?:us|ms|s|%)?\s*"
)
"""What `bolide load --find` reads: `p99 < 10ms`, `errors < 0.1%`. It knows the names."""


class WrongStudyError(Exception):
    """An invalid study; the message is one line without the file's name."""


def of_claim(claim: Claim, workloads: Collection[str], contestants: Iterable[str]) -> str:
    """Return why no race could judge a claim; "" if one can.

    It has no contestant, workload or bound, or refers to one that the study does not have.
    """
    head = f"the claim {claim.text!r}"
    for name in (*claim.workloads, *claim.than_workloads):
        if name not in workloads:
            return f"{head} refers to no workload: {name!r}"
    if not claim.workloads or not claim.contestants:
        return f"{head} needs workloads and contestants"
    for name in (*claim.contestants, *claim.than):
        if not any(fits(name, wanted) for wanted in contestants):
            return f"{head} refers to no contestant of the study: {name!r}"
    if claim.at_least is None and claim.at_most is None:
        return f"{head} needs at_least or at_most"
    if claim.than_workloads and len(claim.than_workloads) != len(claim.workloads):
        return f"{head} needs a than_workload for each workload"
    return ""


def of_published(figure: Published, workloads: Collection[str], contestants: Iterable[str]) -> str:
    """Return what the study does not have of that for which a figure is published; "" if all."""
    if figure.workload not in workloads:
        return f"a published figure refers to no workload: {figure.workload!r}"
    if not any(fits(figure.contestant, wanted) for wanted in contestants):
        return f"a published figure refers to no contestant of the study: {figure.contestant!r}"
    return ""


def of_fields(fields: Mapping[str, str]) -> str:
    """Return which field line cannot be sent; "" if all can."""
    for name, value in fields.items():
        if not FIELD_NAME.fullmatch(name) or not FIELD_VALUE.fullmatch(value):
            return f"fields has {f'{name}: {value}'!r}, which is no field line of ASCII letters"
        if name.lower() in FRAMING:
            return f"fields has {name!r}, which the load generator writes itself"
    return ""


def of_condition(text: str) -> str:
    """Return that a search has no condition; "" if it has one."""
    return "" if CONDITION.fullmatch(text) else f"find has {text!r}; give one like 'p99 < 10ms'"
