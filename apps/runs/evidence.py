"""A person asks for evidence on an observation: what can be asked for, the asking, and taking it back.

The request is executed by a worker through the loop, like the verifier's own: one call under one key, within the run's budget,
written to the log. It is no verdict: the effective decision and the prior stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.selectors import can
from apps.agent.moves import request_identity
from apps.agent.policy import AgentPolicy
from apps.core.digests import digest_json
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.decision import EvidenceRequest
from apps.core.evidence.events import EvidenceAsked, EvidenceWithdrawn
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.ids import new_id
from apps.runs.assembly import judge_for, layers, opener_of
from apps.runs.models import Run
from apps.runs.selectors import access_observation, run_state
from apps.runs.services import event_append, run_revise


@dataclass(frozen=True, slots=True)
class EvidenceChoice:
    """One line of what a person may ask for. ``key`` names it while it can be asked for; else ``why_not`` says why it cannot."""

    kind: str
    reason: str
    key: str = ""
    why_not: str = ""
    request: EvidenceRequest | None = None


def most_asked() -> int:
    """How many requests of persons are executed for one observation: as many as of the verifier (PROTOCOL.md, section 5)."""
    return AgentPolicy().max_requests


def evidence_closed(run: Run, state: RunState, held: ObservationState) -> str:
    """Why nothing can be asked for on this observation, as a sentence; '' where something may be."""
    if held.corrects:
        return f"It is the value of a person; ask on observation {held.observation.step}, which the machine made."
    if held.decision is None:
        return "It is not judged yet; its checks are still running."
    if run.status == Run.Status.CANCELLED:
        return "The run was cancelled; ask the question again."
    if held.observation.status.state == "failed":
        return "The tool failed, so there is nothing to compare; ask the question again, or otherwise."
    first = next((o for o in state.observations.values() if any(r.supporting_id == held.id for r in o.requests)), None)
    if first is not None:
        return f"It was itself made to answer a request on observation {first.observation.step}; ask there."
    if not all(state.is_in_history(p) for p in held.observation.parents):
        return "An observation that it was made from is not accepted; settle that one first."
    done = [r for r in held.requests if r.ask_id and r.outcome != "unavailable"]
    if len(done) + len(held.open_asks) >= most_asked():
        return f"{most_asked()} requests of persons were made here; now a person says what it is."
    return ""


def evidence_choices(run: Run, state: RunState, held: ObservationState) -> list[EvidenceChoice]:
    """What may be asked for on this observation, and why not the rest; empty where ``evidence_closed`` says why."""
    if evidence_closed(run, state, held) or state.question is None:
        return []
    judge = judge_for(state.question, layers(run.project_id), None, opener_of(state.question))
    supporting = [
        state.observations[r.supporting_id].observation
        for r in held.requests
        if r.supporting_id in state.observations and r.supporting_id and r.outcome == "answered"
    ]
    found = judge.offers(held.observation, question=state.question, supporting=supporting)
    done = {request_identity(r.request): r.outcome for r in held.requests}
    waiting = {request_identity(a.request): a.author for a in held.open_asks}
    out = []
    for offer in found:
        if offer.request is None:
            out.append(EvidenceChoice(offer.kind, "", why_not=offer.why_not))
            continue
        identity, why_not = request_identity(offer.request), ""
        if identity in waiting:
            why_not = f"{waiting[identity]} asked for it already."
        elif identity in done:
            why_not = f"It was asked for already: {done[identity]}."
        key = "" if why_not else _key(offer.request)
        out.append(EvidenceChoice(offer.kind, offer.request.reason, key, why_not, offer.request))
    return out


def evidence_ask(*, user: User, observation_id: str, key: str, note: str = "", enqueue: bool = True) -> EvidenceAsked:
    """Asks for one of ``evidence_choices`` by its key; a worker executes it after the commit.

    The same asked twice by one person, while it is open, is one. UserError: BAD_ARGUMENT (a note too long, or no such choice),
    CONFLICT (nothing can be asked here, or what was chosen is no longer offered), FORBIDDEN; NotFoundError for others'.
    """
    row, shown = access_observation(user, observation_id, "ask")
    note = note.replace("\x00", "").strip()
    if len(note) > 2000:
        raise UserError("BAD_ARGUMENT", "The note is too long.", f"It has {len(note)} characters; 2,000 are kept.", "Shorten it.")
    if not key or len(key) > 64:
        raise UserError("BAD_ARGUMENT", "Nothing was chosen.", "A request names one kind of evidence.", "Choose one of the list.")
    # the layers are read before the run is locked
    choices = evidence_choices(row.run, shown, shown.observations[row.pk])
    chosen = next((c for c in choices if c.request is not None and _key(c.request) == key), None)
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=row.run_id)
        state = run_state(run.pk)  # what others asked for meanwhile counts
        held = state.observations[row.pk]
        for other in held.open_asks:
            if _key(other.request) == key:
                if (other.author, other.note) == (user.get_username(), note):
                    return other
                raise _conflict(f"{other.author} asked for it already.")
        closed = evidence_closed(run, state, held)
        if closed:
            raise _conflict(closed)
        if chosen is None or chosen.request is None:
            raise _conflict("It is not among what can be executed for this observation.")
        outcome = next((r.outcome for r in held.requests if _key(r.request) == key), "")
        if outcome:
            raise _conflict(f"It was asked for already: {outcome}.")
        event = EvidenceAsked(
            at=timezone.now(),
            id=new_id(),
            observation_id=held.id,
            request=chosen.request,
            note=note,
            author=user.get_username(),
        )
        event_append(run_id=run.pk, event=event)
        run_revise(run_id=run.pk, cause=f"evidence {event.id}", enqueue=enqueue)
    return event


def _key(request: EvidenceRequest) -> str:
    """A short name of what a request would bring."""
    return digest_json(request_identity(request))[7:23]


def _conflict(why: str) -> UserError:
    fix = "Reload the page, open the list again and choose of it."
    return UserError("CONFLICT", "This cannot be asked for now.", why, fix, status=409)


def evidence_withdraw(*, user: User, observation_id: str, ask_id: str) -> EvidenceAsked:
    """Takes a request back that is not answered yet; a call that runs for it is stopped and nothing of it is recorded.

    UserError: CONFLICT where it was answered or withdrawn already, FORBIDDEN where it is another's and the role may not
    adjudicate; NotFoundError for others' observations and unknown requests.
    """
    row, _ = access_observation(user, observation_id, "ask")
    with transaction.atomic():
        run = Run.objects.select_for_update().select_related("project").get(pk=row.run_id)
        held = run_state(run.pk).observations[row.pk]
        asked = next((a for a in held.asks if a.id == ask_id), None)
        if asked is None:
            raise NotFoundError("request")
        if asked not in held.open_asks:
            raise UserError(
                "CONFLICT",
                "The request is no longer open.",
                "It was answered or withdrawn meanwhile; what it brought stays on record.",
                "Reload the page to see what stands now.",
                status=409,
            )
        if asked.author != user.get_username() and not user.is_staff and not can(user, run.project, "adjudicate"):
            raise UserError(
                "FORBIDDEN",
                "Another person asked for this.",
                f"It is {asked.author}'s; to withdraw it takes the role of a reviewer.",
                "Ask them, or a reviewer of the project.",
                status=403,
            )
        event_append(run_id=run.pk, event=EvidenceWithdrawn(at=timezone.now(), ask_id=asked.id, author=user.get_username()))
    return asked
