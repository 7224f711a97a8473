"""What a run's state looks like outside: the object of ``ask --json`` and its plain text (CLI.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from apps.agent.units import true_minus
from apps.core.evidence.events import SceneReadAnew
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Answer
from apps.runs.headline import rounded_headline
from apps.runs.reasons import told_once
from apps.runs.tables import rows_table

# Rows of a table that a terminal shows.
ROWS_PRINTED = 200


def ask_json(state: RunState) -> dict[str, Any]:
    """The one object that ``ask --json`` prints."""
    plan, answer = state.plan, state.answer
    return {
        "run_id": state.run_id,
        "task_type": plan.task.task_type if plan else None,
        "plan": [{"step": s.step, "tool": s.tool, "why": s.why, "arguments": s.arguments} for s in (plan.steps if plan else ())],
        "observations": [
            {
                "observation": o.observation.model_dump(mode="json"),
                "checks": [c.model_dump(mode="json") for c in o.checks],
                "decision": o.decision.model_dump(mode="json") if o.decision else None,
                "verdict": o.verdict.model_dump(mode="json") if o.verdict else None,
                "older_readings": [e.model_dump(mode="json") for e in o.older_readings],
            }
            for o in state.observations.values()
        ],
        "answer": answer.model_dump(mode="json") if answer else None,
        "cost": state.cost.model_dump(mode="json"),
        **(
            {"error": {"code": state.failure.code, "message": state.failure.message, "id": state.failure.error_id}}
            if state.failure
            else {}
        ),
    }


def older_reading_text(event: SceneReadAnew) -> str:
    """What is to be known of an observation that was made before a scene was read anew."""
    more = len(event.changes) - 1
    rest = f" And {more} more." if more > 0 else ""
    return (
        f"Based on an older reading of {event.name}, which was read anew on {event.at:%Y-%m-%d}. {event.changes[0]}{rest} "
        "Ask again to use the new one."
    )


def table_lines(observation: Observation) -> list[str]:
    """A table's rows as lines: the name and its figure; none where the result is no table."""
    table = rows_table(observation)
    return [f"    {row['zone']}: {row['value']}" for row in table["rows"]] if table else []


def options_asked(answer: Answer, *, has_unknown_bands: bool) -> list[str]:
    """How what an answer lacks is said to ``ask``, a line for each option; none where no option can give it.

    A band that the file does not have cannot be named: ``--roles`` is told only where some band is not known.
    """
    needs = answer.needs if answer.abstained else {}
    roles = needs.get("roles")
    lines = []
    if isinstance(roles, list | tuple) and roles and has_unknown_bands:
        lines.append(f"--roles {','.join(f'{role}=N' for role in roles)} (N: the number of the band in the file, from 1)")
    if needs.get("gsd_m"):
        lines.append("--gsd-m METRES (the side of a pixel on the ground)")
    # of numbers as stored; decibels of power and the like are not made by a scale
    if isinstance(needs.get("unit"), list | tuple) or needs.get("unit") == "reflectance":
        lines.append("--scale NUMBER --offset NUMBER --unit UNIT (physical value = stored × scale + offset, of all files alike)")
    if needs.get("dates"):
        lines.append("--acquired YYYY-MM-DD … (one date a file, in their order)")
    if needs.get("region"):
        lines.append("--region FILE (a polygon as WKT or GeoJSON, EPSG:4326)")
    if needs.get("landmarks"):
        lines.append("--landmarks FILE (two points or boxes, A and B, as GeoJSON)")
    if needs.get("prompts"):
        lines.append("--point X,Y (inside it; --not-point outside), --box X,Y,X,Y or --scribble 'X,Y;X,Y;…'")
    return [f"  Say it with {line}" for line in lines]


def ask_text(state: RunState) -> str:
    """The same for a person at a terminal."""
    lines: list[str] = []
    tables: list[str] = []  # below the answer's sentence, which a long table would hide
    if state.plan:
        if state.plan.understood:
            lines.append(f"Understood: {state.plan.understood}")
        lines += [f"  {s.step}. {s.tool}: {s.why}" for s in state.plan.steps]
    tries = Counter(o.observation.step for o in state.observations.values())
    tried: Counter[int] = Counter()
    for o in state.observations.values():
        step = o.observation.step
        tried[step] += 1
        attempt = f", attempt {tried[step]} of {tries[step]}" if tries[step] > 1 else ""
        decision = o.decision
        p = "" if decision is None or decision.p_correct is None else f", p = {decision.p_correct:.2f}"
        word = {"accept": "Accepted", "reject": "Rejected", "request_evidence": "Evidence asked"}.get(
            decision.decision if decision else "", "Undecided"
        )
        rows = table_lines(o.observation)
        has_value = o.observation.result.value is not None
        value = f"{len(rows)} rows" if rows and not has_value else rounded_headline(o.observation)
        lines.append(
            f"Observation {step}{attempt} ({o.observation.configuration.fine}): {value} [{word}{p}; nobody has confirmed it]"
        )
        if rows:
            tables.append(f"Rows of observation {step}{attempt}:")
            tables += rows[:ROWS_PRINTED]
        if len(rows) > ROWS_PRINTED:
            tables.append(f"    and {len(rows) - ROWS_PRINTED} more; --json holds all")
        lines += [f"    {r}" for r in (decision.reasons if decision and decision.decision != "accept" else ())]
    if state.failure:
        lines.append(f"Failed: {state.failure.message} ({state.failure.error_id})")
    if state.answer:
        lines.append(("No answer: " if state.answer.abstained else "Answer: ") + state.answer.text)
        names = [s.name for s in (state.question.scenes if state.question else ())]
        lines += [f"  Note: {w}" for w in told_once(state.answer.warnings, names)]
    return true_minus("\n".join((*lines, *tables)))
