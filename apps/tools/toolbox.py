"""The tool box: the three tools behind one call that always ends in an observation."""

from __future__ import annotations

import importlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from apps.core.digests import canonical_json
from apps.core.errors import FaultError, ModelError, ToolAbstainedError
from apps.core.evidence.observation import (
    INLINE_LIMIT,
    Configuration,
    Evidence,
    InputRef,
    JsonMap,
    LogLine,
    Observation,
    Provenance,
    Result,
    Status,
    Tool,
)
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.scene import SceneInfo
from apps.core.ids import new_id
from apps.core.ports import LayerStore, RasterReader
from apps.core.versions import installed_versions
from apps.tools.contract import (
    ARGUMENTS,
    ExecuteArguments,
    MeasureArguments,
    PerceiveArguments,
    ToolContext,
    ToolFailedError,
    ToolOutcome,
    input_ref,
)
from apps.tools.native import coarse_sentences, resampling_of
from apps.tools.sentences import validation_sentence, without_paths
from apps.tools.witness import WitnessReader

TOOL_VERSION = "0.1.0"
_PACKAGES = ("numpy", "scipy", "scikit-image", "shapely", "pyproj", "pydantic")
_FAILED_KIND = {"perceive": "layer", "measure": "count", "execute": "statistic"}
_log = logging.getLogger(__name__)

AnyArguments = PerceiveArguments | MeasureArguments | ExecuteArguments


def package_versions() -> dict[str, str]:
    """Versions of the packages that figures depend on."""
    return installed_versions(*_PACKAGES)


def _perceive(ctx: ToolContext, arguments: AnyArguments) -> ToolOutcome:
    from apps.tools.perceive.modes import run_perceive

    return run_perceive(ctx, cast(PerceiveArguments, arguments))


def _measure(ctx: ToolContext, arguments: AnyArguments) -> ToolOutcome:
    from apps.tools.measure.measure import run_measure

    return run_measure(ctx, cast(MeasureArguments, arguments))


def _execute(ctx: ToolContext, arguments: AnyArguments) -> ToolOutcome:
    from apps.tools.execute.graph import run_execute

    return run_execute(ctx, cast(ExecuteArguments, arguments))


RUN: dict[str, Callable[[ToolContext, AnyArguments], ToolOutcome]] = {
    "perceive": _perceive, "measure": _measure, "execute": _execute}


def configuration_before(tool: str, arguments: AnyArguments | None) -> Configuration:
    """What can be said of the configuration before the tool has run; a tool's own outcome replaces it."""
    module = {"perceive": "apps.tools.perceive.modes", "measure": "apps.tools.measure.measure",
              "execute": "apps.tools.execute.graph"}[tool]
    if arguments is None:
        return Configuration(coarse=tool, fine=tool)
    return cast(Configuration, importlib.import_module(module).configuration_of(arguments))


@dataclass
class _Recording:
    """Log lines with their times, and the readers that were opened."""

    started: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    lines: list[LogLine] = field(default_factory=list)
    readers: dict[str, WitnessReader] = field(default_factory=dict)

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def log(self, level: str, message: str) -> None:
        if len(self.lines) < INLINE_LIMIT - 1:
            self.lines.append(LogLine(at_s=round(self.elapsed(), 4), level=cast(Any, level),
                                      message=without_paths(message)[:2000]))


class LocalToolBox:
    """Implements ``core.ports.ToolBox`` in this process.

    ``open_scene`` opens the pixels of a scene of the question; ``layers`` keeps result layers. ``options`` reach every tool
    (``window_px`` and ``threads`` of the streaming engine, folders of the model zoo).
    """

    def __init__(self, *, open_scene: Callable[[SceneInfo], RasterReader], layers: LayerStore, seed: int = 0,
                 revision: str = "", options: Mapping[str, Any] | None = None):
        self._open_scene, self._layers = open_scene, layers
        self._seed, self._revision, self._options = seed, revision, dict(options or {})

    def call(self, *, tool: str, arguments: dict[str, Any], question: Question, plan: Plan, step: int, attempt: int = 0,
             run_id: str = "", parents: Sequence[Observation] = (),
             progress: Callable[[int, int, str], None] = lambda done, total, message: None,
             is_cancelled: Callable[[], bool] = lambda: False) -> Observation:
        """One call; every failure inside becomes an observation with status ``failed``. FaultError for an unknown tool."""
        if tool not in ARGUMENTS:
            raise FaultError(f"there is no tool {tool!r}")
        recording = _Recording()
        scenes = {s.scene_id: s for s in question.scenes}

        opening = threading.Lock()

        def reader(scene_id: str) -> RasterReader:
            # the engine's threads ask at once: one reader for all of them, or the other is never closed
            with opening:
                if scene_id not in recording.readers:
                    if scene_id not in scenes:
                        raise ModelError(f"The question has no scene {scene_id}.", code="NOT_FOUND")
                    recording.readers[scene_id] = WitnessReader(self._open_scene(scenes[scene_id]), len(scenes))
                return recording.readers[scene_id]

        ctx = ToolContext(
            question=question, plan=plan, step=step, attempt=attempt, run_id=run_id, parents=tuple(parents), reader=reader,
            layers=self._layers, progress=progress, is_cancelled=is_cancelled, seed=self._seed, revision=self._revision,
            options=self._options, log=recording.log)
        plain = _plain(arguments)
        parsed: AnyArguments | None = None
        outcome: ToolOutcome | None = None
        reason, needs, evidence, inputs = "", cast(dict[str, JsonValue], {}), Evidence(), cast(tuple[InputRef, ...], ())
        placed = ""  # the reason with its place in the call
        try:
            if plain is None:
                raise ModelError(f"The arguments of {tool} cannot be recorded: they hold numbers that are not finite, lists over "
                                 f"{INLINE_LIMIT} entries, or nest too deep.", code="BAD_ARGUMENT")
            parsed = ARGUMENTS[tool].model_validate(plain)
            outcome = RUN[tool](ctx, parsed)
        except ValidationError as error:
            reason, needs = f"The arguments of {tool} are wrong: {validation_sentence(error)}", {"code": "BAD_ARGUMENT"}
        except ModelError as error:
            reason, placed, needs = str(error), error.placed, {**error.needs, "code": error.code}
            if isinstance(error, ToolAbstainedError):
                needs["abstained"] = True
            if isinstance(error, ToolFailedError):
                evidence, inputs = error.evidence, error.inputs
        except KeyError as error:
            reason, needs = str(error.args[0] if error.args else error), {"code": "NOT_FOUND"}
            _log.warning("%s: missing key", tool, exc_info=True)
        except MemoryError:
            reason, needs = f"{tool} ran out of memory; ask for a region or a coarser image.", {"code": "TOO_LARGE"}
            _log.exception("%s ran out of memory", tool)
        except Exception as error:
            # ours to mend: the traceback stays in our log, the observation says what broke
            _log.exception("%s failed", tool)
            reason, needs = f"{tool} failed inside: {type(error).__name__}: {error}", {"code": "TOOL_FAILED"}
        finally:
            for opened in recording.readers.values():
                try:
                    opened.close()
                except Exception:
                    _log.exception("a reader could not be closed")
        try:
            return self._observation(ctx, tool, plain or {}, parsed, outcome, recording, reason, needs, evidence, inputs, placed)
        except ValidationError as error:
            # an outcome that breaks the protocol is a bug of the tool; the observation says so instead of vanishing
            _log.exception("%s gave an outcome outside the protocol", tool)
            return self._observation(ctx, tool, plain or {}, None, None, recording,
                                     f"{tool} gave a result outside the protocol: {validation_sentence(error)}",
                                     {"code": "BAD_OBSERVATION"}, Evidence(), ())

    def _observation(self, ctx: ToolContext, tool: str, arguments: dict[str, Any], parsed: AnyArguments | None,
                     outcome: ToolOutcome | None, recording: _Recording, reason: str, needs: dict[str, JsonValue],
                     evidence: Evidence, inputs: tuple[InputRef, ...], placed: str = "") -> Observation:
        reason = without_paths(reason)[:2000]
        packages = dict(package_versions())
        common: dict[str, Any] = {
            "id": new_id(), "run_id": ctx.run_id, "step": ctx.step, "attempt": ctx.attempt,
            "parents": tuple(o.id for o in ctx.parents), "task": ctx.plan.task, "tool": cast(Tool, tool), "arguments": arguments}
        if outcome is None:
            recording.log("error", placed or reason)
            configuration = configuration_before(tool, parsed)
            if not inputs:
                inputs = tuple(input_ref(s) for s in ctx.question.scenes if _mentions(arguments, s.scene_id))
            return Observation(
                **common, configuration=configuration, inputs=inputs, evidence=evidence,
                arguments_passed=parsed.model_dump(mode="json") if parsed is not None else {},
                status=Status(state="failed", started_at=recording.started_at, elapsed_s=recording.elapsed(),
                              log=tuple(recording.lines), reason=reason, needs=needs),
                result=Result(kind=cast(Any, _failed_kind(tool, parsed))),
                provenance=Provenance(tool_version=TOOL_VERSION, seed=ctx.seed, revision=ctx.revision, packages=packages))
        for sentence in coarse_sentences(outcome.inputs):
            recording.log("warning", sentence)
        return Observation(
            **common, configuration=outcome.configuration, arguments_passed=outcome.arguments_passed, inputs=outcome.inputs,
            evidence=_witnessed(_with_source(outcome.evidence, resampling_of(outcome.inputs, ctx.question.scenes)),
                                recording),
            result=outcome.result,
            status=Status(state=outcome.state, started_at=recording.started_at, elapsed_s=recording.elapsed(),
                          log=tuple(recording.lines), reason=without_paths(outcome.reason), needs=outcome.needs),
            provenance=Provenance(tool_version=TOOL_VERSION, seed=ctx.seed, device=outcome.device, revision=ctx.revision,
                                  packages=packages | outcome.packages))


def _witnessed(evidence: Evidence, recording: _Recording) -> Evidence:
    """The evidence with single pixels as the tool's readers gave them."""
    seen: dict[str, JsonValue] = {
        scene_id: {**found} for scene_id, reader in recording.readers.items() if (found := reader.seen())}
    return _with_source(evidence, {"pixels_read": seen} if seen else {})


def _with_source(evidence: Evidence, more: Mapping[str, JsonValue]) -> Evidence:
    return evidence.model_copy(update={"source": {**evidence.source, **more}}) if more else evidence


def _failed_kind(tool: str, parsed: AnyArguments | None) -> str:
    if isinstance(parsed, MeasureArguments):
        return {"density": "ratio"}.get(parsed.spec.metric, parsed.spec.metric)
    return _FAILED_KIND[tool]


def _mentions(arguments: Any, scene_id: str, depth: int = 0) -> bool:
    if depth > 12:
        return False
    if isinstance(arguments, dict):
        return any(_mentions(v, scene_id, depth + 1) for v in arguments.values())
    if isinstance(arguments, (list, tuple)):
        return any(_mentions(v, scene_id, depth + 1) for v in arguments)
    return bool(arguments == scene_id)


_JSON_MAP: TypeAdapter[dict[str, Any]] = TypeAdapter(JsonMap)


def _plain(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments as plain JSON; None where they cannot stand in an observation."""
    try:
        return _JSON_MAP.validate_python(json.loads(canonical_json(arguments)))
    except (ValueError, TypeError, RecursionError):
        return None
