"""What a share or a density is divided by: valid pixels, region, scene, reference, or the subject before it was narrowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2, geodesic_area_m2
from apps.tools.contract import ToolCancelledError, ToolContext
from apps.tools.measure.areas import feature_areas_m2, measure_area_or_px
from apps.tools.measure.counts import measure_count
from apps.tools.measure.figure import Figure
from apps.tools.measure.layers import Measured, needs_length
from apps.tools.perceive.veil import veil_told
from apps.tools.region import RegionMask, polygon_from_geojson


def denominator_of(ctx: ToolContext, subject: Measured, reference: Measured | None, asked: str, of: str, base: Figure,
                 region: Mapping[str, Any] | None, region_crs: str) -> tuple[float, str]:
    """(amount, what) that a ratio is divided by, in the unit of its numerator: pixels, m², or a number. ModelError where that is
    not there."""
    what = asked or ("reference" if reference is not None else "valid")
    if "cut" in base.evidence and what == "reference":
        if base.evidence["cut"] != "area" or "outlines_m2" not in base.evidence:
            raise ModelError("A length has no share of an area; divide by the subject's own.", code="BAD_ARGUMENT")
        return float(str(base.evidence["outlines_m2"])), what
    if what == "subject":
        return float(str(base.evidence["whole"])), what
    if what == "reference":
        if reference is None:
            raise ModelError("The ratio needs a reference layer.", code="BAD_ARGUMENT", needs={"reference": True})
        other = measure_count(reference) if of == "count" else measure_area_or_px(ctx, reference)
        if of == "area" and (other.evidence.get("method") == "pixels") != (base.evidence.get("method") == "pixels"):
            raise ModelError("One layer has a GSD and the other has none; their areas have no ratio.", code="NEEDS_GSD",
                             needs={"gsd_m": True})
        base.evidence["reference"] = {"value": other.value, "n_px": other.n_px}
        return other.value, "reference"
    if base.evidence.get("method") == "pixels":
        return float(_pixels(ctx, subject, what, region, region_crs)), what
    area, _ = denominator_area(ctx, subject, what, reference, region, region_crs)
    base.evidence["denominator_px"] = _pixels(ctx, subject, what, region, region_crs) if subject.grid is not None else None
    return area, what


def _seen(ctx: ToolContext, subject: Measured, region: Mapping[str, Any] | None, region_crs: str,
          ) -> Iterator[tuple[NDArray[np.bool_], Grid]]:
    """Strips of the scene that features were found on: (True where any of its bands is valid and the quality band by which they
    were found hides nothing, inside the region; grid)."""
    assert subject.scene is not None and subject.parent is not None
    scene, reader = subject.scene, ctx.reader(subject.scene.scene_id)
    inside = RegionMask.of(region, region_crs, scene.grid, scene.name)
    left, top, width, height = inside.bounds_px
    bands = [b.index for b in scene.bands]
    veil = veil_told(subject.parent, scene, reader)
    for r in range(top, top + height, 512):
        if ctx.is_cancelled():
            raise ToolCancelledError
        window = (left, r, width, min(512, top + height - r))
        valid = reader.read(bands, window, physical=False).valid.any(axis=0)
        if veil is not None:
            valid &= ~veil.hidden(window)
        yield valid & inside.mask(window), scene.grid.window(*window)


def _is_of_pixels(subject: Measured) -> bool:
    """Whether these are features that were found on a scene's pixels, and not on a layer of another grid."""
    return subject.scene is not None and subject.parent is not None and subject.grid == subject.scene.grid


def _pixels(ctx: ToolContext, subject: Measured, what: str, region: Mapping[str, Any] | None, region_crs: str) -> int:
    grid = subject.grid
    if grid is None:
        raise ModelError("The layer has no grid, so it has no valid pixels to divide by.", code="BAD_ARGUMENT")
    if what == "valid":
        if subject.valid is not None:
            return int(subject.valid.sum())
        if _is_of_pixels(subject):
            return sum(int(np.count_nonzero(seen)) for seen, _ in _seen(ctx, subject, region, region_crs))
        what = "region" if region is not None else "scene"
    if what == "region" and region is not None:
        return RegionMask.of(region, region_crs, grid).n_px
    if what == "region":
        raise ModelError("There is no region to divide by.", code="BAD_REGION", needs={"region": True})
    return grid.width * grid.height


def denominator_area(ctx: ToolContext, subject: Measured, asked: str, reference: Measured | None,
                      region: Mapping[str, Any] | None, region_crs: str) -> tuple[float, str]:
    """(m², what) of valid pixels (of the region, where there is one), scene, region or reference."""
    is_seen = subject.valid is not None or _is_of_pixels(subject)
    what = asked or ("valid" if is_seen else "region" if region is not None else "scene")
    if what == "reference":
        if reference is None:
            raise ModelError("The density needs a reference layer.", code="BAD_ARGUMENT", needs={"reference": True})
        if reference.mask is not None:
            assert reference.grid is not None
            return area_of_mask_m2(reference.mask, reference.grid, reference.gsd_m).area_m2, what
        return float(sum(feature_areas_m2(reference)[0])), what
    needs_length(subject)
    grid = subject.grid
    if grid is None:
        if region is None or region_crs == "image" or what == "scene":
            raise ToolAbstainedError(
                "What is given on the map has no ground of its own. Say over which area: draw a region, or name a layer of "
                "polygons.", code="NEEDS_REGION", needs={"region": True})
        return geodesic_area_m2(shapely.orient_polygons(polygon_from_geojson(region)), region_crs), "region"
    if what == "valid" and subject.valid is not None:
        return area_of_mask_m2(subject.valid, grid, subject.gsd_m).area_m2, what
    if what == "valid" and _is_of_pixels(subject):
        seen = _seen(ctx, subject, region, region_crs)
        return sum(area_of_mask_m2(valid, strip, subject.gsd_m).area_m2 for valid, strip in seen), what
    if what == "valid":
        what = "region" if region is not None else "scene"
    if what == "region":
        if region is None:
            raise ModelError("There is no region to divide by.", code="BAD_REGION", needs={"region": True})
        inside = RegionMask.of(region, region_crs, grid)
        return _windowed_area(inside, grid, subject.gsd_m), what
    return _windowed_area(RegionMask(None, grid), grid, subject.gsd_m), what


def _windowed_area(region: RegionMask, grid: Grid, gsd_m: float | None) -> float:
    """Area of a region's pixels, strip by strip."""
    left, top, width, height = region.bounds_px
    total = 0.0
    for r in range(top, top + height, 512):
        window = (left, r, width, min(512, top + height - r))
        total += area_of_mask_m2(region.mask(window), grid.window(*window), gsd_m).area_m2
    return total
