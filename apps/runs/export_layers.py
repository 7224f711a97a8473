"""The vector layers of a run as files take them: each in its own CRS, with what the machine and a person said of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import mapping, shape

from apps.core.errors import UserError
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import ASIDE, LayerRef
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore
from apps.imagery.geopackage import MAX_FEATURES, GeoPackageLayer, safe_name
from apps.runs.mapview import vectors_used

VECTOR_KINDS = ("boxes", "polygons", "points")
# Layers of an objects observation that are not what it found.
NO_FINDINGS = (*ASIDE, "reference")
Placing = Callable[[NDArray[np.float64]], NDArray[np.float64]]
PIXELS = "Pixel coordinates: x to the right, y down, from the upper left corner, in pixels and not in metres; no CRS."


def vector_refs(held: Iterable[ObservationState]) -> Iterator[tuple[ObservationState, LayerRef]]:
    """The vector layers of the observations, in order."""
    for one in held:
        for ref in one.observation.result.layers:
            if ref.kind in VECTOR_KINDS:
                yield one, ref


def scene_of(ref: LayerRef, scenes: Iterable[SceneInfo]) -> SceneInfo | None:
    """The scene that a layer was made from: the named one, else the only one of the question."""
    known = list(scenes)
    return next((s for s in known if s.scene_id == ref.source_scene_id), known[0] if len(known) == 1 else None)


def placed(ref: LayerRef, scene: SceneInfo | None) -> tuple[str | None, Placing]:
    """(CRS of the layer on the ground, from the layer's coordinates (n, 2) to it); None: pixels of a scene without CRS."""
    if ref.crs != "image":
        return ref.crs, lambda points: points
    if scene is None or scene.grid.crs is None:
        return None, lambda points: points
    a, b, c, d, e, f = scene.grid.transform
    return scene.grid.crs, lambda p: np.column_stack([a * p[:, 0] + b * p[:, 1] + c, d * p[:, 0] + e * p[:, 1] + f])


def to_pixels(ref: LayerRef, grid: Grid) -> Placing:
    """From the layer's coordinates (n, 2) to columns and rows of the grid. ValueError where the grid has no CRS to go through."""
    if ref.crs == "image":
        return lambda points: points
    if grid.crs is None:
        raise ValueError(f"a layer in {ref.crs} has no pixels on a grid without CRS")
    to_grid = None if ref.crs == grid.crs else transformer(ref.crs, grid.crs)
    a, b, c, d, e, f = grid.transform
    det = a * e - b * d

    def place(points: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = (points[:, 0], points[:, 1]) if to_grid is None else to_grid.transform(points[:, 0], points[:, 1])
        x, y = np.asarray(x) - c, np.asarray(y) - f
        return np.column_stack([(e * x - b * y) / det, (a * y - d * x) / det])

    return place


def marks(state: RunState, held: ObservationState) -> dict[str, Any]:
    """Both marks of an observation, and whether the answer may rest on it, as attributes."""
    decision, verdict = held.decision, held.verdict
    return {
        "observation": held.id,
        "step": held.observation.step,
        "attempt": held.observation.attempt,
        "configuration": f"{held.observation.tool} {held.observation.configuration.fine}",
        "decision": decision.decision if decision else None,
        "p_correct": decision.p_correct if decision else None,
        "verdict": verdict.value if verdict else None,
        "verdict_by": verdict.author if verdict else None,
        "in_history": state.is_in_history(held.id),
    }


def has_vectors(state: RunState) -> bool:
    """Whether a GeoPackage of the run would hold a layer."""
    question = state.question
    return bool(
        (question and (question.region or question.landmarks))
        or vectors_used(state)
        or next(vector_refs(state.observations.values()), None)
    )


def geopackage_layers(state: RunState, store: LayerStore) -> list[GeoPackageLayer]:
    """All vector layers of the run: the region and the marked places of the question, the vector files that its plan names, and
    what every observation found, rejected ones too (``decision``, ``verdict`` and ``in_history`` tell). UserError TOO_LARGE
    beyond MAX_FEATURES."""
    question = state.question
    scenes = question.scenes if question else ()
    out: list[GeoPackageLayer] = []
    n = 0

    def add(name: str, crs: str | None, about: str, kind: str, features: list[dict[str, Any]]) -> None:
        nonlocal n
        n += len(features)
        if n > MAX_FEATURES:
            raise UserError(
                "TOO_LARGE", "The layers are too large for one GeoPackage.",
                f"They hold more than {MAX_FEATURES:,} features.", "Take them one by one from their observations.", status=413,
            )  # fmt: skip
        out.append(
            GeoPackageLayer(
                name=safe_name(name, [o.name for o in out]), crs=crs, description=(about if crs else f"{about} {PIXELS}")[:1000],
                geometry_type="Point" if kind == "points" else "Polygon", features=features,
            )
        )  # fmt: skip

    if question and question.region:
        crs = None if question.region_crs == "image" else question.region_crs
        feature = {"type": "Feature", "geometry": question.region, "properties": {"label": "region of the question"}}
        add("region", crs, "Region of the question.", "polygons", [feature])
    for frame in dict.fromkeys(m.crs for m in (question.landmarks if question else ())):
        places = [
            {
                "type": "Feature",
                "geometry": mapping(shapely.box(*m.box) if m.box else shapely.Point(m.middle)),
                "properties": {"label": m.name, "precision": m.precision},
            }
            for m in (question.landmarks if question else ())
            if m.crs == frame
        ]
        add("marks", None if frame == "image" else frame, "Places that the person marked.", "points", places)
    for vector in vectors_used(state):
        shapes, crs = store.read_vector(vector.artifact)
        add(f"input_{vector.name.rsplit('.', 1)[0]}", crs, f"Vector file “{vector.name}” as it was measured.", "polygons", shapes)
    for held, ref in vector_refs(state.observations.values()):
        o = held.observation
        crs, place = placed(ref, scene_of(ref, scenes))
        said = marks(state, held)
        features = []
        for f in store.read_features(ref):
            given = dict(f.get("properties") or {})
            own = {"label": str(given.get("class") or given.get("label") or ref.label), "score": _number(given.get("score"))}
            more = {k: v for k, v in given.items() if k not in own and k not in said}
            geometry = mapping(shapely.transform(shape(f["geometry"]), place))
            features.append({"type": "Feature", "geometry": geometry, "properties": own | said | more})
        tries = f"_{o.attempt + 1}" if o.attempt else ""
        about = f"Observation {o.step}, {o.tool} {o.configuration.fine}: {ref.label or ref.kind}."
        add(f"obs{o.step}{tries}_{ref.label}_{ref.kind}", crs, about, ref.kind, features)
    return out


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def safe_file_name(text: str, default: str) -> str:
    """The last part of a name as a file name that leads nowhere: letters, digits, ``._-`` and spaces, no dot at its head."""
    last = re.split(r"[/\\]", text)[-1]
    plain = "".join(c if c.isalnum() or c in "._- " else "_" for c in last).strip(" .")[:120]
    return plain or default
