"""Arguments of a plan's calls: references to earlier steps, merging of requested changes, identity of a
call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from apps.core.digests import digest_json
from apps.core.errors import ModelError
from apps.core.evidence.plan import Plan, PlanStep
from apps.tools.contract import ARGUMENTS


def step_references(value: Any) -> Iterator[int]:
    """Numbers of the steps that arguments refer to by ``{"$step": n}``, in order of appearance."""
    if isinstance(value, dict):
        if "$step" in value:
            yield int(value["$step"])
        for k, v in value.items():
            if k != "$step":
                yield from step_references(v)
    elif isinstance(value, list | tuple):
        for v in value:
            yield from step_references(v)


def resolve(value: Any, observations: Mapping[int, str]) -> Any:
    """The arguments with each ``{"$step": n, …}`` replaced by ``{"observation": id, …}``. KeyError for a
    step without one.
    """
    if isinstance(value, dict):
        if "$step" in value:
            rest = {k: resolve(v, observations) for k, v in value.items() if k != "$step"}
            return {"observation": observations[int(value["$step"])], **rest}
        return {k: resolve(v, observations) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(v, observations) for v in value]
    return value


def parents_of(step: PlanStep, arguments: Mapping[str, Any]) -> tuple[int, ...]:
    """The earlier steps that a call uses: those it names and those that ``needs`` names, in order."""
    return tuple(sorted({*step.needs, *step_references(dict(arguments))}))


def call_digest(
    *,
    run_id: str,
    step: int,
    tool: str,
    arguments: Mapping[str, Any],
    parents: Sequence[str],
    request_of: str = "",
    request: Mapping[str, Any] | None = None,
) -> str:
    """The call key: a step is done once under it. A supporting call also names the observation and request
    that it serves.
    """
    what: dict[str, Any] = {
        "run": run_id,
        "step": step,
        "tool": tool,
        "arguments": dict(arguments),
        "parents": list(parents),
    }
    if request_of:
        what["request_of"], what["request"] = request_of, dict(request or {})
    return digest_json(what)


def same_call(tool: str, arguments: Mapping[str, Any], parents: Sequence[str]) -> str:
    """Identity of a call whatever step it stands in: an unsuccessful call is not repeated under another
    number.
    """
    return digest_json({"tool": tool, "arguments": dict(arguments), "parents": list(parents)})


def call_kind(tool: str, arguments: Mapping[str, Any]) -> str:
    """The kind by which unsuccessful calls are counted: tool and mode, metric or operator of the output."""
    if tool == "perceive":
        return f"perceive/{arguments.get('mode', '')}"
    if tool == "measure":
        spec = arguments.get("spec")
        return f"measure/{spec.get('metric', '') if isinstance(spec, dict) else ''}"
    output = arguments.get("output")
    nodes = arguments.get("nodes")
    op = (
        next((n.get("op", "") for n in nodes if isinstance(n, dict) and n.get("id") == output), "")
        if isinstance(nodes, list | tuple)
        else ""
    )
    return f"execute/{op}"


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A deep merge: maps are merged key by key, anything else is replaced."""
    out = dict(base)
    for k, v in changes.items():
        held = out.get(k)
        out[k] = merge(held, v) if isinstance(held, dict) and isinstance(v, dict) else v
    return out


def fit_to_contract(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments that the tool's contract takes, or None. Top-level keys that it does not know move under
    ``options`` where the tool has them (windows of a closer look, …)."""
    contract = ARGUMENTS[tool]
    known = contract.model_fields
    extra = {k: v for k, v in arguments.items() if k not in known}
    fitted = {k: v for k, v in arguments.items() if k in known}
    if extra:
        if "options" not in known:
            return None
        fitted["options"] = merge(fitted.get("options") or {}, extra)
    try:
        contract.model_validate(fitted)
    except ValidationError:
        return None
    return fitted


def validate_plan(plan: Plan, scene_ids: frozenset[str]) -> None:
    """Checks a plan whole before anything runs. ModelError (BAD_PLAN) with a sentence where it cannot be
    carried out.
    """

    def refuse(message: str) -> None:
        raise ModelError(message, code="BAD_PLAN")

    seen: set[int] = set()
    for s in plan.steps:
        if s.step in seen or (seen and s.step < max(seen)):
            refuse(f"Step {s.step} stands twice or out of order.")
        for arguments in (s.arguments, *s.alternatives):
            for n in parents_of(s, arguments):
                if n not in seen:
                    refuse(f"Step {s.step} uses step {n}, which does not come before it.")
            stand_in = resolve(arguments, {n: f"step-{n}" for n in seen})
            try:
                ARGUMENTS[s.tool].model_validate(stand_in)
            except ValidationError as e:
                first = e.errors()[0]
                refuse(f"Step {s.step} ({s.tool}): {'.'.join(str(p) for p in first['loc'])}: {first['msg']}.")
            for scene in _scenes_named(s.tool, arguments):
                if scene not in scene_ids:
                    refuse(f"Step {s.step} names the scene {scene!r}, which the question does not have.")
        seen.add(s.step)
    if plan.steps and plan.answer is None:
        refuse("The plan has steps but does not say how the answer is made.")
    if plan.answer is not None:
        if plan.steps and not plan.answer.steps:
            refuse("The answer rests on no step.")
        for n in plan.answer.steps:
            if n not in seen:
                refuse(f"The answer rests on step {n}, which the plan does not have.")


def _scenes_named(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    if tool == "perceive":
        return [str(x) for x in _items(arguments.get("image_paths"))]
    if tool == "measure":
        return [str(s["image"]) for s in _items(arguments.get("sources")) if isinstance(s, dict) and s.get("image")]
    out = []
    for node in _items(arguments.get("nodes")):
        params = node.get("params") if isinstance(node, dict) else None
        if isinstance(params, dict) and node.get("op") == "asset.scene" and params.get("scene"):
            out.append(str(params["scene"]))
    return out


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
