"""The closed list of checks, and the runner that turns a crash into ``errored``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from apps.core.errors import FaultError
from apps.core.evidence.decision import CheckResult, Family, Severity
from apps.core.registry import Registry
from apps.verification.case import Case, Finding
from apps.verification.checks.order import ORDER

Look = Callable[[Case], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule check: a pure function of a case, with what it means for the reader of ``docs/checks.md``."""

    name: str
    family: Family
    severity: Severity
    meaning: str
    catches: tuple[str, ...]
    limits: tuple[str, ...]
    reads: tuple[str, ...]
    look: Look


CHECKS: Registry[Check] = Registry("check")
_PLACE = {f"{family}.{name}": i for i, (family, name) in enumerate((f, n) for f, names in ORDER.items() for n in names)}


def in_order() -> list[Check]:
    """All checks by family, in the order of the protocol; within a family in that of ``order.py``."""
    return sorted((c for _, c in CHECKS.items()), key=lambda c: _PLACE[c.name])


def check(
    name: str,
    severity: Severity = "block",
    *,
    catches: Sequence[str] = (),
    limits: Sequence[str] = (),
    reads: Sequence[str] = (),
    family: Family | None = None,
) -> Callable[[Look], Look]:
    """Registers the decorated function as check ``<family>.<name>``; its docstring's first line says what it means.

    The family is the module's name where none is given. ``catches`` names faults that it was made for, ``limits`` the fields of
    Limits that it reads, ``reads`` the JSON pointers. Raises FaultError for a check that ``order.py`` does not list.
    """

    def add(look: Look) -> Look:
        module: Any = look.__module__.rsplit(".", 1)[-1]
        of: Family = family or module
        if f"{of}.{name}" not in _PLACE:
            raise FaultError(f"the check {of}.{name} has no place in apps/verification/checks/order.py; list it there")
        meaning = (look.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")
        CHECKS.add(
            f"{of}.{name}",
            Check(
                f"{of}.{name}",
                of,
                severity,
                meaning,
                tuple(catches),
                tuple(limits),
                tuple(reads),
                look,
            ),
        )
        return look

    return add


@lru_cache(maxsize=2048)
def _not_applicable(name: str, family: Family, severity: Severity, message: str) -> CheckResult:
    """Most checks do not concern an observation: their results are few, frozen, and made once."""
    return CheckResult(check=name, family=family, severity=severity, outcome="not_applicable", message=message[:1000])


@lru_cache(maxsize=1)
def _ordered() -> tuple[Check, ...]:
    """The catalogue in order, sorted once: it is frozen before the first case is judged."""
    return tuple(in_order())


def run_checks(case: Case, names: Sequence[str] | None = None) -> tuple[tuple[CheckResult, ...], dict[str, float]]:
    """Every check's result in catalogue order, and the scores that checks measured on the way (features by name).

    Never raises: a check that crashes is ``errored`` and says with what.
    """
    results: list[CheckResult] = []
    scores: dict[str, float] = {}
    for one in _ordered() if names is None else [CHECKS[n] for n in names]:
        try:
            found = one.look(case)
            if found.outcome == "not_applicable":
                results.append(_not_applicable(one.name, one.family, one.severity, found.message))
                continue
            if found.severity == "block" and one.severity == "warn":
                raise FaultError(f"{one.name} only warns and cannot block: register it as blocking and soften what warns")
            softened: Severity = "warn" if found.severity == "warn" else one.severity
            result = CheckResult(
                check=one.name,
                family=one.family,
                severity=softened,
                outcome=found.outcome,
                measured=found.measured,
                expected=found.expected,
                unit=found.unit[:40],
                message=found.message[:1000],
                pointers=found.pointers,
            )
            scores.update(found.scores)
        except Exception as error:  # a crash of a check must not become a crash, or a pass, of the run
            result = CheckResult(
                check=one.name,
                family=one.family,
                severity=one.severity,
                outcome="errored",
                message=f"The check itself failed ({type(error).__name__}: {str(error)[:300]}).",
            )
        results.append(result)
    return tuple(results), scores
