"""Where a layer lies: the scene under it, its grid upon the scene's, and the bounds of its features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, number_of


def kept_boxes(case: Case) -> LayerRef | None:
    """The layer of detections that count: boxes (or polygons of objects), not the candidates."""
    return next((r for r in case.observation.result.layers if r.kind in ("boxes", "polygons") and not r.is_aside), None)


def bounds_of(features: list[dict[str, Any]]) -> NDArray[np.float64]:
    """(n, 4) of x0, y0, x1, y1; NaN rows for features without readable coordinates."""
    out = np.full((len(features), 4), np.nan)
    for i, feature in enumerate(features):
        geometry = feature.get("geometry")
        points: list[tuple[float, float]] = []
        todo = [geometry.get("coordinates")] if isinstance(geometry, dict) else []
        while todo:
            at = todo.pop()
            if isinstance(at, (list, tuple)):
                if len(at) >= 2 and number_of(at[0]) is not None and number_of(at[1]) is not None:
                    points.append((float(at[0]), float(at[1])))
                else:
                    todo.extend(at)
        if points:
            xs, ys = [p[0] for p in points], [p[1] for p in points]
            out[i] = min(xs), min(ys), max(xs), max(ys)
    return out


def bounds_of_layer(case: Case, ref: LayerRef) -> NDArray[np.float64]:
    """``bounds_of`` a layer's features, read-only, made once for a case. Raises LayerUnreadableError."""

    def make() -> NDArray[np.float64]:
        out = bounds_of(case.features(ref))
        out.flags.writeable = False
        return out

    found: NDArray[np.float64] = case.kept(f"bounds:{ref.artifact}", make)
    return found


def scene_of_layer(case: Case, ref: LayerRef) -> SceneInfo | None:
    """The question's scene that a layer lies on."""
    if ref.source_scene_id in case.scenes:
        return case.scenes[str(ref.source_scene_id)]
    return case.used_scenes[0] if len(case.used_scenes) == 1 else None


def grid_offset(layer: Grid, scene: Grid) -> tuple[float, float] | None:
    """(columns, rows) from the scene's corner to the layer's; None where CRS or pixel size differ."""
    if layer.crs != scene.crs:
        return None
    a, b, _, d, e, _ = scene.transform
    a2, b2, c2, d2, e2, f2 = layer.transform
    if not _alike((a, b, d, e), (a2, b2, d2, e2)):
        return None
    return scene.colrow(c2, f2)


def _alike(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-12) for x, y in zip(one, other, strict=True))


def is_thinned(layer: Grid, scene: Grid) -> bool:
    """True where a layer keeps every 2nd, 3rd, … pixel of its whole scene (large scenes), from the scene's corner."""
    if layer.crs != scene.crs or layer.shape == scene.shape:
        return False
    a, b, c, d, e, f = scene.transform
    a2, b2, c2, d2, e2, f2 = layer.transform
    step = round(a2 / a) if a else 0
    reach = max(abs(a), abs(e))
    return (
        step >= 2
        and _alike((a2, b2, d2, e2), (a * step, b * step, d * step, e * step))
        and abs(c2 - c) <= step * reach
        and abs(f2 - f) <= step * reach
        and abs(layer.width * step - scene.width) <= step
        and abs(layer.height * step - scene.height) <= step
    )
