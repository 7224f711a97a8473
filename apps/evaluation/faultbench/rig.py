"""What the bench hands to the loop: a log in memory, blobs in a folder, a judge that takes all, a tool box with a fault."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apps.core.digests import digest_bytes, digest_file, digest_json
from apps.core.evidence.decision import CheckResult, Decision, PriorView
from apps.core.evidence.events import Event
from apps.core.evidence.fold import RunState, apply
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import SceneInfo
from apps.core.ports import LayerStore, RasterReader, ToolBox
from apps.evaluation.faultbench.faults import Call, Fault

OpenScene = Callable[[SceneInfo], RasterReader]
MakeToolBox = Callable[[OpenScene, LayerStore], ToolBox]


class MemoryRecorder:
    """Implements ``core.ports.Recorder`` over a list."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._state = RunState()

    def append(self, event: Event) -> int:
        self.events.append(event)
        apply(self._state, len(self.events), event)
        return len(self.events)

    def state(self) -> RunState:
        return self._state

    def is_cancelled(self) -> bool:
        return False


class FolderBlobs:
    """Content-addressed files in one folder, for the time of a bench."""

    def __init__(self, root: Path):
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes | Path, *, media_type: str = "") -> str:
        digest = digest_file(data) if isinstance(data, Path) else digest_bytes(data)
        path = self.root / digest[7:]
        if not path.exists():
            draft = path.with_suffix(f".{os.getpid()}")
            if isinstance(data, Path):
                shutil.copyfile(data, draft)
            else:
                draft.write_bytes(data)
            draft.replace(path)
        return digest

    def path(self, digest: str) -> Path:
        path = self.root / digest.removeprefix("sha256:")
        if not path.is_file():
            raise KeyError(digest)
        return path


class TrustingJudge:
    """The configuration without verification: what a tool says without an error is accepted. Exists for comparison alone."""

    def judge(self, observation: Observation, **_: Any) -> tuple[tuple[CheckResult, ...], Decision]:
        is_ok = observation.status.state != "failed"
        return (), Decision(
            decision="accept" if is_ok else "reject",
            stage="status",
            verifier="none",
            policy="none",
            reasons=() if is_ok else (observation.status.reason or "the tool failed",),
        )


class FaultyToolBox:
    """A tool box in which one fault strikes: at the first call that can suffer it (``once``) or at every such call.

    ``struck`` holds ids of observations that a fault was at; ``references`` what the same call, on the same parents, says without
    it. ``kept`` keeps references of calls without parents between the runs of one case. ``seen`` are the calls made.
    """

    def __init__(
        self,
        make: MakeToolBox,
        reader: OpenScene,
        layers: LayerStore,
        fault: Fault | None,
        *,
        is_once: bool,
        kept: dict[str, Observation] | None = None,
    ):
        self._make, self._reader, self._layers, self._fault, self._is_once = make, reader, layers, fault, is_once
        self._honest = make(reader, layers)
        self._kept = {} if kept is None else kept
        self.struck: list[str] = []
        self.references: dict[str, Observation] = {}
        self.seen: list[Call] = []
        self.calls = 0
        self.reference_s = 0.0

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
        self.calls += 1
        same: dict[str, Any] = {
            "question": question,
            "plan": plan,
            "step": step,
            "attempt": attempt,
            "run_id": run_id,
            "parents": parents,
            "progress": progress,
            "is_cancelled": is_cancelled,
        }
        call = Call(tool, arguments, question, step, parents)
        self.seen.append(call)
        fault = self._fault
        if fault is None or (self._is_once and self.struck) or not fault.strikes(call):
            return self._honest.call(tool=tool, arguments=arguments, **same)
        reader, layers = self._reader, self._layers
        if fault.reader is not None:
            reader = _through(fault, self._reader, call)
        if fault.layers is not None:
            layers = fault.layers(layers, call)
        box = self._honest if reader is self._reader and layers is self._layers else self._make(reader, layers)
        done = fault.arguments(arguments, call) if fault.arguments is not None else arguments
        observation = box.call(tool=tool, arguments=done, **same)
        if done is not arguments and fault.hides_arguments:
            observation = observation.model_copy(update={"arguments": arguments, "arguments_passed": arguments})
        if fault.report is not None:
            observation = fault.report(observation, call)
        if observation.status.state != "failed":
            self.struck.append(observation.id)
            began = time.perf_counter()
            self.references[observation.id] = self._reference(call, same)
            self.reference_s += time.perf_counter() - began
        return observation

    def _reference(self, call: Call, same: dict[str, Any]) -> Observation:
        """What the call says without the fault."""
        if call.parents:
            return self._honest.call(tool=call.tool, arguments=call.arguments, **same)
        key = digest_json([call.tool, call.arguments])
        if key not in self._kept:
            self._kept[key] = self._honest.call(tool=call.tool, arguments=call.arguments, **same)
        return self._kept[key]


def _through(fault: Fault, open_scene: OpenScene, call: Call) -> OpenScene:
    scenes = {s.scene_id: s for s in call.question.scenes}
    wrap = fault.reader
    assert wrap is not None
    return lambda info: wrap(info.scene_id, open_scene(info), lambda scene_id: open_scene(scenes[scene_id]), call)


class BenchPrior:
    """The prior of the bench: successes and trials of the same configurations in *other* cases, coarse on global.

    With concentration 8 a cell leans on the global rate, and that on (1, 1).
    """

    concentration = 8.0

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str, str, bool]] = Counter()
        self.without = ""

    def learn(self, case: str, task_type: str, fine: str, is_right: bool) -> None:
        self.outcomes[(case, task_type, fine, is_right)] += 1

    def view(self, *, task_type: str, tool: str, coarse: str, fine: str) -> PriorView:
        rows = [(k, n) for k, n in self.outcomes.items() if k[0] != self.without]
        s_all = sum(n for k, n in rows if k[3])
        n_all = sum(n for _, n in rows)
        base = (s_all + 1) / (n_all + 2)
        cell = [(k, n) for k, n in rows if k[1] == task_type and k[2] == fine]
        s, n = sum(c for k, c in cell if k[3]), sum(c for _, c in cell)
        r = (s + self.concentration * base) / (n + self.concentration)
        half = 1.645 * (r * (1 - r) / (n + self.concentration + 1)) ** 0.5
        return PriorView(
            r_hat=r,
            interval=(max(0.0, r - half), min(1.0, r + half)),
            n=n if n else n_all,
            level="fine" if n else "global",
            version="fault-bench",
            task_type=task_type,
            configuration=fine,
        )
