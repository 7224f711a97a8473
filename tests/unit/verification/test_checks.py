"""Every check has an example that it passes and one that it catches; the runner turns crashes into ``errored``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.windows import Window
from scipy import ndimage

from apps.core.errors import FaultError
from apps.core.evidence.observation import LayerRef
from apps.core.evidence.plan import Question
from apps.core.geo.grid import Grid
from apps.verification.case import Finding
from apps.verification.checks import CHECKS, Case, in_order, run_checks
from apps.verification.checks.catalogue import Check, check
from apps.verification.checks.document import DRAWN_PIXELS, WRITTEN_OUT, render
from apps.verification.checks.figures import is_one_figure
from apps.verification.checks.order import ORDER
from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples as s
from tests.unit.verification import (
    samples_cuts,
    samples_densities,
    samples_drawn,
    samples_foreign,
    samples_layers,
    samples_marks,
    samples_meanings,
    samples_natives,
    samples_new,
    samples_perceived,
    samples_places,
    samples_prompts,
    samples_texts,
    samples_veils,
)
from tests.unit.verification.samples import Sample

Make = Callable[[], Sample]
_CROWNS = {"name": "crowns", "digest": "sha256:" + "a" * 64, "licence": "MIT"}


def asked(sample: Sample, text: str) -> Sample:
    """The same observation for another question (its record says so too)."""
    assert sample.question is not None
    return sample.but({"/task/question": text}, question=sample.question.model_copy(update={"text": text}))


def with_mask(sample: Sample, change: Callable[[Any, Any], Any], **ref_changes: Any) -> Sample:
    """The same observation whose mask artifact was changed (its count on record follows)."""
    at = next(k for k, r in enumerate(sample.observation.result.layers) if r.kind == "mask")
    ref = sample.observation.result.layers[at]
    assert ref.grid is not None
    mask, valid = sample.bench.layers.read_mask(ref)
    new = sample.bench.layers.put_mask(change(mask.copy(), valid), valid, ref.grid, label=ref.label, scene_id=ref.source_scene_id)
    new = new.model_copy(update=ref_changes)
    changes: dict[str, Any] = {f"/result/layers/{at}": new.model_dump(mode="json")}
    if "mask_px" in sample.observation.evidence.intermediate:
        changes |= {
            "/evidence/intermediate/mask_px": new.n,
            "/evidence/intermediate/kept": new.n,
            "/evidence/intermediate/numerator": new.n,
        }
    return sample.but(changes)


def shifted(mask: Any, valid: Any) -> Any:
    return np.roll(mask, 7, axis=1)


def layer(sample: Sample, kind: str) -> tuple[int, LayerRef]:
    return next((k, r) for k, r in enumerate(sample.observation.result.layers) if r.kind == kind)


def scaled_raster(sample: Sample, factor: float) -> Sample:
    at, ref = layer(sample, "raster")
    raster = sample.bench.layers.read_raster(ref)
    new = sample.bench.layers.put_raster(replace(raster, data=raster.data * factor), label=ref.label, scene_id="s")
    return sample.but({f"/result/layers/{at}": new.model_dump(mode="json")})


def beyond_range(sample: Sample) -> Sample:
    """Every tenth pixel of the index raster is beyond ±1; the record keeps silent about it."""
    at, ref = layer(sample, "raster")
    raster = sample.bench.layers.read_raster(ref)
    data = raster.data.copy()
    data[..., ::10] = 3.2
    new = sample.bench.layers.put_raster(replace(raster, data=data), label=ref.label, scene_id="s")
    return sample.but({f"/result/layers/{at}": new.model_dump(mode="json")})


def one_scene(sample: Sample, **update: Any) -> Sample:
    """The question's first scene differs."""
    assert sample.question is not None
    first, *rest = sample.question.scenes
    return sample.but(question=sample.question.model_copy(update={"scenes": (first.model_copy(update=update), *rest)}))


def polygons(ring: list[list[float]]) -> Sample:
    made = s.found()
    feature = {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {"class": "tree", "score": 0.9},
    }
    ref = made.bench.layers.put_features([feature], kind="polygons", crs="image", label="outlines", scene_id="s")
    return made.but({"/result/layers": [ref.model_dump(mode="json")]})


def stands_in(rejected_at: float, threshold: float) -> Sample:
    """A mask of water by one threshold, after one by another threshold was rejected."""
    first, made = s.water(), s.water()
    method = {"kind": "index_threshold", "index": "ndwi", "side": "above"}
    before = first.but({"/arguments/regions_method": {**method, "threshold": rejected_at}}).observation
    grid = made.bench.question.scenes[0].grid
    pixels = made.bench.stored["s"].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ndwi = (pixels[1] - pixels[3]) / (pixels[1] + pixels[3])
    at, ref = layer(made, "mask")
    _, valid = made.bench.layers.read_mask(ref)
    new = made.bench.layers.put_mask(np.nan_to_num(ndwi, nan=-1) > threshold, valid, grid, label=ref.label, scene_id="s")
    return made.but(
        {f"/result/layers/{at}": new.model_dump(mode="json"), "/arguments/regions_method": {**method, "threshold": threshold}},
        rejected=(before.model_copy(update={"id": "before"}),),
    )


def times(sample: Sample, factor: float) -> Sample:
    """The same observation, whose figure is this many times what it was."""
    value = sample.observation.result.value
    assert isinstance(value, (int, float))
    return sample.but({"/result/value": value * factor})


def corners() -> list[Any]:
    """(left, top, right, bottom, score) of each tree that was found."""
    return [
        (*f["geometry"]["coordinates"][0][0], *f["geometry"]["coordinates"][0][2], f["properties"]["score"])
        for f in s.found_boxes()
    ]


def quarter_lost() -> Sample:
    """The trees without those of the picture's upper left quarter."""
    return s.found_instead([s.box(x, y, X, Y, score=p) for x, y, X, Y, p in corners() if not (x + X < 400 and y + Y < 400)])


def tenfold() -> Sample:
    """The trees a tenth as wide, as by a tool that took 10 cm for 1 m."""
    return s.found_instead([s.box(x, y, x + (X - x) / 10, y + (Y - y) / 10, score=p) for x, y, X, Y, p in corners()])


def found_twice() -> Sample:
    """Four of the trees a second time, a pixel aside."""
    return s.found_instead([*s.found_boxes(), *(s.box(x + 1, y + 1, X + 1, Y + 1, score=p) for x, y, X, Y, p in corners()[:4])])


def mask_and_boxes(aside: int) -> Sample:
    """The trees with a mask of what is green in their boxes, which lies so many pixels aside."""
    made = s.found()
    grid = made.bench.question.scenes[0].grid
    red, green, blue = made.bench.stored["s"].astype(int)
    inside = np.zeros(grid.shape, bool)
    for x0, y0, x1, y1, _ in corners():
        inside[max(0, int(y0)) : int(y1) + 1, max(0, int(x0)) : int(x1) + 1] = True
    mask = np.roll((2 * green - red - blue > 20) & inside, aside, axis=1)
    ref = made.bench.layers.put_mask(mask, np.ones_like(mask), grid, label="tree", scene_id="s")
    return made.but(
        {"/result/layers": [*(r.model_dump(mode="json") for r in made.observation.result.layers), ref.model_dump(mode="json")]}
    )


def utm_zone(sample: Sample, epsg: str) -> Sample:
    at, ref = layer(sample, "mask")
    assert ref.grid is not None
    grid = ref.grid.model_copy(update={"crs": epsg})
    return sample.but({f"/result/layers/{at}/grid": grid.model_dump(mode="json"), f"/result/layers/{at}/crs": epsg})


def no_size(sample: Sample) -> Sample:
    """The same area over a picture without CRS or GSD."""
    assert sample.question is not None
    made = one_scene(sample, grid=sample.question.scenes[0].grid.model_copy(update={"crs": None}))
    return made.but({"/inputs/0/crs": None, "/inputs/0/gsd_m": None})


def mercator(method: str) -> Sample:
    made = s.measured("area")
    assert made.question is not None
    grid = Grid.model_validate({**made.question.scenes[0].grid.model_dump(), "crs": "EPSG:3857"})
    return one_scene(made, grid=grid).but({"/evidence/source/method": method, "/inputs/0/crs": "EPSG:3857"})


def other_history(value: float) -> Sample:
    made = s.mean()
    earlier = made.observation.model_copy(
        update={"id": "earlier", "result": made.observation.result.model_copy(update={"value": value})}
    )
    return made.but(history=(earlier,))


def empty_mask(sample: Sample) -> Sample:
    return with_mask(sample, lambda m, v: np.zeros_like(m))


def same_twice() -> Sample:
    made = s.change()
    assert made.question is not None
    a, b = made.question.scenes
    return made.but(question=made.question.model_copy(update={"scenes": (a, b.model_copy(update={"artifact": a.artifact}))}))


def swapped() -> Sample:
    made = s.change()
    nodes = [dict(n) for n in made.observation.arguments["nodes"]]  # type: ignore[union-attr, arg-type]
    for n in nodes:
        if n["op"] == "raster.product.difference":
            n["inputs"] = list(reversed(n["inputs"]))  # type: ignore[arg-type]
    return made.but({"/arguments/nodes": nodes})


def region_question(sample: Sample) -> Sample:
    assert sample.question is not None
    return sample.but(question=sample.question.model_copy(update={"region": s.BOX, "region_crs": "image"}))


def nodes_with(sample: Sample, which: str, **params: Any) -> Sample:
    nodes = [dict(n) for n in sample.observation.arguments["nodes"]]  # type: ignore[union-attr, arg-type]
    for n in nodes:
        if n["op"] == which:
            n["params"] = {**n["params"], **params}  # type: ignore[dict-item]
    return sample.but({"/arguments/nodes": nodes, "/arguments_passed/nodes": nodes})


def fill_kept() -> Sample:
    """The nodata value of the band stands among the valid pixels of the result."""
    made = s.temperature()
    raster = made.bench.layers.read_raster(layer(made, "raster")[1])
    bands = made.bench.question.scenes[0].bands
    return one_scene(made, bands=tuple(b.model_copy(update={"nodata": float(raster.data[0, 20, 20])}) for b in bands))


def items(sample: Sample, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Sample:
    return sample.but({"/result/items": change([dict(i) for i in sample.observation.result.items])})


# check → (an observation that passes it, one that it catches, the outcome there)


def pointed_at(kind: int) -> Sample:
    """Water, as if it had grown from a point inside its mask that was set inside (1) or outside (0)."""
    made = s.water()
    ref = next(r for r in made.observation.result.layers if r.kind == "mask")
    mask, valid = made.bench.layers.read_mask(ref)
    row, col = np.argwhere(mask & valid)[0].tolist()
    return made.but({"/arguments/regions_method": {"kind": "prompt", "points": [[col + 0.5, row + 0.5, kind]]}})


def beside(by_px: int) -> Sample:
    """The same mask, so many columns to the right."""
    made = pointed_at(1)
    at, ref = next((k, r) for k, r in enumerate(made.observation.result.layers) if r.kind == "mask")
    assert ref.grid is not None
    mask, valid = made.bench.layers.read_mask(ref)
    moved = np.roll(mask, by_px, axis=1)
    moved[:, :by_px] = False
    put = made.bench.layers.put_mask(moved, valid, ref.grid, label=ref.label, scene_id=ref.source_scene_id)
    return made.but({f"/result/layers/{at}/artifact": put.artifact, f"/result/layers/{at}/n": put.n})


EXAMPLES: dict[str, tuple[Make, Make, str]] = {
    "contract.evidence_present": (s.mean, lambda: s.mean().but({"/evidence/source/band_mapping": ...}), "inconclusive"),
    "contract.unit_known": (s.area, lambda: s.area().but({"/result/unit": "morgen"}), "failed"),
    "contract.unit_fits_kind": (s.area, lambda: s.area().but({"/result/unit": "deg2"}), "failed"),
    "contract.value_fits_kind": (s.counted, lambda: s.counted().but({"/result/value": 15.5}), "failed"),
    "contract.kind_as_promised": (s.mean, lambda: s.mean().but({"/result/kind": "text", "/result/value": "fine"}), "failed"),
    "contract.kind_fits_answer_form": (s.area, lambda: s.area().but({"/task/answer_form": "date"}), "failed"),
    "contract.unit_as_asked": (s.area, lambda: s.area().but({"/result/unit": "m"}), "failed"),
    "contract.arguments_passed_as_asked": (
        s.area,
        lambda: s.area().but({"/arguments_passed/nodes/2/params/value": 0.3}),
        "failed",
    ),
    "contract.index_as_asked": (s.mean, lambda: nodes_with(s.mean(), "raster.product.index", index="ndwi"), "failed"),
    "contract.threshold_as_asked": (s.area, lambda: nodes_with(s.area(), "raster.product.threshold", value=0.3), "failed"),
    "contract.threshold_side_as_asked": (s.area, lambda: nodes_with(s.area(), "raster.product.threshold", op="<"), "failed"),
    "contract.statistic_as_asked": (
        s.mean,
        lambda: nodes_with(s.mean(), "raster.summarize.statistic", statistic="max"),
        "failed",
    ),
    "contract.metric_as_asked": (s.area, lambda: s.area().but({"/result/kind": "count"}), "failed"),
    "contract.scenes_as_asked": (
        s.series,
        lambda: s.series().but({"/inputs": s.series().observation.model_dump(mode="json")["inputs"][:4]}),
        "failed",
    ),
    "contract.dates_as_asked": (
        lambda: asked(s.mean(), "What is the mean NDVI on 2024-04-02?"),
        lambda: asked(s.mean(), "What is the mean NDVI on 2023-08-15?"),
        "failed",
    ),
    "contract.region_as_asked": (s.region, lambda: region_question(s.mean()), "failed"),
    "contract.target_as_asked": (s.found, lambda: asked(s.found(), "How many ships are there?"), "failed"),
    "contract.task_is_the_questions": (s.mean, lambda: s.mean().but({"/task/question": "What is the mean NDWI?"}), "failed"),
    "geometry.boxes_in_image": (s.found, lambda: s.found_instead([*s.found_boxes(), s.box(380, 390, 450, 460)]), "failed"),
    "geometry.no_duplicate_detections": (
        s.found,
        found_twice,
        "failed",
    ),
    "geometry.polygons_valid": (
        lambda: polygons(s.found_boxes()[0]["geometry"]["coordinates"][0]),
        lambda: polygons([s.found_boxes()[0]["geometry"]["coordinates"][0][k] for k in (0, 2, 1, 3, 0)]),
        "failed",
    ),
    "geometry.layer_on_image_grid": (s.area, lambda: utm_zone(s.area(), "EPSG:32631"), "failed"),
    "geometry.layer_has_its_size": (
        s.area,
        lambda: s.area().but({f"/result/layers/{layer(s.area(), 'mask')[0]}/grid/width": 79}),
        "failed",
    ),
    "geometry.layers_in_one_crs": (
        s.area,
        lambda: s.area().but({f"/result/layers/{layer(s.area(), 'raster')[0]}/crs": "EPSG:4326"}),
        "failed",
    ),
    "geometry.gsd_matches_crs": (s.area, lambda: s.area().but({"/inputs/0/gsd_m": 30.0}), "failed"),
    "geometry.gsd_present": (lambda: s.measured("area"), lambda: no_size(s.area()), "failed"),
    "geometry.area_method_lawful": (lambda: mercator("geodesic"), lambda: mercator("planar"), "failed"),
    "geometry.mask_lies_where_colours_part": (lambda: pointed_at(1), lambda: beside(5), "failed"),
    "geometry.mask_holds_its_points": (lambda: pointed_at(1), lambda: pointed_at(0), "failed"),
    "geometry.mask_agrees_with_boxes": (lambda: mask_and_boxes(0), lambda: mask_and_boxes(60), "failed"),
    "radiometry.fraction_in_range": (s.share, lambda: times(s.share(), 100), "failed"),
    "radiometry.index_in_range": (s.mean, lambda: times(s.mean(), 1e4), "failed"),
    "radiometry.values_in_range": (s.mean, lambda: beyond_range(s.mean()), "failed"),
    "radiometry.temperature_plausible": (s.temperature, lambda: s.temperature().but({"/result/value": 24.4}), "failed"),
    "radiometry.reflectance_scaled": (s.nir, lambda: times(s.nir(), 1e4), "failed"),
    "radiometry.input_bands_as_scene": (s.mean, lambda: s.mean().but({"/inputs/0/bands/0/role": "swir1"}), "failed"),
    "radiometry.band_roles_as_formula": (s.mean, lambda: s.mean().but({"/evidence/source/band_mapping/s/nir": 2}), "failed"),
    "radiometry.no_band_twice": (s.mean, lambda: s.mean().but({"/evidence/source/band_mapping/s/nir": 3}), "failed"),
    "radiometry.fill_not_counted": (s.mean, lambda: s.mean().but({"/evidence/intermediate/valid_px": 4800}), "failed"),
    "radiometry.no_fill_value_in_raster": (s.temperature, fill_kept, "failed"),
    "completeness.no_failed_node": (s.mean, lambda: s.mean().but({"/evidence/validity/node_status/i": "failed"}), "failed"),
    "completeness.layer_complete": (s.water, lambda: s.water().but({"/evidence/validity/layer_status": "partial"}), "failed"),
    "completeness.every_class_processed": (
        s.water,
        lambda: s.water().but({"/evidence/validity/class_complete": False}),
        "failed",
    ),
    "completeness.every_tile_processed": (
        s.objects,
        lambda: s.objects().but({"/evidence/intermediate/passes/0/tiles": 3}),
        "failed",
    ),
    "completeness.series_covers_scenes": (s.series, lambda: items(s.series(), lambda i: i[:3]), "failed"),
    "completeness.series_without_hole": (s.series, lambda: items(s.series(), lambda i: [i[0], i[1], i[4]]), "failed"),
    "completeness.enough_valid_pixels": (s.mean, lambda: s.mean().but({"/evidence/intermediate/valid_px": 0}), "failed"),
    "completeness.valid_share_high": (s.mean, lambda: s.mean().but({"/evidence/validity/valid_share": 0.2}), "failed"),
    "completeness.quality_mask_applied": (s.watched, lambda: s.watched(is_used=False), "inconclusive"),
    "completeness.quality_mask_of_date": (lambda: s.flagged("2024-04-02"), lambda: s.flagged("2024-05-20"), "failed"),
    "completeness.no_failure_text": (s.zoned, lambda: s.zoned().but({"/result/value": "Failed to call model"}), "failed"),
    "completeness.log_without_errors": (
        s.mean,
        lambda: s.mean().but({"/status/log": [{"at_s": 0.1, "level": "error", "message": "tile 3 was not read"}]}),
        "failed",
    ),
    "completeness.partial_is_explained": (
        lambda: s.mean().but({"/status/state": "partial", "/status/reason": "one date is missing"}),
        lambda: s.mean().but({"/status/state": "partial", "/status/log": []}),
        "inconclusive",
    ),
    "consistency.numerator_within_denominator": (
        s.share,
        lambda: s.share().but({"/evidence/intermediate/numerator": 9999}),
        "failed",
    ),
    "consistency.ratio_recomputes": (s.share, lambda: times(s.share(), 0.8), "failed"),
    "consistency.denominator_is_the_whole": (
        s.share,
        lambda: s.share().but({"/evidence/intermediate/denominator": 4800}),
        "failed",
    ),
    "consistency.count_equals_kept": (s.counted, lambda: s.counted().but({"/result/value": 57}), "failed"),
    "consistency.kept_within_candidates": (
        s.found,
        lambda: s.found().but({"/evidence/intermediate/candidates": 9}),
        "failed",
    ),
    "consistency.pieces_recount": (lambda: s.measured("count"), lambda: s.measured("count").but({"/result/value": 41}), "failed"),
    "consistency.boolean_recomputes": (
        lambda: s.measured("boolean"),
        lambda: s.measured("boolean").but({"/result/value": False}),
        "failed",
    ),
    "consistency.interval_holds_value": (s.counted, lambda: s.counted().but({"/result/interval": [60, 70]}), "failed"),
    "consistency.nodes_agree_with_result": (s.mean, lambda: times(s.mean(), 0.8), "failed"),
    "consistency.area_recomputes": (
        lambda: s.measured("area"),
        lambda: times(s.measured("area"), 4),
        "failed",
    ),
    "consistency.share_recomputes": (
        lambda: s.measured("ratio"),
        lambda: times(s.measured("ratio"), 1.3),
        "failed",
    ),
    "consistency.mask_count_on_record": (s.water, lambda: s.water().but({"/evidence/intermediate/mask_px": 12}), "failed"),
    "consistency.statistic_recomputes": (s.mean, lambda: times(s.mean(), 0.8), "failed"),
    "consistency.valid_count_recomputes": (s.mean, lambda: s.mean().but({"/evidence/intermediate/valid_px": 3000}), "failed"),
    "consistency.boolean_follows": (
        lambda: s.measured("boolean"),
        lambda: s.measured("boolean").but({"/result/value": False}),
        "failed",
    ),
    "consistency.series_recomputes": (s.series, lambda: times(s.series(), 1.3), "failed"),
    "consistency.trend_recomputes": (s.trend, lambda: times(s.trend(), 1.3), "failed"),
    "consistency.value_matches_source": (s.mean, lambda: times(s.mean(), 0.9), "failed"),
    "consistency.series_matches_source": (
        s.series,
        lambda: items(s.series(), lambda i: [{**x, "value": i[0]["value"]} for x in i]),
        "failed",
    ),
    "consistency.raster_matches_source": (s.mean, lambda: scaled_raster(s.mean(), 0.9), "failed"),
    "consistency.mask_matches_source": (s.water, lambda: with_mask(s.water(), shifted), "failed"),
    "consistency.arithmetic_recomputes": (s.quotient, lambda: times(s.quotient(), 0.5), "failed"),
    "consistency.zonal_matches_source": (
        s.zoned,
        lambda: items(s.zoned(), lambda i: [{**x, "value": x["value"] + 0.02} for x in i]),
        "failed",
    ),
    "consistency.relation_recomputes": (s.near_the_road, lambda: s.near_the_road().but({"/result/value": 3}), "failed"),
    "consistency.vector_recomputes": (s.drawn_island, lambda: times(s.drawn_island(), 1.3), "failed"),
    "consistency.distance_recomputes": (s.apart, lambda: times(s.apart(), 2), "failed"),
    "consistency.agrees_with_history": (
        lambda: other_history(float(s.mean().observation.result.value or 0)),
        lambda: other_history(0.2),
        "failed",
    ),
    "consistency.series_items_not_identical": (
        s.series,
        lambda: items(s.series(), lambda i: [{**x, "value": 0.5} for x in i]),
        "failed",
    ),
    "consistency.estimate_in_bounds": (s.mean, lambda: s.mean().but({"/result/value": 0.999}), "failed"),
    "plausibility.area_within_scene": (s.area, lambda: s.area().but({"/result/unit": "km2"}), "failed"),
    "plausibility.distance_within_scene": (s.apart, lambda: s.apart().but({"/result/unit": "km"}), "failed"),
    "plausibility.stand_in_agrees": (lambda: stands_in(0.0, 0.001), lambda: stands_in(0.0, 0.9), "failed"),
    "plausibility.no_empty_part_like_the_rest": (s.found, quarter_lost, "failed"),
    "plausibility.object_sizes": (s.found, tenfold, "failed"),
    "plausibility.sizes_of_one_kind": (
        s.found,
        lambda: s.found_instead([*s.found_boxes(), s.box(5, 40, 390, 390)]),
        "failed",
    ),
    "plausibility.no_change_between_equals": (s.change, same_twice, "failed"),
    "plausibility.not_degenerate": (s.water, lambda: empty_mask(s.water()), "failed"),
    "plausibility.zero_is_a_finding": (
        s.none_so_green,
        lambda: s.share().but({"/result/value": 0.0}),
        "failed",
    ),
    "plausibility.before_precedes_after": (s.change, swapped, "failed"),
    "plausibility.objects_have_room": (s.found, lambda: s.found_instead([s.box(0, 0, 399, 399 - k) for k in range(3)]), "failed"),
    "plausibility.scores_above_threshold": (
        s.found,
        lambda: s.found_instead([*s.found_boxes()[1:], s.scored(corners()[0][:4], 0.2)]),
        "failed",
    ),
    "provenance.inputs_of_the_task": (s.mean, lambda: s.mean().but({"/inputs/0/artifact": "sha256:" + "0" * 64}), "failed"),
    "provenance.input_facts_as_scene": (s.mean, lambda: s.mean().but({"/inputs/0/size_px": [80, 61]}), "failed"),
    "provenance.parents_are_verified": (s.counted, lambda: s.counted().but(history=()), "failed"),
    "provenance.layers_of_the_parents": (
        s.counted,
        lambda: s.counted().but({"/evidence/source/layers/0/artifact": "sha256:" + "1" * 64}),
        "failed",
    ),
    "provenance.layers_at_hand": (
        s.found,
        lambda: s.found().but({"/result/layers/0/artifact": "sha256:" + "2" * 64}),
        "failed",
    ),
    "provenance.weights_known": (
        s.objects,
        lambda: s.objects().but({"/evidence/source/weights": [{"name": "unknown"}]}),
        "inconclusive",
    ),
    "plausibility.gsd_known_to_model": (
        lambda: s.objects().but(
            {"/evidence/source/weights": [{**_CROWNS, "gsd_m": [0.02, 0.3]}], "/evidence/source/resolution_m": 0.1}
        ),
        lambda: s.objects().but(
            {"/evidence/source/weights": [{**_CROWNS, "gsd_m": [8.0, 12.5]}], "/evidence/source/resolution_m": 0.1}
        ),
        "failed",
    ),
    "provenance.model_within_its_scope": (
        s.found,
        lambda: s.found().but({"/evidence/validity/applicability": {"ok": False, "problems": ["GSD 0.1 m, made for 0.3 m"]}}),
        "failed",
    ),
    "consistency.value_not_rejected_before": (
        # the source's pixels are at hand and give the value
        lambda: s.mean().but(rejected=(s.mean().observation.model_copy(update={"id": "before"}),)),
        lambda: s.mean().but(
            {"/arguments/why": "again"}, rejected=(s.mean().observation.model_copy(update={"id": "before"}),), has_reader=False
        ),
        "failed",
    ),
    "provenance.not_a_rejected_call": (
        lambda: s.mean().but(rejected=(s.area().observation,)),
        lambda: s.mean().but(rejected=(s.mean().observation.model_copy(update={"id": "before"}),)),
        "failed",
    ),
    "provenance.pixels_read_are_the_sources": (
        s.mean,
        lambda: s.mean().but({"/evidence/source/pixels_read/s/physical/3/5/2": 0.5}),
        "failed",
    ),
    "provenance.tool_and_packages_named": (s.mean, lambda: s.mean().but({"/provenance/tool_version": ""}), "inconclusive"),
}
EXAMPLES |= samples_new.EXAMPLES
EXAMPLES |= samples_cuts.EXAMPLES
EXAMPLES |= samples_marks.EXAMPLES
EXAMPLES |= samples_densities.EXAMPLES
EXAMPLES |= samples_layers.EXAMPLES
EXAMPLES |= samples_veils.EXAMPLES
EXAMPLES |= samples_natives.EXAMPLES
EXAMPLES |= samples_drawn.EXAMPLES
EXAMPLES |= samples_texts.EXAMPLES
EXAMPLES |= samples_places.EXAMPLES
EXAMPLES |= samples_meanings.EXAMPLES
EXAMPLES |= samples_foreign.EXAMPLES
EXAMPLES |= samples_perceived.EXAMPLES
EXAMPLES |= samples_prompts.EXAMPLES
# partial_is_explained warns of every partial result; its good example is the one that says why.
GOOD_OUTCOME = {"completeness.partial_is_explained": "failed"}


@cache
def example(name: str, which: int) -> Sample:
    """A check's good (0) or bad (1) example, made once."""
    good, bad, _ = EXAMPLES[name]
    return bad() if which else good()


def look(name: str, sample: Sample) -> Any:
    return CHECKS[name].look(sample.case())


def test_every_check_has_both_examples() -> None:
    assert set(EXAMPLES) == set(CHECKS)
    assert len(CHECKS) >= 30
    assert {c.family for _, c in CHECKS.items()} == {
        "contract",
        "geometry",
        "radiometry",
        "completeness",
        "consistency",
        "plausibility",
        "provenance",
    }


def test_the_order_of_checks_is_written_down_and_names_them_all() -> None:
    """It hangs on no import: a check that is not listed cannot be registered, and one that is listed is there."""
    listed = [f"{family}.{name}" for family, names in ORDER.items() for name in names]
    assert listed == [c.name for c in in_order()]
    assert set(listed) == set(CHECKS)
    with pytest.raises(FaultError, match="has no place in"):
        check("not_listed", family="consistency")(lambda case: CHECKS["consistency.ratio_recomputes"].look(case))


def test_both_examples_of_every_check_are_over_shipped_imagery() -> None:
    """A drawn or random pixel in an example shows: its array is no window of a file that ships."""
    both = {name: (example(name, 0), example(name, 1)) for name in EXAMPLES}
    drawn = {name for name, (good, bad) in both.items() if None in [*good.sources, *bad.sources]}
    assert drawn == set(DRAWN_PIXELS) & set(CHECKS)
    written = {name for name, (good, bad) in both.items() if not (good.is_of_the_tools and bad.is_of_the_tools)}
    assert written == set(WRITTEN_OUT) & set(CHECKS)


def test_windows_are_what_the_files_hold() -> None:
    """The samples' pixels, read again from the files with another call; thermal counts in kelvin by the handbook's formula."""
    for make, *_ in EXAMPLES.values():
        made = make()
        for stored, found in zip(made.bench.stored.values(), made.sources, strict=True):
            if found is None:
                continue  # counted above
            path, window = found
            with rasterio.open(path) as src:
                held = src.read(window=Window(*window))
            if made.question is not None and "temperature" in made.question.text:
                kelvin = 1282.71 / np.log(666.09 / (0.067087 * held[6] - 0.06709) + 1)
                assert np.abs(stored[0] / 100 - kelvin).max() <= 0.006
                assert 285 < kelvin.mean() < 305
            else:
                assert np.array_equal(stored, held)


def test_the_samples_figures_by_hand() -> None:
    """The tools' figures over the windows, by numpy alone."""
    coast = s.mean().bench.stored["s"].astype(float)
    known = ~(coast == 0).all(axis=0)
    _, green, red, nir = coast
    with np.errstate(divide="ignore", invalid="ignore"):
        ndvi, ndwi = (nir - red) / (nir + red), (green - nir) / (green + nir)
    water = known & (ndwi > 0)
    boxed = np.zeros_like(known)
    boxed[15:50, 20:60] = True
    land, sea = (np.s_[r0:r1, c0:c1] for c0, r0, c1, r1 in (s.ZONES["land"], s.ZONES["sea"]))
    assert ndvi[land].mean() > ndvi[sea].mean()
    assert known[land].all() and known[sea].all()
    days = [np.datetime64(d) for d in s.DAYS]
    means = []
    for stored in s.series().bench.stored.values():
        values = stored[0].astype(float)
        means.append(values[(values >= -2000) & (values <= 10000)].mean() * 1e-4)
    years = np.array([(d - days[0]).astype(int) / 365.25 for d in days])
    before, after = ((b[3] - b[2]) / (b[3] + b[2]) for b in (x.astype(float) for x in s.change().bench.stored.values()))
    clear = s.watched().bench.stored["s"]
    by_hand: list[tuple[Make, float]] = [
        (s.mean, ndvi[known].mean()),
        (s.nir, nir[known].mean() * 1e-4),
        (s.area, (known & (ndvi > 0.4)).sum() * 100 / 1e4),
        (s.share, (known & (ndvi > 0.4)).sum() / known.sum()),
        (s.region, ndvi[known & boxed].mean()),
        (s.series, float(np.mean(means))),
        (s.trend, float(np.polyfit(years, means, 1)[0])),
        (s.change, (after - before).mean()),
        (s.quotient, nir[known].mean() / red[known].mean()),
        (lambda: s.measured("area"), water.sum() * 100 / 1e4),
        (lambda: s.measured("ratio"), water.sum() / known.sum()),
        (lambda: s.measured("count"), ndimage.label(water, structure=np.ones((3, 3)))[1]),
        (s.watched, s.ndvi_of(clear, 0, 1)[clear[2] >> 14 != 3].mean()),
        (s.apart, s.nearest_m(s.apart().bench)),
        (s.near_the_road, 2),
        (s.drawn_island, shapely.Polygon([(c * 0.14981552941953233, r * 0.1499978958645129) for c, r in s.ISLAND]).area),
        (s.none_so_green, 0.0),
    ]
    for make, wanted in by_hand:
        # lengths and areas of small things are of the ellipsoid: less than a thousandth off the map's
        tolerance = 1e-3 if make in (s.drawn_island, s.apart) else 1e-9
        assert make().observation.result.value == pytest.approx(float(wanted), rel=tolerance), make().observation.task.question
    assert s.lowest().observation.result.value == s.DAYS[int(np.argmin(means))]
    assert s.measured("boolean").observation.result.value is True
    assert s.zoned().observation.result.value == "land"
    roofs = [shapely.box(*h) for h in s.HOUSES]
    far = [shapely.LineString(s.ROAD).distance(r) * 0.15 for r in roofs]
    assert sorted(d < 12 for d in far) == [False, True, True], far


def test_a_zero_that_is_one_passes_and_a_zero_in_place_of_an_area_does_not() -> None:
    name = "consistency.value_matches_source"
    assert look(name, s.none_so_green()).outcome == "passed"
    assert look(name, s.area().but({"/result/value": 0.0})).outcome == "failed"


def python_in(found: Finding) -> list[str]:
    """What of a finding reads as code: lists and tables as Python writes them, and its True, False and None."""
    said = [s for s in (found.message, found.measured, found.expected) if isinstance(s, str)]
    return [s for s in said if re.search(r"[\[({]'|^(True|False|None)$", s)]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_good_example_passes(name: str) -> None:
    found = look(name, example(name, 0))
    assert found.outcome == GOOD_OUTCOME.get(name, "passed"), found.message
    assert not python_in(found)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_bad_example_is_caught(name: str) -> None:
    found = look(name, example(name, 1))
    assert found.outcome == EXAMPLES[name][2], found.message
    assert found.message.endswith((".", "…"))
    assert not python_in(found)
    assert found.pointers


@pytest.mark.parametrize(
    "make",
    [*s.HONEST, s.objects, s.quotient, lambda: s.measured("count"), s.caption],
)
def test_no_check_fails_on_a_good_observation(make: Make) -> None:
    results, _ = run_checks(make().case())
    assert [(c.check, c.outcome, c.message) for c in results if c.outcome in ("failed", "errored")] == []
    assert [(c.check, c.message) for c in results if c.outcome == "inconclusive"] == []


@pytest.mark.filterwarnings("error")
def test_a_nodata_that_no_value_of_the_result_can_have_passes_without_a_word() -> None:
    """Files of 64 bits declare -1.7e308; a result is of 32."""
    bands = s.mean().question.scenes[0].bands  # type: ignore[union-attr]
    made = one_scene(s.mean(), bands=tuple(b.model_copy(update={"nodata": -1.7e308}) for b in bands))
    assert look("radiometry.no_fill_value_in_raster", made).outcome == "passed"


def test_a_crash_is_errored_and_never_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Case) -> Any:
        raise ZeroDivisionError("no")

    name = "contract.unit_known"
    old = CHECKS[name]
    monkeypatch.setitem(CHECKS._items, name, Check(old.name, old.family, old.severity, old.meaning, (), (), (), broken))
    results, _ = run_checks(s.area().case(), [name])
    assert results[0].outcome == "errored"
    assert "ZeroDivisionError" in results[0].message


def test_checks_are_pure() -> None:
    case = s.area()
    one, scores = run_checks(case.case())
    other, again = run_checks(case.case())
    assert one == other
    assert scores == again


def test_checks_without_layers_pixels_or_question_do_not_crash() -> None:
    for make in (s.mean, s.area, s.series, s.water, s.objects, s.counted):
        results, _ = run_checks(Case(make().observation))
        assert not [c for c in results if c.outcome == "errored"]


def test_the_document_is_current() -> None:
    assert (Path(__file__).resolve().parents[3] / "docs" / "checks.md").read_text() == render(), (
        "run: python -m apps.verification.checks.document > docs/checks.md"
    )


def test_question_without_scenes_is_no_crash() -> None:
    bench = Bench(s.optical())
    question = Question(text="What is the mean NDVI?", scenes=())
    results, _ = run_checks(s.mean().but(question=question, bench=bench, has_reader=False).case())
    assert not [c for c in results if c.outcome == "errored"]


@pytest.mark.parametrize(
    ("statistic", "value", "severity"), [("max", 1.05, "warn"), ("max", 91.2, "block"), ("min", -13.1, "block")]
)
def test_an_extreme_far_beyond_the_index_range_blocks(statistic: str, value: float, severity: str) -> None:
    made = s.mean()
    at = next(i for i, n in enumerate(made.observation.arguments["nodes"]) if n["op"].startswith("raster.summarize"))  # type: ignore
    made = made.but({f"/arguments/nodes/{at}/params/statistic": statistic, "/result/value": value})
    results, _ = run_checks(made.case(), ["radiometry.index_in_range"])
    assert (results[0].outcome, results[0].severity) == ("failed", severity)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(0.530293, 0.530293, True), (0.530293, 0.53, True), (302.35, 302.65, False), (0.5303, 0.5308, False), (300.0, 300.2, False),
     (0.0, 0.0, True), (1e300, 1e300, True)],
)  # fmt: skip
def test_two_figures_are_one_but_for_rounding(one: float, other: float, same: bool) -> None:
    assert is_one_figure(one, other) is same
