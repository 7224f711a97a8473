"""One contract for every verifier back end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from apps.core.evidence.decision import CheckResult, EvidenceRequest, PriorView
from apps.verification.case import Case
from apps.verification.policy import Policy


class VerifierError(Exception):
    """The verifier could not judge: unreachable, too late, or outside its schema. The observation stays unverified."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a verifier sees: the case (image, task, observation), check results, features and the prior."""

    case: Case
    checks: tuple[CheckResult, ...]
    features: dict[str, float]
    prior: PriorView | None
    policy: Policy


@dataclass(frozen=True, slots=True)
class Opinion:
    """A probability in [0, 1] that the observation is right, with reasons; requests say what would settle it."""

    p_correct: float
    reasons: tuple[str, ...]
    requested: tuple[EvidenceRequest, ...] = ()
    contributions: dict[str, float] = field(default_factory=dict)
    members: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Verifier(Protocol):
    """``name`` is back end and version. ``is_local``: answers at once, without a network; others run under the time-out."""

    name: str
    is_local: bool

    def verify(self, subject: Subject) -> Opinion:
        """Raises VerifierError where it cannot judge."""
        ...
