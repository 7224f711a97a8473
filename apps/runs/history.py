"""What happened to one observation, in order, as lines for its page and the report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.core.evidence.decision import Decision, EvidenceRequest, Verdict
from apps.core.evidence.fold import ObservationState, RunState
from apps.runs.headline import headline


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
    for at, decision in zip(held.decided_at, held.decisions, strict=True):
        lines.append(HistoryLine(at, "Decided", decision=decision))
    authors = {a.id: a.author for a in held.asks}
    for r in held.requests:
        p = "" if r.p_before is None or r.p_after is None else f", p {r.p_before:.2f} → {r.p_after:.2f}"
        by = f" by {authors[r.ask_id]}" if r.ask_id in authors else ""
        lines.append(HistoryLine(r.at, f"Evidence asked{by} ({_kind(r.request)}): {r.outcome}{p}"))
    for a in held.asks:
        note = f": {a.note}" if a.note else ""
        lines.append(HistoryLine(a.at, f"{a.author} asked for evidence ({_kind(a.request)}){note}"))
    for w in held.withdrawn.values():
        lines.append(HistoryLine(w.at, f"{w.author} withdrew the request"))
    for v in held.verdicts:
        mine = next(
            (o for o in state.observations.values() if o.corrects == held.id and v.id in {w.id for w in o.verdicts}), None
        )
        text = " ".join(filter(None, [f"→ {headline(mine.observation)[0]}" if mine is not None else "", v.note]))
        lines.append(HistoryLine(v.given_at, text, verdict=v, is_undone=v.id in held.undone))
    # sorted() keeps the order of what came at once
    return sorted(lines, key=lambda line: line.at or held.recorded_at)


def _kind(request: EvidenceRequest) -> str:
    return request.kind.replace("_", " ")


@dataclass(frozen=True, slots=True)
class AskShown:
    """A person's request as a line: who, what, and how it stands (``waiting``, ``answered``, ``unavailable``, ``failed``,
    ``withdrawn``)."""

    id: str
    author: str
    kind: str
    outcome: str
    note: str = ""
    message: str = ""
    supporting_id: str = ""
    step: int = 0


def asks_shown(held: ObservationState) -> list[AskShown]:
    """What persons asked for on an observation, oldest first."""
    answers = {r.ask_id: r for r in held.requests}
    out = []
    for a in held.asks:
        r = answers.get(a.id)
        outcome = r.outcome if r else "withdrawn" if a.id in held.withdrawn else "waiting"
        message, support = (r.message, r.supporting_id or "") if r else ("", "")
        out.append(AskShown(a.id, a.author, _kind(a.request), outcome, a.note, message, support, held.observation.step))
    return out


@dataclass(frozen=True, slots=True)
class CorrectionShown:
    """What a person would have instead, as a link: id, value, who."""

    id: str
    main: str
    author: str


def correction_shown(state: RunState, held: ObservationState) -> CorrectionShown | None:
    """The person's observation that stands for this one, or None."""
    mine = state.correction_of(held.id)
    if mine is None or mine.verdict is None:
        return None
    return CorrectionShown(mine.id, headline(mine.observation)[0], mine.verdict.author)


def served_ask(state: RunState, held: ObservationState) -> AskShown | None:
    """The person's request that brought this observation, or None."""
    for first in (o for o in state.observations.values() if o.asks):
        for shown in asks_shown(first):
            if shown.supporting_id == held.id:
                return shown
    return None
