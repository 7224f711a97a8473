"""The ports assembled: planner, tool box, judge, recorder, readers and layers for one run. The only place that knows them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.agent.planner.offline import OfflinePlanner
from apps.agent.policy import AgentPolicy
from apps.artifacts.services import ProjectBlobs
from apps.core.evidence.landmark import Landmark
from apps.core.evidence.plan import Plan, Question
from apps.core.evidence.prompt import Prompt
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import VectorInfo
from apps.core.ports import LayerStore, Planner, PriorSource, RasterReader, ToolBox
from apps.core.versions import installed_versions
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.readers import open_scene
from apps.imagery.selectors import scene_infos_of_project, scene_sources
from apps.imagery.stac import StacApi, StacFolder, search_apis, stac_folder
from apps.prior.selectors import DatabasePrior
from apps.runs.models import Run
from apps.runs.recorder import DatabaseRecorder
from apps.runs.verifiers import calibrated_weights, record_model
from apps.verification.backends import CalibratedVerifier
from apps.verification.judge import CalibratedJudge
from apps.verification.records.verifier import RecordVerifier

# Modes of perceive that load a vision model; a run that needs one goes to the vision queue.
VISION_MODES = frozenset({"objects", "scene"})
VISION_QUEUE = "vision"


def layers(project_id: Any = None) -> ArtifactLayerStore:
    """Result layers over the artifact store; what is put is linked to the project at once."""
    return ArtifactLayerStore(ProjectBlobs(project_id))


@lru_cache(maxsize=1)
def revision() -> str:
    """The checkout's commit, or the release that was built; empty where neither is known."""
    given = os.environ.get("RSURE_REVISION", "")
    if given:
        return given[:64]
    head = settings.BASE_DIR / ".git" / "HEAD"
    try:
        text = head.read_text().strip()
        if not text.startswith("ref: "):
            return text[:40]
        ref = settings.BASE_DIR / ".git" / text[5:]
        if ref.is_file():
            return ref.read_text().strip()[:40]
        packed = (settings.BASE_DIR / ".git" / "packed-refs").read_text()
        return next((line[:40] for line in packed.splitlines() if line.endswith(text[5:])), "")
    except OSError:
        return ""


def packages() -> dict[str, str]:
    """Versions of what computes values."""
    return installed_versions("numpy", "rasterio", "scikit-image", "scipy", "shapely", "pyproj", "torch", "ultralytics")


@dataclass(slots=True)
class Parts:
    """What the loop needs for one run."""

    planner: Planner
    toolbox: ToolBox
    judge: CalibratedJudge
    recorder: DatabaseRecorder
    loop_policy: AgentPolicy
    seed: int
    revision: str


def prior_source() -> PriorSource:
    return DatabasePrior()


def parts_for(run: Run) -> Parts:
    """Everything for one run."""
    from apps.tools.toolbox import LocalToolBox

    question = Question.model_validate(run.question)
    open_one = opener_of(question)
    store: LayerStore = layers(run.project_id)
    seed = run.pk.int & 0x7FFF_FFFF
    return Parts(
        planner=planner(),
        toolbox=LocalToolBox(
            open_scene=open_one,
            layers=store,
            seed=seed,
            revision=revision(),
            # a run that another worker takes up goes on from where the first one was cut off
            options=catalogue(run.project_id) | {"checkpoints": str(settings.RSURE_HOME / "checkpoints")},
        ),
        judge=judge_for(question, store, prior_source(), open_one),
        recorder=DatabaseRecorder(str(run.pk)),
        loop_policy=AgentPolicy(),
        seed=seed,
        revision=revision(),
    )


def catalogue(project_id: Any) -> dict[str, Any]:
    """Where asset.catalog looks beside the question's scenes: the project, the STAC folder and the STAC APIs of this site."""
    apis = [StacApi(url) for url in settings.RSURE_STAC_APIS]
    folder = stac_folder(Path(settings.RSURE_STAC)) if settings.RSURE_STAC else StacFolder()
    return {
        "stac_items": folder.items,
        "stac_n_unreadable": folder.n_unreadable,
        "stac_is_whole": folder.is_whole,
        "stac_search": (lambda query: search_apis(apis, query)) if apis else None,
        "project_scenes": lambda: scene_infos_of_project(project_id),
    }


def opener_of(question: Question) -> Callable[[SceneInfo], RasterReader]:
    """Opens scenes of the question. Paths are looked up now: the tools' reading threads never touch the database."""
    paths = scene_sources([s.scene_id for s in question.scenes])

    def open_one(info: SceneInfo) -> RasterReader:
        if info.scene_id not in paths:
            raise KeyError(info.scene_id)
        return open_scene(info, paths[info.scene_id])

    return open_one


def judge_for(
    question: Question, store: LayerStore, prior: PriorSource | None, open_scene: Callable[[SceneInfo], RasterReader]
) -> CalibratedJudge:
    """The judge of one question's observations. It opens the pixels itself and never shares a reader with a tool."""
    scenes = {s.scene_id: s for s in question.scenes}
    return CalibratedJudge(
        prior,
        store,
        reader=lambda scene_id: open_scene(scenes[scene_id]),
        verifier=CalibratedVerifier(calibrated_weights()),
        records=RecordVerifier(record_model),
    )


def planner() -> Planner:
    return OfflinePlanner()


def plan_preview(
    *,
    text: str,
    scenes: Sequence[SceneInfo],
    region: dict[str, Any] | None,
    region_crs: str,
    choices: dict[str, str],
    form: dict[str, Any] | None,
    vectors: Sequence[VectorInfo] = (),
    landmarks: Sequence[Landmark] = (),
    prompts: Sequence[Prompt] = (),
) -> Plan:
    """The plan of a question that is not asked yet."""
    return planner().plan(
        Question(
            text=text.strip() or "(asked by form)",
            scenes=tuple(scenes),
            vectors=tuple(vectors),
            landmarks=tuple(landmarks),
            prompts=tuple(prompts),
            region=region,
            region_crs=region_crs,
            choices=choices,
            form=form,
        )
    )


def judge_for_files() -> CalibratedJudge:
    """The judge for observations of scenes that are not here: layers where the artifact store has them, no source pixels."""
    return CalibratedJudge(
        prior_source(),
        layers(),
        verifier=CalibratedVerifier(calibrated_weights()),
        records=RecordVerifier(record_model),
    )


def judge_for_records(records: RecordVerifier | None = None, prior: PriorSource | None = None) -> CalibratedJudge:
    """The judge for recorded calls of other agents, which have no layers and no pixels."""
    return CalibratedJudge(prior, records=records)


def queue_for(run_id: Any) -> str:
    """``vision`` where the run's plan needs a vision model, else '' (any worker)."""
    run = Run.objects.get(pk=run_id)
    try:
        plan = planner().plan(Question.model_validate(run.question))
    except Exception:  # the loop meets the same fault and records it
        return ""
    return VISION_QUEUE if any(s.tool == "perceive" and s.arguments.get("mode") in VISION_MODES for s in plan.steps) else ""
