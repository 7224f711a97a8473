"""Runs the bench: every case honestly and under every fault that can strike it, in three configurations, and counts.

Nothing is judged here by what verification knows: an observation is called incorrect where it differs from what the same
call says without the fault, and an answer is wrong where it differs from the independent truth.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apps.agent.loop import run_agent
from apps.agent.policy import AgentPolicy
from apps.core.errors import UserError
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.core.geo import SceneInfo
from apps.core.ports import Judge, LayerStore, Planner, RasterReader
from apps.evaluation.faultbench.cases import BenchCase, Value
from apps.evaluation.faultbench.faults import Fault
from apps.evaluation.faultbench.rig import (
    BenchPrior,
    FaultyToolBox,
    FolderBlobs,
    MakeToolBox,
    MemoryRecorder,
    TrustingJudge,
)

CONFIGURATIONS = ("none", "verification", "verification_prior")
# an observation's number is incorrect where it is off by more than this share of the honest one
VALUE_TOLERANCE = 0.005
# a layer is incorrect where more than this share of its True pixels differs
LAYER_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Door:
    """How the bench reaches the house: assembled by the command, which may import what this package may not."""

    make_toolbox: MakeToolBox
    make_layers: Callable[[FolderBlobs], LayerStore]
    make_judge: Callable[[Question, LayerStore, BenchPrior | None, Callable[[SceneInfo], RasterReader]], Judge]
    planner: Planner
    describe: Callable[[Path, dict[int, str], str], tuple[SceneInfo, Path]]
    open_scene: Callable[[SceneInfo, Path], RasterReader]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of the bench."""

    case: str
    fault: str
    family: str
    configuration: str
    task_type: str
    has_struck: bool
    is_incorrect: bool
    accepted_incorrect: bool
    rejected_right: int
    right_observations: int
    is_right: bool
    is_wrong: bool
    is_abstained: bool
    value: Any
    right: Any
    requests: int
    requests_answered: int
    accepted_after_request: int
    tool_calls: int
    elapsed_s: float
    verification_s: float
    caught_by: str


class Bench:
    """Holds prepared scenes, so that each file is inspected once."""

    def __init__(self, door: Door, cases: Sequence[BenchCase], folders: Sequence[Path], scratch: Path):
        self.door, self.folders = door, list(folders)
        self.blobs = FolderBlobs(scratch / "blobs")
        self.layers = door.make_layers(self.blobs)
        self.paths: dict[str, Path] = {}
        self.infos: dict[tuple[str, str], SceneInfo] = {}
        self.cases = [c for c in cases if all(self._find(f) for f in c.files)]
        self.missing = [c.name for c in cases if c not in self.cases]

    def _find(self, name: str) -> Path | None:
        for folder in self.folders:
            if (folder / name).is_file():
                return folder / name
            found = next(folder.rglob(Path(name).name), None) if folder.is_dir() else None
            if found is not None:
                return found
        return None

    def question(self, case: BenchCase) -> Question:
        infos = []
        for name in case.files:
            key = (name, repr(sorted(case.roles.items())))
            if key not in self.infos:
                path = self._find(name)
                assert path is not None
                scene_id = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
                self.infos[key], self.paths[scene_id] = self.door.describe(path, case.roles, scene_id)
            infos.append(self.infos[key])
        infos.sort(key=lambda s: (s.acquired_at is None, s.acquired_at or datetime.min.replace(tzinfo=UTC)))
        return Question(text=case.question, scenes=tuple(infos), region=case.region, choices=case.choices)

    def open_scene(self, info: SceneInfo) -> RasterReader:
        return self.door.open_scene(info, self.paths[info.scene_id])

    def truth(self, case: BenchCase) -> Value:
        return case.truth([path for f in case.files if (path := self._find(f)) is not None])

    def run(
        self, case: BenchCase, fault: Fault | None, configuration: str, prior: BenchPrior | None, *, is_once: bool = False
    ) -> tuple[RunState, FaultyToolBox, float]:
        """One run to its end; (state, tool box, seconds)."""
        question = self.question(case)
        box = FaultyToolBox(self.door.make_toolbox, self.open_scene, self.layers, fault, is_once=is_once)
        judge: Judge = (
            TrustingJudge()
            if configuration == "none"
            else self.door.make_judge(
                question, self.layers, prior if configuration == "verification_prior" else None, self.open_scene
            )
        )
        recorder = MemoryRecorder()
        began = time.perf_counter()
        name = f"bench-{case.name}-{fault.name if fault else 'honest'}"
        run_agent(
            question,
            planner=self.door.planner,
            toolbox=box,
            judge=judge,
            recorder=recorder,
            run_id=name[:64],
            policy=AgentPolicy(),
            clock=lambda: datetime.now(UTC),
        )
        return recorder.state(), box, time.perf_counter() - began

    def same(self, one: Observation, other: Observation) -> bool:
        """Whether two observations of one call say the same about the ground."""
        if one.result.kind != other.result.kind or one.result.unit != other.result.unit:
            return False
        a, b = one.result.value, other.result.value
        if isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool) and not isinstance(b, bool):
            if abs(a - b) > VALUE_TOLERANCE * max(abs(a), abs(b), 1e-12):
                return False
        elif a != b:
            return False
        if one.result.kind == "layer":
            return self._same_layers(one, other)
        return True

    def _same_layers(self, one: Observation, other: Observation) -> bool:
        mine = [x for x in one.result.layers if x.kind in ("mask", "boxes") and x.label != "candidates"]
        theirs = [x for x in other.result.layers if x.kind in ("mask", "boxes") and x.label != "candidates"]
        if len(mine) != len(theirs):
            return False
        for x, y in zip(mine, theirs, strict=True):
            if x.artifact == y.artifact:
                continue
            if x.kind == "boxes":
                return x.n == y.n and self.layers.read_features(x) == self.layers.read_features(y)
            m, _ = self.layers.read_mask(x)
            n, _ = self.layers.read_mask(y)
            if m.shape != n.shape or int((m ^ n).sum()) > LAYER_TOLERANCE * max(1, int(n.sum())):
                return False
            if x.grid != y.grid:
                return False
        return True


def _judged(
    bench: Bench,
    case: BenchCase,
    fault: Fault | None,
    configuration: str,
    right: Value,
    honest: RunState,
    state: RunState,
    box: FaultyToolBox,
    elapsed_s: float,
) -> Outcome:
    true_by_call = {o.call_key: o.observation for o in honest.observations.values()}
    true_by_step: dict[int, Observation] = {o.observation.step: o.observation for o in honest.observations.values()}
    struck = set(box.struck)
    incorrect, accepted, rejected_right, n_right, caught = False, False, 0, 0, ""
    for held in state.observations.values():
        o = held.observation
        reference = true_by_call.get(held.call_key) or true_by_step.get(o.step)
        is_bad = o.status.state != "failed" and reference is not None and not bench.same(o, reference)
        if held.id in struck and is_bad:
            incorrect = True
            accepted |= held.is_accepted
            if not held.is_accepted and held.decision is not None:
                failed = [c.check for c in held.checks if c.outcome == "failed"]
                caught = caught or (failed[0] if failed else held.decision.stage)
        elif o.status.state != "failed" and reference is not None and not is_bad and not (set(o.parents) & struck):
            n_right += 1
            rejected_right += held.effective == "reject"
    answer = state.answer
    is_abstained = answer is None or answer.abstained
    value: Any = None
    if answer is not None and not answer.abstained:
        value = answer.choice if case.choices else answer.value
        if case.unit in ("ha", "km2", "m2") and answer.unit not in (case.unit, None) and isinstance(value, int | float):
            value = (
                value
                * {"m2": 1.0, "ha": 1e4, "km2": 1e6}.get(answer.unit or "", float("nan"))
                / {"m2": 1.0, "ha": 1e4, "km2": 1e6}[case.unit]
            )
        if case.unit == "1" and answer.unit in ("percent", "%") and isinstance(value, int | float):
            value = value / 100
    is_right = not is_abstained and case.is_right(value, right)
    requests = [r for o in state.observations.values() for r in o.requests]
    return Outcome(
        case=case.name,
        fault=fault.name if fault else "",
        family=fault.family if fault else "",
        configuration=configuration,
        task_type=state.plan.task.task_type if state.plan else "",
        has_struck=bool(struck),
        is_incorrect=incorrect,
        accepted_incorrect=accepted,
        rejected_right=rejected_right,
        right_observations=n_right,
        is_right=is_right,
        is_wrong=not is_abstained and not is_right,
        is_abstained=is_abstained,
        value=value,
        right=right,
        requests=len(requests),
        requests_answered=sum(r.outcome == "answered" for r in requests),
        accepted_after_request=sum(bool(o.requests) and o.is_accepted for o in state.observations.values()),
        tool_calls=box.calls,
        elapsed_s=elapsed_s,
        verification_s=state.cost.verification_s,
        caught_by=caught,
    )


def run_bench(
    door: Door,
    cases: Sequence[BenchCase],
    faults: Iterable[Fault],
    folders: Sequence[Path],
    *,
    is_once: bool = False,
    configurations: Sequence[str] = CONFIGURATIONS,
    on_outcome: Callable[[Outcome], None] = lambda o: None,
    on_state: Callable[[BenchCase, Fault | None, str, RunState, set[str], bool], None] | None = None,
) -> tuple[list[Outcome], list[str]]:
    """(outcomes, names of cases whose files are absent). The prior of a case is learnt from the other cases alone."""
    faults = list(faults)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="rsure-faults-") as scratch:
        bench = Bench(door, cases, folders, Path(scratch))
        honest: dict[str, RunState] = {}
        rights: dict[str, Value] = {}
        prior = BenchPrior()
        for case in bench.cases:
            try:
                honest[case.name], _, _ = bench.run(case, None, "none", None)
            except UserError as error:
                raise UserError(error.code, f"Case {case.name}: {error.what}", error.why, error.fix) from None
            rights[case.name] = bench.truth(case)
        # offline labels: honest calls succeed, struck calls fail; a tool is taken to be faulty in one call of eight
        for case in bench.cases:
            for held in honest[case.name].observations.values():
                o = held.observation
                if o.status.state == "failed":
                    continue
                for k in range(8):
                    prior.learn(case.name, o.task.task_type, o.configuration.fine, k > 0)
        for case in bench.cases:
            prior.without = case.name
            for configuration in configurations:
                for fault in [None, *faults]:
                    state, box, seconds = bench.run(case, fault, configuration, prior, is_once=is_once)
                    if fault is not None and not box.struck:
                        continue
                    outcome = _judged(
                        bench, case, fault, configuration, rights[case.name], honest[case.name], state, box, seconds
                    )
                    outcomes.append(outcome)
                    on_outcome(outcome)
                    if on_state is not None:
                        on_state(case, fault, configuration, state, set(box.struck), outcome.is_incorrect)
        return outcomes, bench.missing


def _rate(num: int, den: int) -> float | None:
    return None if den == 0 else num / den


def summary(outcomes: Sequence[Outcome], *, n_boot: int = 400, seed: int = 7) -> dict[str, Any]:
    """Figures of PROTOCOL.md section 8 by configuration and by fault family; intervals by bootstrap over cases."""
    out: dict[str, Any] = {"configurations": {}, "families": {}, "faults": {}}
    for configuration in dict.fromkeys(o.configuration for o in outcomes):
        rows = [o for o in outcomes if o.configuration == configuration]
        out["configurations"][configuration] = _figures(rows) | {"R_prop_interval": _interval(rows, n_boot, seed)}
    for key in ("family", "fault"):
        table = out["families" if key == "family" else "faults"]
        for name in sorted({getattr(o, key) for o in outcomes if o.fault}):
            table[name] = {
                c: _figures([o for o in outcomes if getattr(o, key) == name and o.configuration == c])
                for c in dict.fromkeys(o.configuration for o in outcomes)
            }
    return out


def _figures(rows: Sequence[Outcome]) -> dict[str, Any]:
    struck = [o for o in rows if o.is_incorrect]
    honest = [o for o in rows if not o.fault]
    n_right = sum(o.right_observations for o in rows)
    verification = sum(o.verification_s for o in rows)
    return {
        "runs": len(rows),
        "honest_runs": len(honest),
        "R_dep": _rate(sum(o.tool_calls > 0 for o in rows), len(rows)),
        "R_err": _rate(len(struck), len([o for o in rows if o.fault])),
        "R_prop": _rate(sum(o.is_wrong for o in struck), len(struck)),
        "R_prop_not_answered_counts": _rate(sum(not o.is_right for o in struck), len(struck)),
        "incorrect_accepted": _rate(sum(o.accepted_incorrect for o in struck), len(struck)),
        "answer_accuracy": _rate(sum(o.is_right for o in rows), len(rows)),
        "honest_accuracy": _rate(sum(o.is_right for o in honest), len(honest)),
        "abstained": _rate(sum(o.is_abstained for o in rows), len(rows)),
        "right_rejected": _rate(sum(o.rejected_right for o in rows), n_right),
        "right_observations": n_right,
        "requests": sum(o.requests for o in rows),
        "requests_answered": sum(o.requests_answered for o in rows),
        "accepted_after_request": sum(o.accepted_after_request for o in rows),
        "tool_calls_per_run": _rate(sum(o.tool_calls for o in rows), len(rows)),
        "seconds_per_run": None if not rows else sum(o.elapsed_s for o in rows) / len(rows),
        "verification_share": None if not rows else verification / max(1e-9, sum(o.elapsed_s for o in rows)),
    }


def _interval(rows: Sequence[Outcome], n_boot: int, seed: int) -> tuple[float, float] | None:
    by_case: dict[str, list[Outcome]] = {}
    for o in rows:
        if o.is_incorrect:
            by_case.setdefault(o.case, []).append(o)
    if not by_case:
        return None
    names, draw = list(by_case), random.Random(seed)
    rates = []
    for _ in range(n_boot):
        picked = [o for _ in names for o in by_case[draw.choice(names)]]
        rates.append(sum(o.is_wrong for o in picked) / len(picked))
    rates.sort()
    return rates[int(0.025 * n_boot)], rates[min(n_boot - 1, int(0.975 * n_boot))]


def as_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Outcomes as plain mappings, for JSON Lines."""
    return [asdict(o) for o in outcomes]
