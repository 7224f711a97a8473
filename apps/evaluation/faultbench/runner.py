"""Runs the bench: every case honestly and under every fault that can strike it, in three configurations.

Nothing is judged here by what verification knows. An observation is *incorrect* where a fault was at it and what it says (value,
unit, items, layers) differs from what the same call on the same parents says without the fault. It is *right* where no fault was
at it or at any of its ancestors, it is a call of the plan, and the honest run of the case gives the true answer. What is neither
(a fault that changed nothing that is said, though perhaps its evidence; a second opinion; what was made from something
incorrect) is counted on neither side. An answer is wrong where it differs from the independent truth; an abstention is not.
``figures`` counts.
"""

from __future__ import annotations

import hashlib
import importlib.util
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apps.agent.loop import run_agent
from apps.agent.policy import AgentPolicy
from apps.core.digests import digest_json
from apps.core.errors import UserError
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.core.geo import SceneInfo
from apps.core.geo.vector import VectorInfo
from apps.core.ports import Judge, LayerStore, Planner, PriorSource, RasterReader
from apps.evaluation.faultbench import given
from apps.evaluation.faultbench.cases import NO_ANSWER, BenchCase, Value
from apps.evaluation.faultbench.faults import Fault
from apps.evaluation.faultbench.rig import (
    BenchPrior,
    FaultyToolBox,
    FolderBlobs,
    MakeToolBox,
    MemoryRecorder,
    TrustingJudge,
)
from apps.tools.zoo.runtime import has_torch

CONFIGURATIONS = ("none", "verification", "verification_prior")
# asked for by name: the judge reads result layers but not the source's pixels, and must ask where those would have told
WITHOUT_PIXELS = "verification_without_pixels"
# an observation's number is incorrect where it is off by more than this share of the honest one
VALUE_TOLERANCE = 0.005
# a layer is incorrect where more than this share of its True pixels differs
LAYER_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Door:
    """How the bench reaches the house: assembled by the command, which may import what this package may not."""

    make_toolbox: MakeToolBox
    make_layers: Callable[[FolderBlobs], LayerStore]
    make_judge: Callable[
        [Question, LayerStore | None, PriorSource | None, Callable[[SceneInfo], RasterReader] | None, Any], Judge
    ]
    planner: Planner
    describe: Callable[[Path, dict[int, str], str, float | None], tuple[SceneInfo, Path]]
    open_scene: Callable[[SceneInfo, Path], RasterReader]
    describe_vector: Callable[[Path, str, LayerStore], VectorInfo]


@dataclass(frozen=True, slots=True)
class Judged:
    """One observation as it ended: ``is_right`` True, False (incorrect) or None (neither); ``p_first`` the verifier's first
    probability, None where rules decided; ``features`` what the verifier saw at each judgement."""

    step: int
    tool: str
    is_right: bool | None
    end: str
    stage: str
    failed_checks: tuple[str, ...]
    p_first: float | None
    p_last: float | None
    features: tuple[dict[str, float], ...] = ()
    first: str = ""
    is_mending: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One evidence request and its end (the paper's Table 8). ``after`` is the observation's decision when all was done, or
    ``replaced`` where the observation that answered the request was accepted in its place; ``p_after`` then is that one's."""

    kind: str
    outcome: str
    is_right: bool | None
    p_before: float | None
    p_after: float | None
    after: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of the bench."""

    case: str
    fault: str
    family: str
    configuration: str
    task_type: str
    is_right: bool
    is_wrong: bool
    is_abstained: bool
    value: Any
    right: Any
    depends_on_tools: bool
    tool_calls: int
    elapsed_s: float
    tools_s: float
    verification_s: float
    judgements: tuple[float, ...] = ()
    observations: tuple[Judged, ...] = ()
    requests: tuple[Asked, ...] = ()

    @property
    def is_incorrect(self) -> bool:
        """At least one observation is incorrect, although its tool ran without an error."""
        return any(o.is_right is False for o in self.observations)

    @property
    def has_accepted_incorrect(self) -> bool:
        return any(o.is_right is False and o.end == "accept" for o in self.observations)


class Bench:
    """Holds prepared scenes and vector files, so that each file is inspected once.

    ``missing`` names cases whose files are not here, ``lacking`` those whose package is not: {case: package}.
    """

    def __init__(self, door: Door, cases: Sequence[BenchCase], folders: Sequence[Path], scratch: Path):
        own = scratch / "given"
        self.door, self.folders = door, [own, *folders]
        if any(name in given.NAMES for c in cases for name in (*c.files, *c.vectors)):
            given.write_files(own)
        self.blobs = FolderBlobs(scratch / "blobs")
        self.layers = door.make_layers(self.blobs)
        self.paths: dict[str, Path] = {}
        self.infos: dict[tuple[str, str], SceneInfo] = {}
        self.kept: dict[str, dict[str, Observation]] = {}
        self.vectors: dict[str, VectorInfo] = {}
        self.lacking = {c.name: c.needs for c in cases if c.needs and not _has(c.needs)}
        here = [c for c in cases if all(self._find(f) for f in (*c.files, *c.vectors))]
        self.cases = [c for c in here if c.name not in self.lacking]
        self.missing = [c.name for c in cases if c not in here]

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
            key = (name, repr(sorted(case.roles.items())))  # one file with other roles is another scene
            if key not in self.infos:
                path = self._find(name)
                assert path is not None
                scene_id = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
                self.infos[key], self.paths[scene_id] = self.door.describe(path, case.roles, scene_id, case.gsd_m)
            infos.append(self.infos[key])
        for name in case.vectors:
            if name not in self.vectors:
                path = self._find(name)
                assert path is not None
                vector_id = hashlib.sha256(name.encode()).hexdigest()[:32]
                self.vectors[name] = self.door.describe_vector(path, vector_id, self.layers)
        infos.sort(key=lambda s: (s.acquired_at is None, s.acquired_at or datetime.min.replace(tzinfo=UTC)))
        return Question(
            text=case.question,
            scenes=tuple(infos),
            vectors=tuple(self.vectors[name] for name in case.vectors),
            region=case.region,
            choices=case.choices,
        )

    def open_scene(self, info: SceneInfo) -> RasterReader:
        return self.door.open_scene(info, self.paths[info.scene_id])

    def truth(self, case: BenchCase) -> Value:
        return case.truth([path for f in (*case.files, *case.vectors) if (path := self._find(f)) is not None])

    def run(
        self,
        case: BenchCase,
        fault: Fault | None,
        configuration: str,
        prior: PriorSource | None,
        *,
        is_once: bool = False,
        weights: Any = None,
        planner: Planner | None = None,
    ) -> tuple[RunState, FaultyToolBox, float]:
        """One run to its end; (state, tool box, seconds). ``weights`` of the verifier are None for the shipped ones."""
        question = self.question(case)
        box = FaultyToolBox(
            self.door.make_toolbox, self.open_scene, self.layers, fault, is_once=is_once, kept=self.kept.setdefault(case.name, {})
        )
        judge: Judge = (
            TrustingJudge()
            if configuration == "none"
            else self.door.make_judge(
                question,
                self.layers,
                prior,
                None if configuration == WITHOUT_PIXELS else self.open_scene,
                weights,
            )
        )
        recorder = MemoryRecorder()
        began = time.perf_counter()
        name = f"bench-{case.name}-{fault.name if fault else 'honest'}"
        run_agent(
            question,
            planner=planner or self.door.planner,
            toolbox=box,
            judge=judge,
            recorder=recorder,
            run_id=name[:64],
            policy=AgentPolicy(),
            clock=lambda: datetime.now(UTC),
        )
        return recorder.state(), box, time.perf_counter() - began - box.reference_s

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
        return _same_items(one.result.items, other.result.items)

    def _same_layers(self, one: Observation, other: Observation) -> bool:
        mine = [x for x in one.result.layers if x.kind in ("mask", "boxes") and not x.is_aside]
        theirs = [x for x in other.result.layers if x.kind in ("mask", "boxes") and not x.is_aside]
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


def _same_items(mine: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> bool:
    """Whether two series or tables say the same: as many entries, numbers within VALUE_TOLERANCE, the rest equal."""
    if len(mine) != len(theirs):
        return False
    for one, other in zip(mine, theirs, strict=True):
        for key in one.keys() & other.keys() & {"value", "date", "scene", "label", "class", "p"}:
            a, b = one[key], other[key]
            if isinstance(a, int | float) and isinstance(b, int | float):
                if abs(a - b) > VALUE_TOLERANCE * max(abs(a), abs(b), 1e-12):
                    return False
            elif a != b:
                return False
    return True


def _has(package: str) -> bool:
    """Whether a package can be used: torch may be installed and switched off."""
    return has_torch() if package == "torch" else importlib.util.find_spec(package) is not None


_AREAS = {"m2": 1.0, "ha": 1e4, "km2": 1e6}


def _answered(case: BenchCase, state: RunState) -> tuple[Any, bool]:
    """(value in the case's unit, whether the run abstained)."""
    answer = state.answer
    if answer is None or answer.abstained:
        return None, True
    value: Any = answer.choice if case.choices else answer.value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if case.unit in _AREAS and answer.unit not in (case.unit, None) and is_number:
        value = value * _AREAS.get(answer.unit or "", float("nan")) / _AREAS[case.unit]
    if case.unit == "1" and answer.unit in ("percent", "%") and is_number:
        value = value / 100
    return value, False


def _is_right(case: BenchCase, value: Any, is_abstained: bool, right: Value) -> bool:
    """Whether the answer is the right one; of a question without an answer it is right to give none."""
    return is_abstained if right == NO_ANSWER else not is_abstained and case.is_right(value, right)


def _touched(state: RunState, struck: set[str]) -> set[str]:
    """Ids of observations that a fault was at, and of all that was made from them."""
    out = set(struck)
    for held in sorted(state.observations.values(), key=lambda h: h.seq):
        if out & set(held.observation.parents):
            out.add(held.id)
    return out


def judged(
    bench: Bench,
    case: BenchCase,
    fault: Fault | None,
    configuration: str,
    right: Value,
    planned: set[str],
    state: RunState,
    box: FaultyToolBox,
    elapsed_s: float,
) -> Outcome:
    """The outcome of a run. ``planned``: digests of the calls of the case's honest run, empty where that gave a wrong answer."""
    struck, touched = set(box.struck), _touched(state, set(box.struck))
    answers_requests = {r.supporting_id for h in state.observations.values() for r in h.requests}
    observations, requests = [], []
    for held in state.observations.values():
        o = held.observation
        is_right: bool | None = None
        if o.status.state != "failed":
            if held.id in struck:
                is_right = None if bench.same(o, box.references[held.id]) else False
                if is_right is False and held.id in answers_requests and not held.decisions:
                    is_right = None  # a second opinion, never judged itself
            elif held.id not in touched and held.id not in answers_requests and call_digest(o) in planned:
                is_right = True
        seen = [d for d in held.decisions if d.features]
        given = [d.p_correct for d in held.decisions if d.p_correct is not None and d.stage == "verifier"]
        observations.append(
            Judged(
                step=o.step,
                tool=o.tool,
                is_right=is_right,
                end=held.effective if o.status.state != "failed" else "failed",
                stage=held.decision.stage if held.decision else "",
                failed_checks=tuple(c.check for c in held.checks if c.outcome == "failed" and c.severity == "block"),
                p_first=given[0] if given else None,
                p_last=given[-1] if given else None,
                features=tuple(d.features for d in seen),
                first=held.decisions[0].decision if held.decisions else "",
                is_mending=held.id in answers_requests,
            )
        )
        requests += [_asked(state, held, r, is_right) for r in held.requests]
    value, is_abstained = _answered(case, state)
    is_right_answer = _is_right(case, value, is_abstained, right)
    return Outcome(
        case=case.name,
        fault=fault.name if fault else "",
        family=fault.family if fault else "",
        configuration=configuration,
        task_type=state.plan.task.task_type if state.plan else "",
        is_right=is_right_answer,
        is_wrong=not is_abstained and not is_right_answer,
        is_abstained=is_abstained and not is_right_answer,
        value=value,
        right=right,
        depends_on_tools=bool(state.observations),
        tool_calls=box.calls,
        elapsed_s=elapsed_s,
        tools_s=state.cost.tools_s,
        verification_s=state.cost.verification_s,
        judgements=tuple(d.elapsed_s for h in state.observations.values() for d in h.decisions if d.stage != "policy"),
        observations=tuple(observations),
        requests=tuple(requests),
    )


def _asked(state: RunState, held: Any, r: Any, is_right: bool | None) -> Asked:
    support = state.observations.get(r.supporting_id or "")
    if support is not None and support.is_accepted and not held.is_accepted:
        p = support.decision.p_correct if support.decision else None
        return Asked(r.request.kind, r.outcome, is_right, r.p_before, p, "replaced")
    return Asked(r.request.kind, r.outcome, is_right, r.p_before, r.p_after, held.effective)


def call_digest(o: Observation) -> str:
    """A call by what is the same in every run: tool and arguments, without ids of observations."""
    return digest_json([o.tool, o.step, _without_ids(o.arguments)])


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k != "observation"}
    if isinstance(value, list):
        return [_without_ids(v) for v in value]
    return value


@dataclass
class Prepared:
    """Cases with their honest runs, right answers and a prior from them."""

    bench: Bench
    honest: dict[str, RunState] = field(default_factory=dict)
    boxes: dict[str, FaultyToolBox] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    rights: dict[str, Value] = field(default_factory=dict)
    planned: dict[str, set[str]] = field(default_factory=dict)
    prior: BenchPrior = field(default_factory=BenchPrior)


def prepare(bench: Bench) -> Prepared:
    """Runs every case honestly and without verification. UserError names the case whose run failed."""
    out = Prepared(bench)
    for case in bench.cases:
        try:
            state, box, seconds = bench.run(case, None, "none", None)
        except UserError as error:
            raise UserError(error.code, f"Case {case.name}: {error.what}", error.why, error.fix) from None
        out.honest[case.name], out.boxes[case.name], out.seconds[case.name] = state, box, seconds
        out.rights[case.name] = bench.truth(case)
        value, is_abstained = _answered(case, state)
        # what says nothing is no right observation, even where nothing is to be said
        is_right = not is_abstained and _is_right(case, value, is_abstained, out.rights[case.name])
        out.planned[case.name] = {call_digest(h.observation) for h in state.observations.values()} if is_right else set()
        # offline labels: a tool is taken to be faulty in one call of eight, whatever the case
        for held in state.observations.values():
            o = held.observation
            if o.status.state != "failed":
                for k in range(8):
                    out.prior.learn(case.name, o.task.task_type, o.configuration.fine, k > 0)
    return out


def run_one(
    prepared: Prepared,
    case: BenchCase,
    fault: Fault | None,
    configuration: str,
    *,
    is_once: bool = False,
    weights: Any = None,
) -> Outcome | None:
    """One run, or None where the fault never strikes. The prior of a case is learnt from the other cases alone."""
    if fault is not None and configuration == "none" and not can_strike(prepared, case, fault):
        return None
    if fault is None and configuration == "none":
        state, box, seconds = prepared.honest[case.name], prepared.boxes[case.name], prepared.seconds[case.name]
    else:
        prior = prior_without(prepared.prior, case.name) if configuration == "verification_prior" else None
        state, box, seconds = prepared.bench.run(case, fault, configuration, prior, is_once=is_once, weights=weights)
    if fault is not None and not box.struck:
        return None
    return judged(
        prepared.bench, case, fault, configuration, prepared.rights[case.name], prepared.planned[case.name], state, box, seconds
    )


def prior_without(prior: BenchPrior, without: str) -> BenchPrior:
    """The same prior without one case's outcomes."""
    out = BenchPrior()
    out.outcomes, out.without = prior.outcomes, without
    return out


def can_strike(prepared: Prepared, case: BenchCase, fault: Fault) -> bool:
    """Whether a call of the case's honest run can suffer the fault."""
    return (not case.only or fault.family in case.only) and any(fault.strikes(c) for c in prepared.boxes[case.name].seen)


def run_bench(
    prepared: Prepared,
    faults: Iterable[Fault],
    *,
    is_once: bool = False,
    configurations: Sequence[str] = CONFIGURATIONS,
    limit: int | None = None,
    on_outcome: Callable[[Outcome], None] = lambda o: None,
    weights_for: Callable[[BenchCase, Fault | None], Any] = lambda case, fault: None,
) -> list[Outcome]:
    """All outcomes, case by case. ``limit`` bounds the faults tried on a case (spread over the list by the case's name)."""
    faults = list(faults)
    outcomes: list[Outcome] = []
    for case in prepared.bench.cases:
        mine = [f for f in faults if can_strike(prepared, case, f)]
        if limit is not None and len(mine) > limit:
            start = int(hashlib.sha256(case.name.encode()).hexdigest(), 16) % len(mine)
            mine = [mine[(start + i * len(mine) // limit) % len(mine)] for i in range(limit)]
        for configuration in configurations:
            for fault in [None, *mine]:
                outcome = run_one(prepared, case, fault, configuration, is_once=is_once, weights=weights_for(case, fault))
                if outcome is not None:
                    outcomes.append(outcome)
                    on_outcome(outcome)
    return outcomes


def as_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Outcomes as plain mappings, for JSON Lines."""
    return [asdict(o) for o in outcomes]
