"""A scripted tool box, judge, planner and recorder that speak the real types, for tests of the true loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.core.evidence.decision import CheckResult, Decision, EvidenceRequest, Verdict
from apps.core.evidence.events import Event, VerdictGiven, VerdictUndone, read_event_json
from apps.core.evidence.fold import RunState, fold
from apps.core.evidence.observation import (
    Configuration,
    Evidence,
    Observation,
    Result,
    Status,
    TaskRef,
)
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep, Question
from apps.core.geo import Band, Grid, SceneInfo
from apps.core.ids import new_id

TASK = TaskRef(task_type="index_statistic", question="What is the mean NDVI?", answer_form="number")
T0 = datetime(2024, 5, 1, tzinfo=UTC)


class SteppingClock:
    """Each reading is a second later than the last: time is part of the script."""

    def __init__(self, step_s: float = 1.0) -> None:
        self.now, self.step_s = T0, step_s

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=self.step_s)
        return self.now


def scene(
    scene_id: str = "a",
    *,
    roles: Sequence[str] = ("blue", "green", "red", "nir"),
    crs: str | None = "EPSG:32630",
    gsd_m: float | None = None,
    acquired: str | None = None,
    name: str = "",
) -> SceneInfo:
    """A scene of 100 by 100 pixels, 10 m where it has a CRS."""
    transform = (10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0) if crs else (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    return SceneInfo(
        scene_id=scene_id,
        artifact="sha256:" + "0" * 64,
        name=name or f"{scene_id}.tif",
        dtype="float32",
        grid=Grid(crs=crs, transform=transform, width=100, height=100),
        bands=tuple(Band(index=i + 1, role=r) for i, r in enumerate(roles)),
        gsd_m=gsd_m,
        acquired_at=datetime.fromisoformat(acquired).replace(tzinfo=UTC) if acquired else None,
    )


def question(text: str = TASK.question, scenes: Sequence[SceneInfo] | None = None, **more: Any) -> Question:
    return Question(text=text, scenes=tuple(scenes) if scenes is not None else (scene(),), **more)


def mean_arguments(index: str = "ndvi", scene_id: str = "a") -> dict[str, Any]:
    return {
        "nodes": [
            {"id": "s1", "op": "asset.scene", "params": {"scene": scene_id}},
            {"id": "index", "op": "raster.product.index", "inputs": ["s1"], "params": {"index": index}},
            {
                "id": "out",
                "op": "raster.summarize.statistic",
                "inputs": ["index"],
                "params": {"statistic": "mean"},
            },
        ],
        "output": "out",
    }


def water_arguments(index: str = "ndwi", threshold: float | str = 0.0, scene_id: str = "a") -> dict[str, Any]:
    return {
        "image_paths": [scene_id],
        "objective": "water",
        "mode": "regions",
        "target_groups": {"water": ["water"]},
        "regions_method": {
            "kind": "index_threshold",
            "index": index,
            "threshold": threshold,
            "side": "above",
        },
    }


def area_arguments(step: int = 1, unit: str = "km2") -> dict[str, Any]:
    return {
        "sources": [{"name": "water", "mode": "regions", "layer": {"$step": step}}],
        "spec": {"metric": "area", "subject": "water", "unit": unit},
    }


def one_step_plan() -> Plan:
    return Plan(
        task=TASK,
        planner="scripted",
        steps=(PlanStep(step=1, tool="execute", arguments=mean_arguments(), why="The mean of the index."),),
        answer=AnswerRecipe(kind="value", steps=(1,), options={"phrase": "Mean NDVI"}),
    )


def water_plan(*alternatives: dict[str, Any]) -> Plan:
    return Plan(
        task=TaskRef(task_type="area_measurement", question="How much water?", answer_form="area"),
        planner="scripted",
        steps=(
            PlanStep(
                step=1,
                tool="perceive",
                arguments=water_arguments(),
                why="Find the water.",
                alternatives=alternatives,
            ),
            PlanStep(step=2, tool="measure", arguments=area_arguments(), why="Measure its area.", needs=(1,)),
        ),
        answer=AnswerRecipe(kind="value", steps=(2,), unit="km2", options={"phrase": "Area of water"}),
    )


class ScriptedPlanner:
    name = "scripted"

    def __init__(self, plan: Plan, *revisions: Plan) -> None:
        self.first, self.revisions, self.revise_calls = plan, list(revisions), 0

    def plan(self, question: Question) -> Plan:
        return self.first

    def revise(self, question: Question, state: RunState) -> Plan | None:
        self.revise_calls += 1
        return next((p for p in self.revisions if p not in state.plans), None)


# A script says from the arguments what the tool finds: a number, or a whole part of an observation to
# replace.
Script = Callable[[str, dict[str, Any]], dict[str, Any]]


def by_arguments(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Different arguments give different numbers, the same arguments the same one."""
    seed = sum(map(ord, str(sorted(map(str, _leaves(arguments))))))
    kind: Any = {"perceive": "layer", "measure": "area", "execute": "statistic"}[tool]
    return {
        "result": Result(
            kind=kind,
            value=None if kind == "layer" else (seed % 997) / 1000,
            unit="km2" if kind == "area" else "1",
            quantity="ndvi",
        )
    }


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for k, v in value.items() if k != "observation" for x in _leaves(v)]
    return [x for v in value for x in _leaves(v)] if isinstance(value, list) else [value]


class ScriptedToolBox:
    def __init__(self, script: Script = by_arguments) -> None:
        self.script = script
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def call(
        self,
        *,
        tool: str,
        arguments: dict[str, Any],
        question: Question,
        plan: Plan,
        step: int,
        attempt: int,
        run_id: str,
        parents: Sequence[Observation],
        progress: Callable[[int, int, str], None],
        is_cancelled: Callable[[], bool],
    ) -> Observation:
        self.calls.append((tool, arguments))
        progress(1, 1, "done")
        parts: dict[str, Any] = {
            "id": new_id(),
            "run_id": run_id,
            "step": step,
            "attempt": attempt,
            "parents": tuple(p.id for p in parents),
            "task": plan.task,
            "tool": tool,
            "configuration": Configuration(coarse=tool, fine=f"{tool}/scripted"),
            "arguments": arguments,
            "status": Status(state="ok", started_at=T0, elapsed_s=0.5),
            "evidence": Evidence(intermediate={"valid_px": 40574}),
        }
        # a measure depends on the layers that it measures
        parts.update(self.script(tool, {**arguments, "parents": [p.arguments for p in parents]} if parents else arguments))
        return Observation(**parts)


class ScriptedJudge:
    """Decides by a function of the observation; accepts by default."""

    def __init__(self, decide: Callable[[Observation, Sequence[Observation], int], Decision] | None = None) -> None:
        self.decide = decide or (lambda o, s, n: accept())
        self.seen: list[tuple[str, tuple[str, ...], int]] = []

    def judge(
        self,
        observation: Observation,
        *,
        question: Question | None,
        history: Sequence[Observation],
        rejected: Sequence[Observation],
        supporting: Sequence[Observation] = (),
        requests_made: int = 0,
    ) -> tuple[tuple[CheckResult, ...], Decision]:
        self.seen.append((observation.id, tuple(s.id for s in supporting), requests_made))
        if observation.status.state == "failed":
            return (), Decision(decision="reject", stage="status", reasons=(observation.status.reason,))
        return (), self.decide(observation, supporting, requests_made)


def accept(p: float = 0.95) -> Decision:
    return Decision(decision="accept", stage="verifier", p_correct=p, verifier="scripted", policy="scripted")


def reject(reason: str = "It lies on something else.") -> Decision:
    return Decision(decision="reject", stage="verifier", p_correct=0.05, reasons=(reason,), policy="scripted")


def ask(*requests: EvidenceRequest, p: float = 0.5) -> Decision:
    return Decision(decision="request_evidence", stage="verifier", p_correct=p, requested=requests, policy="scripted")


class KilledError(BaseException):
    """Stands for kill -9: nothing in the loop may catch it."""


class LogRecorder:
    """The log as the database keeps it: JSON payloads in order, read again for each state; dies after
    ``die_at`` events.
    """

    def __init__(self, payloads: Sequence[str] = (), die_at: int | None = None) -> None:
        self.payloads, self.die_at, self.cancelled = list(payloads), die_at, False

    def append(self, event: Event) -> int:
        if self.die_at is not None and len(self.payloads) >= self.die_at:
            raise KilledError
        self.payloads.append(event.model_dump_json())
        return len(self.payloads)

    @property
    def events(self) -> list[Event]:
        return [read_event_json(p) for p in self.payloads]

    def state(self) -> RunState:
        return fold(enumerate(self.events, start=1))

    def is_cancelled(self) -> bool:
        return self.cancelled


def give_verdict(recorder: LogRecorder, observation_id: str, value: Any) -> str:
    verdict_id = new_id()
    recorder.append(
        VerdictGiven(
            at=T0,
            verdict=Verdict(id=verdict_id, observation_id=observation_id, value=value, author="ada", given_at=T0),
        )
    )
    return verdict_id


def undo_verdict(recorder: LogRecorder, verdict_id: str) -> str:
    recorder.append(VerdictUndone(at=T0, verdict_id=verdict_id, author="ada"))
    return f"undo:{verdict_id}"
