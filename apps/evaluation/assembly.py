"""What evaluation borrows from the house: tool box, judge and planner as runs assembles them, scenes described as ingest does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apps.core.digests import digest_file
from apps.core.evidence.plan import Question
from apps.core.geo import SceneInfo
from apps.core.geo.vector import VectorInfo
from apps.core.ports import Judge, LayerStore, PriorSource, RasterReader
from apps.evaluation.faultbench.runner import Door
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.readers import open_scene
from apps.imagery.vector_layers import vector_info_of
from apps.imagery.vectors import vector_read
from apps.runs.assembly import judge_for, planner, revision
from apps.runs.verifiers import calibrated_weights
from apps.tools.toolbox import LocalToolBox
from apps.verification.backends import CalibratedVerifier
from apps.verification.judge import CalibratedJudge


def bench_door(scratch: Path) -> Door:
    """The fault bench's way in: the same parts as a run's, with files in ``scratch`` in place of the database."""

    def describe(path: Path, roles: dict[int, str], scene_id: str, gsd_m: float | None) -> tuple[SceneInfo, Path]:
        hints = SceneHints(roles={role: index for index, role in roles.items()} or None, gsd_m=gsd_m)
        folder = Path(tempfile.mkdtemp(prefix="scene-", dir=scratch))
        cog = folder / "scene.tif"
        convert(path, cog, path.name, hints)
        found = inspect_file(path, path.name, hints, scene_id=scene_id, artifact=digest_file(path))
        return found.info, cog

    def describe_vector(path: Path, vector_id: str, layers: LayerStore) -> VectorInfo:
        return vector_info_of(vector_read(path, path.name), layers, vector_id=vector_id, name=path.name)

    def make_judge(
        question: Question,
        layers: LayerStore | None,
        prior: PriorSource | None,
        opener: Callable[[SceneInfo], RasterReader] | None,
        weights: Any,
    ) -> Judge:
        # without pixels or layers: the judge of observations that other agents hand in
        judge = CalibratedJudge(prior, layers) if layers is None or opener is None else judge_for(question, layers, prior, opener)
        if weights is not None:
            judge.verifier = CalibratedVerifier(weights)
        return judge

    return Door(
        make_toolbox=lambda opener, layers: LocalToolBox(open_scene=opener, layers=layers, revision=revision()),
        make_layers=ArtifactLayerStore,
        make_judge=make_judge,
        planner=planner(),
        describe=describe,
        open_scene=open_scene,
        describe_vector=describe_vector,
    )


def verifier_name() -> str:
    """The version of the verifier that judges by default."""
    return calibrated_weights().version
