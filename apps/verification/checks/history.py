"""Consistency with what was accepted and rejected before."""

from __future__ import annotations

import math

from apps.verification.case import Case, Finding, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.source import series_matches_source, value_matches_source


@check(
    "agrees_with_history",
    catches=("stale artifact", "another scene's result"),
    limits=("rel_tolerance",),
    reads=("/result/value",),
    family="consistency",
)
def agrees_with_history(case: Case) -> Finding:
    """The same call on the same inputs gave the same value in an accepted observation."""
    mine = case.observation
    inputs = sorted(i.artifact for i in mine.inputs)
    for other in case.history:
        if (
            other.id == mine.id
            or other.tool != mine.tool
            or other.arguments != mine.arguments
            or other.parents != mine.parents
            or sorted(i.artifact for i in other.inputs) != inputs
            or other.result.kind != mine.result.kind
        ):
            continue
        a, b = number_of(other.result.value), case.value
        same = case.is_same(a, b) if a is not None and b is not None else other.result.value == mine.result.value
        if not same:
            return failed(
                "The same call gave another value that is already accepted.",
                measured=mine.result.value,
                expected=other.result.value,
                at=("/result/value",),
            )
        return passed("The same call gave the same value before.", at=("/result/value",))
    return not_applicable("no accepted observation of the same call")


@check(
    "value_not_rejected_before",
    catches=("stale artifact", "wrong band mapping", "another scene's result"),
    limits=("rel_tolerance",),
    reads=("/result/value",),
    family="consistency",
)
def value_not_rejected_before(case: Case) -> Finding:
    """A value that was rejected does not come back by another call on the same inputs, unless the source's own pixels give it.

    What is wrong below the method (the wrong band, another scene's pixels) is wrong again by the next method.
    """
    if case.value is None or case.value in (0.0, 1.0):
        return not_applicable("no number that could be known again")
    inputs = sorted(i.artifact for i in case.observation.inputs)
    for other in case.rejected:
        was = number_of(other.result.value)
        if (
            other.id == case.observation.id
            or other.status.state == "failed"
            or was is None
            or (other.result.kind, other.result.unit) != (case.kind, case.observation.result.unit)
            or sorted(i.artifact for i in other.inputs) != inputs
            or not math.isclose(was, case.value, rel_tol=1e-6)
        ):
            continue
        if any(look(case).outcome == "passed" for look in (value_matches_source, series_matches_source)):
            return passed(
                "The value was rejected before, but the source's pixels give it.", measured=case.value, at=("/result/value",)
            )
        return failed(
            "The same value was rejected before; another call on the same inputs does not make it right.",
            measured=case.value,
            expected="another value, or pixels that give it",
            unit=case.observation.result.unit,
            at=("/result/value",),
        )
    return (
        passed("No rejected value comes back.", measured=len(case.rejected), at=("/result/value",))
        if case.rejected
        else (not_applicable("nothing was rejected yet"))
    )
