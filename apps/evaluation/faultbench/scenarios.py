"""Situations in which a judge with the pixels at hand still has to ask: what is asked, what comes of it, and whom it serves.

The bench's questions are settled by the second look. Here are those that it cannot settle: a detector whose record is poor, a
mask that grew from prompts, clouds that a plan forgot, a series with a hole, a view that is mostly clouds, and observations that
come without the source's pixels. Each is run honestly and with faults; a plan that asks the wrong thing (clouds, hole) is itself
the fault. ``table`` is the paper's Table 8 over these runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from apps.core.evidence.decision import PriorView
from apps.core.evidence.fold import RunState
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep, Question
from apps.core.ports import Planner, PriorSource
from apps.evaluation.faultbench import truth
from apps.evaluation.faultbench.cases import FISH, FISH_ROLES, SINOP, WATER, BenchCase, bench_cases
from apps.evaluation.faultbench.faults import FAULTS, Fault
from apps.evaluation.faultbench.runner import WITHOUT_PIXELS, Bench, Outcome, call_digest, judged

CLOUDY = "cloudy_landsat8.tif"
CLOUDED = tuple(f"clouded/TERRA_MODIS_012010_NDVI_{d}.tif" for d in ("2014-01-17", "2014-02-18"))
Change = Callable[[Plan, Question], Plan]


class ChangedPlanner:
    """A planner whose plans pass through ``change``: what a chat model might have forgotten."""

    def __init__(self, real: Planner, change: Change):
        self._real, self._change, self.name = real, change, f"{real.name}, changed"

    def plan(self, question: Question) -> Plan:
        return self._change(self._real.plan(question), question)

    def revise(self, question: Question, state: RunState) -> Plan | None:
        return None


@dataclass(frozen=True, slots=True)
class Record:
    """A prior of one kind: so many successes in so many trials, for whatever looks at pixels. Nothing is known of measures."""

    successes: int
    trials: int

    def view(self, *, task_type: str, tool: str, coarse: str, fine: str) -> PriorView:
        n, successes = (0, 0) if tool == "measure" else (self.trials, self.successes)
        r = (successes + 1) / (n + 2)
        half = 1.645 * (r * (1 - r) / (n + 3)) ** 0.5
        return PriorView(
            r_hat=r,
            interval=(max(0.0, r - half), min(1.0, r + half)),
            n=n,
            level="fine",
            version=f"record {self.successes}/{self.trials}",
            task_type=task_type,
            configuration=fine,
        )


POOR, GOOD = Record(2, 20), Record(57, 60)


@dataclass(frozen=True, slots=True)
class Scenario:
    """``configuration`` as in the bench; ``record`` stands for the prior; ``change`` spoils or writes the plan. Where the plan is
    the fault (``is_plan_wrong``) its observations are incorrect although every tool is honest."""

    name: str
    meaning: str
    case: BenchCase
    configuration: str = "verification_prior"
    record: PriorSource | None = None
    change: Change | None = None
    faults: tuple[str, ...] = ()
    is_plan_wrong: bool = False


def _clouds_forgotten(plan: Plan, question: Question) -> Plan:
    def plain(arguments: dict[str, Any]) -> dict[str, Any]:
        nodes = [
            {**n, "params": {k: v for k, v in n["params"].items() if k != "quality_mask"}} if n.get("params") else n
            for n in arguments.get("nodes", ())
        ]
        return {**arguments, "nodes": nodes} if nodes else arguments

    steps = tuple(s.model_copy(update={"arguments": plain(s.arguments), "alternatives": ()}) for s in plan.steps)
    return plan.model_copy(update={"steps": steps})


def _hole(plan: Plan, question: Question) -> Plan:
    """The fifth to the ninth date of a series are left out."""
    dropped = {s.scene_id for s in question.scenes[4:9]}

    def holed(arguments: dict[str, Any]) -> dict[str, Any]:
        nodes = list(arguments.get("nodes", ()))
        gone = {n["id"] for n in nodes if (n.get("params") or {}).get("scene") in dropped}
        while more := {n["id"] for n in nodes if len(n.get("inputs", ())) == 1 and n["inputs"][0] in gone} - gone:
            gone |= more
        kept = [{**n, "inputs": [i for i in n.get("inputs", ()) if i not in gone]} for n in nodes if n["id"] not in gone]
        return {**arguments, "nodes": kept}

    steps = tuple(s.model_copy(update={"arguments": holed(s.arguments), "alternatives": ()}) for s in plan.steps)
    return plan.model_copy(update={"steps": steps})


def _one_date(plan: Plan, question: Question) -> Plan:
    return plan.model_copy(update={"steps": tuple(s.model_copy(update={"alternatives": ()}) for s in plan.steps)})


def _pointed(plan: Plan, question: Question) -> Plan:
    """Water is found by pointing at it: a box about the middle of the estuary and a point in it."""
    scene = question.scenes[0]
    first = PlanStep(
        step=1,
        tool="perceive",
        arguments={
            "image_paths": [scene.scene_id],
            "objective": "water",
            "mode": "regions",
            "target_groups": {"water": ["water"]},
            "regions_method": {"kind": "prompt", "points": [[float(x), float(y), k] for x, y, k in POINTED]},
        },
        why="The water that was pointed at.",
    )
    second = PlanStep(
        step=2,
        tool="measure",
        arguments={
            "sources": [{"name": "water", "mode": "regions", "layer": {"$step": 1, "label": "water"}}],
            "spec": {"metric": "area", "subject": "water", "unit": "ha"},
        },
        why="Its area.",
    )
    return plan.model_copy(update={"steps": (first, second), "recipe": AnswerRecipe(kind="value", steps=(2,), unit="ha")})


# two points in the estuary and two on land beside it, in pixels of the sample
POINTED = ((97, 57, 1), (60, 60, 0), (130, 60, 0), (97, 20, 0), (97, 95, 0))


def _water_pointed_at(paths: list[Path]) -> float:
    """Hectares of the pieces of NDWI > 0 that hold the points inside."""
    scene = truth.plain(paths[0], zeros_are_fill=True)
    pieces, _ = ndimage.label(scene.ratio(2, 4) > 0, structure=np.ones((3, 3)))
    held = {int(pieces[y, x]) for x, y, k in POINTED if k} - {0}
    return truth.area(scene, np.isin(pieces, sorted(held))) / 1e4


def prepare_files(folder: Path, found: Callable[[str], Path | None]) -> None:
    """Rasters that no folder holds as such: a cloudy scene stacked with its quality band, and two dates of a series of which one
    is mostly clouds. What they are made from may be missing; then their scenarios are left out."""
    parts = [found(f"multispectral/landsat8_cloudy/l8_{b}.tif") for b in ("B4", "B5", "BQA")]
    if all(parts):
        truth.stack([p for p in parts if p is not None], folder / CLOUDY, ("B4", "B5", "BQA"))
    (folder / "clouded").mkdir(exist_ok=True)
    for k, name in enumerate(CLOUDED):
        path = found(next(n for n in SINOP if name[-14:-4] in n))
        if path is not None:
            truth.clouded(path, folder / name, 0.7 if k == 0 else 0.0, fill=-3000)


def scenarios() -> list[Scenario]:
    """In a fixed order."""
    by_name = {c.name: c for c in bench_cases()}
    water, ndvi = by_name["fish-water-area"], by_name["fish-ndvi-mean"]
    cloudy = BenchCase(
        "cloudy", (CLOUDY,), "What is the mean NDVI?", truth.ndvi_where_clear, roles={1: "red", 2: "nir"}, is_shared=True
    )
    clouded = BenchCase("clouded", CLOUDED, "What is the mean NDVI on 2014-01-17?", lambda p: truth.sinop_mean(p[0]), within=0.05)
    pointed = BenchCase("pointed", (FISH,), water.question, _water_pointed_at, "ha", FISH_ROLES, tolerance=0.25)
    trees, vehicles = by_name["trees-count"], by_name["vehicles-count"]
    same_but_good = "the same where the tool was right in 57 of 60"
    index = Scenario(
        "index, no pixels",
        "an index without the source's pixels",
        ndvi,
        WITHOUT_PIXELS,
        faults=("bands_swapped", "red_read_as_nir", "offset_added", "tile_dropped"),
    )
    mask = Scenario(
        "water, no pixels",
        "a mask without the source's pixels",
        replace(water, tolerance=WATER),
        WITHOUT_PIXELS,
        faults=("bands_swapped", "leaked_mask", "shifted_mask", "tile_dropped"),
    )
    return [
        *_of_a_record("trees", "a detector", trees),
        *_of_a_record("vehicles", "a model", vehicles),
        Scenario(
            "pointed at",
            "a mask that grew from points, and no threshold to recompute it by",
            pointed,
            change=_pointed,
            faults=("points_misplaced",),
            record=Record(8, 20),
        ),
        Scenario(
            "clouds forgotten", "the plan leaves the quality band unused", cloudy, change=_clouds_forgotten, is_plan_wrong=True
        ),
        Scenario(
            "hole in the series",
            "the plan leaves five of twelve dates out",
            BenchCase("holed", SINOP, "What is the mean NDVI?", by_name["sinop-mean"].truth),
            change=_hole,
            is_plan_wrong=True,
        ),
        Scenario(
            "mostly clouds, no pixels",
            "three tenths of the date are seen; without the source's pixels",
            clouded,
            WITHOUT_PIXELS,
            change=_one_date,
            faults=("other_scene", "value_of_other_run"),
        ),
        replace(index, record=POOR),
        replace(index, name=f"{index.name}, no record", meaning="the same where nothing is known of the tool"),
        replace(index, name=f"{index.name}, good record", meaning=same_but_good, record=GOOD),
        replace(mask, record=POOR),
        replace(mask, name=f"{mask.name}, good record", meaning=same_but_good, record=GOOD),
    ]


def _of_a_record(name: str, what: str, case: BenchCase) -> tuple[Scenario, Scenario]:
    """The same detector with a poor record and with a good one."""
    poor = Scenario(
        f"{name}, poor record",
        f"{what} that was right in 2 of 20 labelled calls",
        case,
        record=POOR,
        faults=("objects_overlooked",),
    )
    return poor, replace(poor, name=f"{name}, good record", meaning=f"{what} that was right in 57 of 60", record=GOOD)


def run_scenarios(
    make_bench: Callable[[Sequence[BenchCase]], Bench],
    chosen: Sequence[Scenario] | None = None,
    *,
    on_run: Callable[[], None] = lambda: None,
) -> list[tuple[Scenario, str, Outcome]]:
    """(scenario, how the fault strikes, outcome) of every run: honest, each fault at every call, each at the first call alone."""
    every = list(scenarios() if chosen is None else chosen)
    bench = make_bench([replace(s.case, name=f"s{k}") for k, s in enumerate(every)])
    out: list[tuple[Scenario, str, Outcome]] = []
    for k, scenario in enumerate(every):
        case = next((c for c in bench.cases if c.name == f"s{k}"), None)
        if case is None:
            continue
        planner = ChangedPlanner(bench.door.planner, scenario.change) if scenario.change is not None else None
        right = bench.truth(case)
        state, box, seconds = bench.run(case, None, "none", None, planner=planner)
        plain = judged(bench, case, None, "none", right, set(), state, box, seconds)
        is_sound = plain.is_right and not scenario.is_plan_wrong
        planned = {call_digest(h.observation) for h in state.observations.values()} if is_sound else set()
        faults: list[Fault | None] = [None, *(FAULTS[f] for f in scenario.faults)]
        for fault in faults:
            for how in ("every call", "one call") if fault is not None else ("no call",):
                state, box, seconds = bench.run(
                    case, fault, scenario.configuration, scenario.record, is_once=how == "one call", planner=planner
                )
                if fault is not None and not box.struck:
                    continue
                found = judged(bench, case, fault, scenario.configuration, right, planned, state, box, seconds)
                if scenario.is_plan_wrong:
                    found = _called_incorrect(found)
                out.append((scenario, how, replace(found, case=scenario.name)))
                on_run()
    return out


def _called_incorrect(found: Outcome) -> Outcome:
    """What a wrong plan asked for is incorrect, unless it was made to mend it."""
    return replace(
        found,
        observations=tuple(replace(o, is_right=False) if not o.is_mending else o for o in found.observations),
        requests=tuple(replace(r, is_right=False) for r in found.requests),
    )


def table(runs: Sequence[tuple[Scenario, str, Outcome]]) -> list[dict[str, Any]]:
    """One row a scenario: honest and faulty runs by their ends. JSON-ready."""
    out = []
    for name in dict.fromkeys(s.name for s, _, _ in runs):
        mine = [(s, how, o) for s, how, o in runs if s.name == name]
        row: dict[str, Any] = {"scenario": name, "meaning": mine[0][0].meaning, "configuration": mine[0][0].configuration}
        for kind, those in (
            ("honest", [o for s, how, o in mine if how == "no call" and not s.is_plan_wrong]),
            ("faulty", [o for s, how, o in mine if how != "no call" or s.is_plan_wrong]),
        ):
            asked = [r for o in those for r in o.requests]
            changes = [r.p_after - r.p_before for r in asked if r.p_after is not None and r.p_before is not None]
            row[kind] = {
                "runs": len(those),
                "right": sum(o.is_right for o in those),
                "wrong": sum(o.is_wrong for o in those),
                "abstained": sum(o.is_abstained for o in those),
                "requests": [r.kind for o in those for r in o.requests if r.outcome == "answered"],
                "incorrect_accepted": sum(o.has_accepted_incorrect for o in those),
                "mean_change_of_p": float(np.mean(changes)) if changes else None,
            }
        out.append(row)
    return out
