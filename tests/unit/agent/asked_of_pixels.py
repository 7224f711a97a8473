"""A question in words, planned by the offline planner and executed over scenes in memory: the plan and what it found."""

from __future__ import annotations

from typing import Any

from apps.agent.arguments import resolve, validate_plan
from apps.agent.planner.offline import OfflinePlanner
from apps.agent.readings import READINGS, Read
from apps.agent.units import convert, dimension
from apps.core.evidence.plan import Plan, Question
from tests.unit.tools.rasters import Bench


def answered(bench: Bench, text: str, **more: Any) -> tuple[Plan, Read]:
    """(plan, figure with its unit) of a question over the bench's scenes; a figure in its recipe's unit, other readings as the
    answer tells them. Fails where there is no plan, or a step of it."""
    question = Question(text=text, scenes=bench.question.scenes, **more)
    made = OfflinePlanner().plan(question)
    assert made.steps and made.answer is not None, made.reason
    validate_plan(made, frozenset(s.scene_id for s in question.scenes))
    done: dict[int, Any] = {}
    for step in made.steps:
        parents = [done[n] for n in step.needs]
        o = bench.call(step.tool, resolve(step.arguments, {n: d.id for n, d in done.items()}), parents)
        assert o.status.state == "ok", o.status.reason
        done[step.step] = o
    parts = [done[n] for n in made.answer.steps]
    if made.answer.kind != "value":
        return made, READINGS[made.answer.kind](made.answer, parts)
    result = parts[0].result
    unit = made.answer.unit if dimension(result.unit) in ("number", "area") else result.unit
    return made, Read("", convert(result.value, result.unit, unit), unit)
