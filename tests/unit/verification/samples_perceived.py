"""Masks from prompts and of change, tables of bands and kinds of place over the shipped imagery, with figures that contradict
them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples as s
from tests.unit.verification import samples_places as places
from tests.unit.verification.samples import Sample, ask
from tests.unit.verification.samples_new import island, landsat, looked_at, with_mask

STROKE = {"scribbles": [{"line": [[150, 110], [190, 130]]}]}
POINT = {"points": [[170, 120, 1]]}


@lru_cache
def field(*, is_stroke: bool = True) -> Sample:
    """A field of the island, from a stroke through it or from a point in it."""
    return ask(
        island(), "Where is the field?", "layer", "perceive",
        {"image_paths": ["s"], "objective": "field", "mode": "regions", "target_groups": {"field": []},
         "regions_method": {"kind": "prompt", **(STROKE if is_stroke else POINT)}})  # fmt: skip


@lru_cache
def crown() -> Sample:
    """A crown of the forest, from the box that a person drew about it."""
    (x0, y0), _, (x1, y1), *_ = s.found_boxes()[3]["geometry"]["coordinates"][0]
    return ask(
        Bench(s.cut(s.CROWNS, s.RGB, gsd_m=0.1)), "Where is the tree?", "layer", "perceive",
        {"image_paths": ["s"], "objective": "tree", "mode": "regions", "target_groups": {"tree": []},
         "regions_method": {"kind": "prompt", "box": [x0, y0, x1, y1]}})  # fmt: skip


@lru_cache
def changed(index: str = "") -> Sample:
    """Where the ground changed between a July and a November of Landsat 7, by four bands or by an index."""
    call: dict[str, Any] = {"image_paths": ["s", "t"], "objective": "change", "mode": "change"}
    if index:
        call["regions_method"] = {"kind": "index_threshold", "index": index}
    bench = Bench(landsat(), landsat("2002-11-25", "t"))
    return ask(bench, "Where did the ground change from July to November 2002?", "layer", "perceive", call)


@lru_cache
def put_aside(rows: int, columns: int) -> Sample:
    """A July of Landsat 7, and itself as if it had been put some pixels away; the ground did not change."""
    info, stored = landsat()
    moved = np.roll(stored, (rows, columns), axis=(1, 2))
    other = info.model_copy(update={"scene_id": "t", "artifact": "sha256:" + "7" * 64})
    call = {"image_paths": ["s", "t"], "objective": "change", "mode": "change"}
    return ask(Bench((info, stored), (other, moved)), "Where did the ground change?", "layer", "perceive", call)


def moved(sample: Sample, rows: int, columns: int) -> Sample:
    """The same observation, whose mask lies so many pixels aside; its figures stay."""
    mask, _ = sample.bench.layers.read_mask(next(r for r in sample.observation.result.layers if r.kind == "mask"))
    return with_mask(sample, np.roll(mask, (rows, columns), axis=(0, 1)))


def told(sample: Sample, **figures: Any) -> Sample:
    """The same observation, of which other figures are on record."""
    return sample.but({f"/evidence/intermediate/{name}": value for name, value in figures.items()})


def rows(sample: Sample, n: int) -> Sample:
    """The first rows of its table alone."""
    return sample.but({"/result/items": [dict(i) for i in sample.observation.result.items[:n]]})


EXAMPLES: dict[str, tuple[Any, Any, str]] = {
    "radiometry.shares_on_record_in_range": (
        looked_at, lambda: looked_at().but({"/evidence/validity/valid_share": 1.4}), "failed"),
    "completeness.every_band_listed": (looked_at, lambda: rows(looked_at(), 3), "failed"),
    "consistency.noise_matches_source": (
        looked_at,
        lambda: looked_at().but({"/result/items/1/noise": 10 * float(str(looked_at().observation.result.items[1]["noise"]))}),
        "failed"),
    "consistency.filters_let_fall": (
        s.water,
        lambda: s.water().but({"/evidence/intermediate/filters/0/after": 4000, "/evidence/intermediate/filters/0/before": 3900}),
        "failed"),
    "consistency.mask_share_on_record": (changed, lambda: told(changed(), share=0.3), "failed"),
    "consistency.change_lies_where_dates_differ": (lambda: changed("ndvi"), lambda: moved(changed("ndvi"), 12, 0), "failed"),
    "consistency.kind_as_on_record": (
        places.car_park, lambda: places.car_park().but({"/evidence/validity/in_scope": False}), "failed"),
    "geometry.outline_lies_on_edges": (field, lambda: moved(field(), -12, 0), "failed"),
}  # fmt: skip
