"""Several verifiers as one: their mean in log-odds, and their disagreement shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from apps.core.evidence.decision import EvidenceRequest
from apps.verification.backends.contract import Opinion, Subject, Verifier, VerifierError


class PanelVerifier:
    """Members judge apart; a member that fails is named in the reasons. Where the members' probabilities span more than
    ``max_spread``, the panel's probability is pulled to the undecided middle, so that evidence is asked for.

    Raises ValueError for an empty panel; ``verify`` raises VerifierError where fewer than ``quorum`` members answer.
    """

    def __init__(self, members: Sequence[Verifier], *, quorum: int = 1, max_spread: float = 0.5):
        if not members:
            raise ValueError("a panel needs at least one member")
        self.members, self.quorum, self.max_spread = tuple(members), quorum, max_spread
        self.name = "panel(" + ", ".join(m.name for m in members) + ")"
        self.is_local = all(m.is_local for m in members)

    def verify(self, subject: Subject) -> Opinion:
        opinions: dict[str, Opinion] = {}
        silent: list[str] = []
        for member in self.members:
            try:
                opinions[member.name] = member.verify(subject)
            except VerifierError as error:
                silent.append(f"{member.name} did not answer: {error}")
        if len(opinions) < self.quorum:
            raise VerifierError("; ".join(silent) or "no member answered")
        odds = [math.log(p / (1 - p)) for p in (min(max(o.p_correct, 1e-6), 1 - 1e-6) for o in opinions.values())]
        p = 1 / (1 + math.exp(-sum(odds) / len(odds)))
        views = {name: o.p_correct for name, o in opinions.items()}
        spread = max(views.values()) - min(views.values())
        reasons = [f"{name}: {value:.2f}" for name, value in views.items()]
        if spread > self.max_spread:
            middle = (subject.policy.accept_at + subject.policy.reject_at) / 2
            p = min(max(p, subject.policy.reject_at + 1e-6), middle)
            reasons.insert(0, f"The panel disagrees: its members span {spread:.2f}.")
        reasons += silent
        requested: list[EvidenceRequest] = []
        for opinion in opinions.values():
            reasons.extend(opinion.reasons[:3])
            requested.extend(r for r in opinion.requested if r not in requested)
        contributions: dict[str, float] = {}
        for opinion in opinions.values():
            for name, value in opinion.contributions.items():
                contributions[name] = contributions.get(name, 0.0) + value / len(opinions)
        return Opinion(p, tuple(reasons), tuple(requested), contributions, views)
