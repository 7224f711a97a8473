"""What happened to one observation, in order, as lines for its page and the report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.core.evidence.decision import Decision, Verdict
from apps.core.evidence.fold import ObservationState, RunState


@dataclass(frozen=True, slots=True)
class HistoryLine:
    at: datetime | None
    text: str
    decision: Decision | None = None
    verdict: Verdict | None = None
    is_undone: bool = False


def observation_history(state: RunState, held: ObservationState) -> list[HistoryLine]:
    """Recorded, judged, requests answered, verdicts and undos; oldest first."""
    lines = [
        HistoryLine(
            held.recorded_at,
            f"Recorded at step {held.observation.step}"
            + (f", attempt {held.observation.attempt + 1}" if held.observation.attempt else ""),
        )
    ]
    failed = [c for c in held.checks if c.outcome == "failed"]
    if held.checks:
        lines.append(HistoryLine(held.recorded_at, f"{len(held.checks)} checks, {len(failed)} failed"))
    decisions = list(held.decisions)
    for i, decision in enumerate(decisions):
        if i < len(held.requests):
            lines.append(HistoryLine(None, "Decided", decision=decision))
            r = held.requests[i]
            p = "" if r.p_before is None or r.p_after is None else f", p {r.p_before:.2f} → {r.p_after:.2f}"
            lines.append(HistoryLine(r.at, f"Evidence asked ({r.request.kind.replace('_', ' ')}): {r.outcome}{p}"))
        else:
            lines.append(HistoryLine(None, "Decided", decision=decision))
    for v in held.verdicts:
        lines.append(HistoryLine(v.given_at, v.note, verdict=v, is_undone=v.id in held.undone))
    return lines
