"""An independent second look: recomputes products from the source's pixels with code of its own, whole or in sampled windows.

Nothing here is shared with the tools. What it cannot follow (an operator it does not know, grids that differ) it says:
``CannotLookError``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.case import Case, number_of
from apps.verification.estimates import Estimate, estimate
from apps.verification.formulas import INDICES, difference, ratio
from apps.verification.inversions import INVERSIONS
from apps.verification.pixel_areas import areas_of
from apps.verification.pixel_sides import pixel_m, turned_pixel_m
from apps.verification.planes import CannotLookError, Plane
from apps.verification.products import (
    NotFollowedError,
    Pixels,
    anomaly_of,
    best_between,
    best_cut,
    best_of,
    between_of,
    classes_of,
    component_of,
    composite_of,
    cover_of,
    dryness_of,
    edges_of,
    focal_of,
    halo_of,
    math_of,
    names_in,
    pixel_trend_of,
    sharpened,
    syntax_of,
    terrain_of,
)
from apps.verification.quality import DEFAULT, flagged, quality_band_of
from apps.verification.ribbons import hot_spots
from apps.verification.scattered import places_of
from apps.verification.sights import Sight, scene_of_node, step_of

OPS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


# pixels times neighbours that are looked at in one window
_NEIGHBOURS_AT_ONCE = 300_000


class Look(Sight):
    """Evaluates nodes of the case's graph, or a perceive method, on windows of the source."""

    def __init__(self, case: Case):
        super().__init__(case)
        self._planes: dict[Any, Plane] = {}

    # --- nodes ----------------------------------------------------------------------------------------------------------
    def node(self, node_id: str, window: Window) -> Plane:
        """The plane of a product node. CannotLookError for what it cannot follow."""
        key = (node_id, window)
        if key not in self._planes:
            plane = self._node(node_id, window)
            node = self.case.nodes[node_id]
            if node["params"].get("quality_mask") == "auto":
                named = node["params"].get("quality_flags") or ()
                plane = self._unflagged(scene_of_node(self.case, node_id), plane, tuple(str(f) for f in named), window)
            self._planes[key] = plane
        return self._planes[key]

    def flags(
        self, scene: SceneInfo, window: Window, flags: tuple[str, ...] = (), scheme: str = "", index: int | None = None
    ) -> Plane:
        """Where the scene's quality band flags its pixels, as 0 and 1, by the verifier's own table."""
        chosen = (
            quality_band_of(scene.bands)
            if index is None and not scheme
            else next((b for b in scene.bands if b.role == "qa" and index in (None, b.index)), None)
        )
        if chosen is None:
            raise CannotLookError("the scene has no quality band that the second look can read")
        scheme = scheme or chosen.scheme
        held = self._read(scene, (chosen.index,), window)
        found = flagged(held.data[0], scheme, flags or DEFAULT.get(scheme, ()))
        if found is None or not scheme:
            raise CannotLookError(f"the second look does not know these flags of {scheme or 'the quality band'}")
        return Plane(found.astype(np.float64), held.valid[0])

    def _unflagged(self, scene: SceneInfo, plane: Plane, flags: tuple[str, ...], window: Window) -> Plane:
        quality = self.flags(scene, window, flags)
        return Plane(plane.data, plane.valid & quality.valid & (quality.data == 0))

    def _node(self, node_id: str, window: Window) -> Plane:
        node = self.case.nodes.get(node_id)
        if node is None:
            raise CannotLookError(f"the graph has no node {node_id}")
        op, params, inputs = node["op"], node["params"], node["inputs"]
        if op == "raster.product.index":
            return self.index(scene_of_node(self.case, node_id), str(params.get("index")).lower(), window)
        if op == "raster.product.band":
            role = str(params.get("role") or params.get("band") or "")
            return self.bands(scene_of_node(self.case, node_id), (role,), window)[role]
        if op == "raster.product.amplitude":
            return self._amplitude(scene_of_node(self.case, node_id), params, window)
        if op in ("raster.product.normalized_difference", "raster.product.ratio"):
            one, other = self._pair(node_id, window)
            both = one.valid & other.valid
            data = (difference if op.endswith("normalized_difference") else ratio)(one.data, other.data)
            return Plane(data, both & np.isfinite(data))
        if op == "raster.product.difference" and len(inputs) == 2:
            # on one grid there is nothing to resample, whatever was asked; other grids are not followed
            scene_of_node(self.case, node_id)
            return change(self.node(inputs[0], window), self.node(inputs[1], window), str(params.get("mode") or "difference"))
        if op == "raster.product.class_values" and len(inputs) == 1:
            wanted = [number_of(v) for v in params.get("values") or ()]
            plane = self.node(inputs[0], window)
            return Plane(np.isin(plane.data, [v for v in wanted if v is not None]).astype(np.float64), plane.valid)
        if op == "raster.product.apply_mask" and len(inputs) == 2:
            scene_of_node(self.case, node_id)
            plane, mask = self.node(inputs[0], window), self.node(inputs[1], window)
            chosen = (mask.data != 0) == (str(params.get("keep", "true")) == "true")
            return Plane(plane.data, plane.valid & mask.valid & chosen)
        if op == "raster.product.qa_mask" and len(inputs) == 1:
            scheme, at = str(params.get("scheme") or ""), params.get("band")
            return self.flags(
                scene_of_node(self.case, node_id),
                window,
                tuple(str(f) for f in params.get("flags") or ("cloud", "shadow")),
                "" if scheme == "auto" else scheme,
                at if isinstance(at, int) else None,
            )
        if op == "raster.product.logic" and len(inputs) >= 2:
            scene_of_node(self.case, node_id)
            return self._logic(str(params.get("op") or "and"), [self.node(n, window) for n in inputs])
        if op == "raster.product.threshold" and len(inputs) == 1 and str(params.get("op") or ">") in OPS:
            value = self.threshold(node_id)
            plane = self.node(inputs[0], window)
            with np.errstate(invalid="ignore"):
                return Plane(OPS[str(params.get("op") or ">")](plane.data, value).astype(np.float64), plane.valid)
        if op == "raster.product.getis_ord" and len(inputs) == 1:
            return self._hot_spots(node_id, window)
        try:
            made = self._product(node_id, op, params, inputs, window)
        except NotFollowedError as why:
            raise CannotLookError(str(why)) from why
        return Plane(np.asarray(made[0], dtype=np.float64), made[1])

    def _amplitude(self, scene: SceneInfo, params: dict[str, Any], window: Window) -> Plane:
        """Amplitude, its square, or 20 log10 of it, of a band that the scene knows as amplitude."""
        role, scale = str(params.get("role") or ""), str(params.get("scale") or "amplitude")
        band = next((b for b in scene.bands if b.role == role), None)
        if band is None or not (band.is_amplitude or band.unit == "amplitude") or scale not in ("amplitude", "power", "dB"):
            raise CannotLookError("the scene does not say that the band is an amplitude")
        held = self.bands(scene, (role,), window)[role]
        valid = held.valid & (held.data >= 0)
        if scale == "dB":
            valid = valid & (held.data > 0)
            return Plane(20 * np.log10(np.where(valid, held.data, 1.0)), valid)
        return Plane(held.data if scale == "amplitude" else held.data * held.data, valid)

    def _product(self, node_id: str, op: str, params: dict[str, Any], inputs: list[str], window: Window) -> Pixels:
        """A product by the formulas of ``products``. CannotLookError, NotFollowedError."""
        if not op.startswith("raster.product.") or not inputs:
            raise CannotLookError(f"the second look does not follow {op}")
        scene = scene_of_node(self.case, node_id)

        def planes(names: list[str]) -> list[Pixels]:
            return [(p.data, p.valid) for p in (self.node(n, window) for n in names)]

        halo = halo_of(op, params)
        if halo is not None and len(inputs) == 1:
            return self._with_neighbours(scene, op, params, inputs[0], window, halo)
        match op.removeprefix("raster.product."):
            case "math":
                text = str(params.get("expression") or "")
                if self.case.nodes.get(inputs[0], {}).get("op") == "asset.scene":
                    roles = self.bands(scene, tuple(names_in(syntax_of(text))), window)
                    return math_of(text, {role: (p.data, p.valid) for role, p in roles.items()})
                return math_of(text, dict(zip(inputs, planes(inputs), strict=True)))
            case "classify" if len(inputs) == 1:
                return classes_of(planes(inputs)[0], params)
            case "vegetation_cover" if len(inputs) == 1:
                soil, full = self._cover_ends(node_id, inputs[0], params)
                return cover_of(planes(inputs)[0], soil, full)
            case "tvdi" if len(inputs) == 2:
                least = number_of(params.get("least_ndvi", 0.2))
                one, other = planes(inputs)
                return dryness_of(one, other, self._dryness_edges(node_id, params), 0.2 if least is None else least)
            case "composite":
                return composite_of(planes(self._of_period(inputs, params)), params)
            case "best_pixel" if len(inputs) % 2 == 0:
                half = len(inputs) // 2
                return best_of(planes(inputs[:half]), planes(inputs[half:]), str(params.get("pick") or "max"))
            case "anomaly":
                now, *past = planes(inputs)
                return anomaly_of(now, past, params)
            case "pixel_trend":
                days = [scene_of_node(self.case, n).acquired_at for n in inputs]
                known = [d for d in days if d is not None]
                if len(known) < len(inputs):
                    raise CannotLookError("a scene has no date")
                years = [(d - min(known)).total_seconds() / 86400 / 365.25 for d in known]
                return pixel_trend_of(planes(inputs), years, params)
            case "pca":
                if scene.grid.width * scene.grid.height > self.case.limits.dense_look_px:
                    raise CannotLookError("the components of so many pixels are not worked out again")
                whole = [self.every_pixel(n, scene.grid) for n in inputs]
                return component_of(planes(inputs), [(p.data, p.valid) for p in whole], params)
            case "retrieval":
                return self._retrieved(scene, params, inputs, window)
            case "pansharpen" if len(inputs) >= 3:
                *bands, pan = planes(inputs)
                return sharpened(bands, pan)
        raise CannotLookError(f"the second look does not follow {op}")

    def _retrieved(self, scene: SceneInfo, params: dict[str, Any], inputs: list[str], window: Window) -> Pixels:
        """A physical quantity by the table of ``inversions``."""
        found = INVERSIONS.get(str(params.get("name")))
        if found is None:
            raise CannotLookError(f"the second look has no formula of {params.get('name')!r}")
        raw, named = params.get("coefficients"), params.get("inputs")
        given = {k: number_of(v) for k, v in raw.items()} if isinstance(raw, dict) else {}
        numbers = {**found.usual, **{k: v for k, v in given.items() if v is not None}}
        names = {v: str(named.get(v, v)) if isinstance(named, dict) else v for v in found.variables}
        if self.case.nodes.get(inputs[0], {}).get("op") == "asset.scene":
            held = self.bands(scene, tuple(dict.fromkeys(names.values())), window)
        else:
            held = {n: self.node(n, window) for n in names.values() if n in inputs}
        if any(n not in held for n in names.values()):
            raise CannotLookError("an input of the quantity is not named")
        try:
            with np.errstate(all="ignore"):
                data = found.compute({v: held[n].data for v, n in names.items()}, numbers)
        except KeyError as missing:
            raise CannotLookError(f"the coefficient {missing} is not given") from missing
        return np.nan_to_num(data), np.logical_and.reduce([held[n].valid for n in names.values()]) & np.isfinite(data)

    def _with_neighbours(
        self, scene: SceneInfo, op: str, params: dict[str, Any], source: str, window: Window, halo: int
    ) -> Pixels:
        """A product that looks at neighbours, in a window of which every pixel is looked at."""
        c, r, w, h = window
        grid = scene.grid
        if w * h * (2 * halo + 1) ** 2 > _NEIGHBOURS_AT_ONCE:
            raise CannotLookError("the neighbours of so many pixels are not looked at")
        left, top = max(0, c - halo), max(0, r - halo)
        right, bottom = min(grid.width, c + w + halo), min(grid.height, r + h + halo)
        wide = (left, top, right - left, bottom - top)
        if step_of(self.case, wide) != 1 or wide[2] < 1 or wide[3] < 1:
            raise CannotLookError("the window is larger than it is looked at pixel by pixel")
        held = self.node(source, wide)
        shape = (h + 2 * halo, w + 2 * halo)
        data, valid = np.zeros(shape), np.zeros(shape, dtype=bool)
        at = np.s_[top - r + halo : bottom - r + halo, left - c + halo : right - c + halo]
        data[at], valid[at] = held.data, held.valid
        if op == "raster.product.focal":
            return focal_of((data, valid), params)
        dx, dy = (1.0, 1.0)
        what = str(params.get("product") or "slope")
        a, b, _, d, e, _ = grid.transform
        if what == "slope" and (b or d):
            # how steep it is does not depend on where rows run to
            dx, dy = turned_pixel_m(scene, r, h)
        elif what in ("slope", "aspect", "hillshade"):
            dx, dy = pixel_m(scene, r, h)
        return terrain_of((data, valid), params, dx, dy, east=1.0 if a > 0 else -1.0, north=-1.0 if e < 0 else 1.0)

    def _of_period(self, inputs: list[str], params: dict[str, Any]) -> list[str]:
        """Of dated inputs those of the months and years that are asked for."""
        months, years = list(params.get("months") or ()), list(params.get("years") or ())
        if not months and not years:
            return inputs
        out = []
        for name in inputs:
            day = scene_of_node(self.case, name).acquired_at
            if day is None:
                raise CannotLookError("a scene has no date")
            if (not months or day.month in months) and (not years or day.year in years):
                out.append(name)
        if not out:
            raise CannotLookError("no date lies in the months and years asked for")
        return out

    # --- what is settled from all pixels --------------------------------------------------------------------------------
    def _told(self, node_id: str, *names: str) -> list[float]:
        """Numbers that the evidence tells of a node. CannotLookError where one is missing."""
        held = self.case.evidence("intermediate", "nodes")
        entry = next((n for n in held if isinstance(n, dict) and n.get("id") == node_id), {}) if isinstance(held, list) else {}
        found = [number_of(entry.get(name)) for name in names]
        if any(v is None for v in found):
            raise CannotLookError(f"the record of {node_id} does not tell its {' and '.join(names)}")
        return [v for v in found if v is not None]

    def all_of(self, node_id: str) -> tuple[NDArray[np.float64], int]:
        """(valid values of a node inside the region, side of the cells of which each is one), made once."""
        found: tuple[NDArray[np.float64], int] = self.case.kept(
            f"all of:{node_id}",
            lambda: self.gather(lambda w: self.node(node_id, w), scene_of_node(self.case, node_id).grid),
        )
        return found

    def threshold(self, node_id: str) -> float:
        """The number that a threshold node cuts at: as asked; Otsu's or a percentile as it is on record, where the values bear
        it out, else the verifier's own. CannotLookError."""
        params, inputs = self.case.nodes[node_id]["params"], self.case.nodes[node_id]["inputs"]
        asked = params.get("value")
        number = number_of(asked)
        if number is not None:
            return number
        if asked not in ("otsu", "percentile") or len(inputs) != 1:
            raise CannotLookError("the threshold is not a number")
        (told,) = self._told(node_id, "threshold")

        def make() -> float:
            values, step = self.all_of(inputs[0])
            if values.size < 2:
                raise CannotLookError("no valid pixel lies where the second look went")
            if asked == "otsu":
                # binning costs a little of the best; a sample does not have quite the same
                good = between_of(values, told) >= (0.98 if step == 1 else 0.9) * best_between(values)
                return told if good else best_cut(values)
            return self.ranked(values, step, told, number_of(params.get("percentile")))

        found: float = self.case.kept(f"threshold:{node_id}", make)
        return found

    @staticmethod
    def ranked(values: NDArray[np.float64], step: int, told: float, percent: float | None) -> float:
        """What is told where it lies at that rank of the values, else the values' own percentile."""
        if percent is None:
            raise CannotLookError("the percentile is not a number")
        mine, p = float(np.percentile(values, percent)), percent / 100
        if step == 1:
            return mine
        apart = 9 * math.sqrt(max(p * (1 - p), 1 / values.size) / values.size)
        low, high = float((values < told).mean()), float((values <= told).mean())
        return told if low - apart <= p <= high + apart else mine

    def _cover_ends(self, node_id: str, source: str, params: dict[str, Any]) -> tuple[float, float]:
        """NDVI of bare soil and of full cover: as asked, or at the 5th and 95th percentile."""
        ends = []
        for name, default, percent in (("soil", 0.05, 5.0), ("full", 0.95, 95.0)):
            asked = params.get(name, default)
            number = number_of(asked)
            if number is None:
                (told,) = self._told(node_id, name)
                values, step = self.all_of(source)
                number = self.ranked(values, step, told, percent)
            ends.append(number)
        return ends[0], ends[1]

    def _dryness_edges(self, node_id: str, params: dict[str, Any]) -> list[float]:
        """The dry and the wet edge of TVDI: fitted again where every pixel is looked at, else as on record."""
        told = self._told(node_id, "dry_slope", "dry_intercept", "wet_slope", "wet_intercept")
        grid = scene_of_node(self.case, node_id).grid
        if grid.width * grid.height > self.case.limits.dense_look_px:
            return told

        def make() -> list[float]:
            one, other = (self.every_pixel(n, grid) for n in self.case.nodes[node_id]["inputs"])
            known = one.valid & other.valid
            return edges_of(one.data[known], other.data[known], params)

        found: list[float] = self.case.kept(f"edges:{node_id}", make)
        return found

    def every_pixel(self, node_id: str, grid: Grid) -> Plane:
        """A node's plane over the whole scene without a pixel left out, inside the region. CannotLookError for larger scenes."""
        if grid.width * grid.height > self.case.limits.full_look_px:
            raise CannotLookError("the scene is larger than it is looked at pixel by pixel")

        def make() -> Plane:
            side = max(1, math.isqrt(self.case.limits.dense_look_px))
            data, valid = np.zeros(grid.shape), np.zeros(grid.shape, dtype=bool)
            for r in range(0, grid.height, side):
                for c in range(0, grid.width, side):
                    at = (c, r, min(side, grid.width - c), min(side, grid.height - r))
                    plane, region = self.node(node_id, at), self.region(grid, at)
                    here = np.s_[r : r + at[3], c : c + at[2]]
                    data[here], valid[here] = plane.data, plane.valid if region is None else plane.valid & region
            return Plane(data, valid)

        found: Plane = self.case.kept(f"every pixel:{node_id}", make)
        return found

    def _hot_spots(self, node_id: str, window: Window) -> Plane:
        """Gi* looks at neighbours and at the scene's mean: all pixels of a small scene are looked at."""
        grid = scene_of_node(self.case, node_id).grid
        node = self.case.nodes[node_id]
        size = int(number_of(node["params"].get("size", 5)) or 0)
        if size < 3 or size % 2 == 0:
            raise CannotLookError("the neighbourhood is not odd")

        def make() -> Plane:
            plane = self.every_pixel(node["inputs"][0], grid)
            z = hot_spots(plane.data, plane.valid, size)
            if z is None:
                raise CannotLookError("all pixels are alike")
            return Plane(np.nan_to_num(z), np.isfinite(z))

        whole: Plane = self.case.kept(f"hot spots:{node_id}", make)
        places = places_of(window, step_of(self.case, window))
        return Plane(places.take(whole.data, window), places.take(whole.valid, window))

    @staticmethod
    def _logic(op: str, planes: list[Plane]) -> Plane:
        joins: dict[str, Callable[[Any, Any], Any]] = {
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "and_not": lambda a, b: a & ~b,
        }
        if op not in joins:
            raise CannotLookError(f"the second look does not follow {op!r}")
        held, valid = planes[0].data != 0, planes[0].valid
        for plane in planes[1:]:
            held, valid = joins[op](held, plane.data != 0), valid & plane.valid
        return Plane(held.astype(np.float64), valid)

    def _pair(self, node_id: str, window: Window) -> tuple[Plane, Plane]:
        node = self.case.nodes[node_id]
        inputs, params = node["inputs"], node["params"]
        if len(inputs) == 2:
            return self.node(inputs[0], window), self.node(inputs[1], window)
        for a, b in (("a", "b"), ("first", "second"), ("positive", "negative"), ("numerator", "denominator")):
            if isinstance(params.get(a), str) and isinstance(params.get(b), str):
                got = self.bands(scene_of_node(self.case, node_id), (params[a], params[b]), window)
                return got[params[a]], got[params[b]]
        raise CannotLookError("the pair of bands is not named")

    def index(self, scene: SceneInfo, name: str, window: Window) -> Plane:
        """An index by the verifier's own table; pixels where it is undefined are invalid."""
        formula = INDICES.get(name)
        if formula is None:
            raise CannotLookError(f"the second look has no formula of {name!r}")
        got = self.bands(scene, tuple(sorted(formula.roles)), window)
        data = formula.compute({role: plane.data for role, plane in got.items()})
        valid = np.logical_and.reduce([plane.valid for plane in got.values()]) & np.isfinite(data)
        return Plane(data, valid)

    # --- summaries ------------------------------------------------------------------------------------------------------
    def statistic(self, node_id: str, name: str, weights: str = "pixels") -> Estimate:
        """mean, median, min, max, std or share (mean of a mask) of a node, of pixels that count by their area or alike.
        CannotLookError for another."""
        scene = scene_of_node(self.case, node_id)
        if weights == "area":
            window = self.extent(scene.grid)
            plane, region, step = self.node(node_id, window), self.region(scene.grid, window), step_of(self.case, window)
            seen = plane.valid if region is None else plane.valid & region
            return estimate(plane.data[seen], name, step, areas_of(scene.grid, window, step)[seen])
        values, step = self.gather(lambda w: self.node(node_id, w), scene.grid)
        return estimate(values, name, step)


def change(before: Plane, after: Plane, mode: str) -> Plane:
    """After against before: difference, percent of before, ratio, absolute difference, or loss (before less after)."""
    valid = before.valid & after.valid
    with np.errstate(divide="ignore", invalid="ignore"):
        data = {
            "difference": lambda: after.data - before.data,
            "loss": lambda: before.data - after.data,
            "absolute": lambda: np.abs(after.data - before.data),
            "ratio": lambda: ratio(after.data, before.data),
            "percent": lambda: 100 * ratio(after.data - before.data, np.abs(before.data)),
        }.get(mode, lambda: None)()
    if data is None:
        raise CannotLookError(f"the second look does not follow a change by {mode!r}")
    return Plane(data, valid & np.isfinite(data))


def look_of(case: Case) -> Look:
    """The case's one Look; raises CannotLookError where pixels or question are missing."""
    if case.reader is None or case.question is None:
        raise CannotLookError("the source's pixels are not at hand")
    made: Look = case.kept("look", lambda: Look(case))
    return made
