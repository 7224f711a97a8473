"""Every tool and mode over real imagery: the evidence that PROTOCOL.md section 3 asks for is there, is not empty, and agrees with
the result and its layers; and every mode, metric and operator declares ranges and applicability."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from apps.core.evidence.observation import REQUIRED_EVIDENCE, Observation
from apps.tools.contract import MeasureSpec, PerceiveMode, RegionMethod
from apps.tools.execute.operators import OPERATORS
from apps.tools.execute.types import PhysicalRange
from apps.tools.measure.measure import DEFAULT_UNIT, RANGES
from apps.tools.perceive.classical import METHODS
from apps.tools.perceive.modes import DECLARED, MODES
from apps.tools.perceive.regions import DEFAULTS, NOT_FOR
from apps.tools.units import AREA_M2, DENSITY, LENGTH_M
from apps.tools.zoo.registry import models
from apps.verification.checks import run_checks
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.verification import samples

Made = tuple[Bench, Any]
SENSOR = "Sentinel-2 MSI"


def ask(b: Bench, tool: str, arguments: dict[str, Any], *parents: Observation) -> Made:
    return b, b.call(tool, arguments, parents)


def look(b: Bench, mode: str, *parents: Observation, **more: Any) -> Made:
    return ask(b, "perceive", {"image_paths": ["s"], "objective": "x", "mode": mode, **more}, *parents)


def coast() -> Bench:
    return Bench(samples.optical(sensor=SENSOR))


# --- perceive ------------------------------------------------------------------------------------------------------------------
def water(b: Bench, **more: Any) -> Made:
    return look(b, "regions", target_groups={"water": []}, regions_method={
        "kind": "index_threshold", "index": "ndwi", "threshold": "otsu", "min_px": 4}, **more)


def refined() -> Made:
    b, first = perceived("regions")
    return look(b, "regions", first, target_groups={"water": []},
                regions_method={"kind": "refine", "seed": {"observation": first.id}})


def changed() -> Made:
    b = Bench(samples.cut(samples.SHIPPED / "landsat7_p15r32_2002-07-20.tif", SEVEN, (60, 60, 120, 100), scene_id="a",
                          date="2002-07-20", sensor="Landsat 7 ETM+"),
              samples.cut(samples.SHIPPED / "landsat7_p15r32_2002-11-25.tif", SEVEN, (60, 60, 120, 100), scene_id="b",
                          date="2002-11-25", sensor="Landsat 7 ETM+"))
    return ask(b, "perceive", {"image_paths": ["a", "b"], "objective": "x", "mode": "change"})


SEVEN = ("blue", "green", "red", "nir", "swir1", "swir2", "unknown", "unknown")


def street(**facts: Any) -> Bench:
    return Bench(samples.cut(samples.STREET, samples.RGB, **facts))


def place() -> Bench:
    """The same street as a picture whose pixels a person called 16 cm."""
    return Bench(scene(samples.cut(samples.STREET, samples.RGB)[1], samples.RGB, crs=None, gsd_m=0.16))


def classes() -> Made:
    """A class map worked out from the coast: 1 where NDWI is above 0, else 2."""
    _, stored = samples.optical()
    green, nir = stored[1].astype(float), stored[3].astype(float)
    made = scene(np.where(green > nir, 1, 2).astype(np.uint8)[None], ["class"], date="2024-04-02")
    return look(Bench(made), "regions", target_groups={"water": []}, regions_method={"kind": "class_value", "values": [1]})


PERCEIVE: dict[str, Callable[[], Made]] = {
    "regions": lambda: water(coast()),
    "regions by a band": lambda: look(coast(), "regions", target_groups={"bright": []}, regions_method={
        "kind": "band_threshold", "band": "nir", "threshold": 0.2}),
    "regions by a class": classes,
    "regions by prompts": lambda: look(coast(), "regions", target_groups={"field": []}, regions_method={
        "kind": "prompt", "points": [[60, 20, 1], [40, 50, 0]]}),
    "regions refined": refined,
    "regions under clouds": lambda: look(samples.cloudy(), "regions", target_groups={"vegetation": []}, regions_method={
        "kind": "index_threshold", "index": "ndvi", "threshold": 0.25}),
    "objects by a formula": lambda: look(Bench(samples.cut(samples.CROWNS, samples.RGB)), "objects", target_groups={"tree": []}),
    "objects by a model": lambda: look(street(), "objects", target_groups={"vehicle": []}),
    "document": lambda: look(street(), "document"),
    "scene": lambda: look(place(), "scene"),
    "change": changed,
    "evidence": lambda: look(coast(), "evidence"),
    "measurement": lambda: look(coast(), "measurement", landmarks=["px:50,20", "px:60,40"]),
}
BY_MODELS = ("objects by a model", "document", "scene")


def each(names: Any) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.ml) if n in BY_MODELS else n for n in names]


@lru_cache
def perceived(name: str) -> Made:
    return PERCEIVE[name]()


def is_there(o: Any) -> None:
    """The keys of REQUIRED_EVIDENCE, none of them null; record and inputs whole."""
    assert o.status.state in ("ok", "partial"), o.status.reason
    for part, keys in REQUIRED_EVIDENCE[o.tool].items():
        held = getattr(o.evidence, part)
        for key in keys:
            names = (key,) if isinstance(key, str) else key
            assert any(held.get(n) is not None for n in names) or key in NULL_MEANS_SOMETHING[o.tool], (part, key)
    assert o.provenance.tool_version and o.provenance.packages and o.provenance.device and o.provenance.seed is not None
    for ref in o.inputs:
        assert ref.artifact.startswith("sha256:")
        assert ref.role != "image" or (ref.size_px and ref.bands and all(x.role and x.unit for x in ref.bands))
    assert o.arguments_passed and o.configuration.fine.startswith(o.configuration.coarse)


# A share has a denominator and shapes on the map have no pixels; which it is, a key beside says.
NULL_MEANS_SOMETHING = {"perceive": (), "measure": ("denominator", "n_px", "numerator"), "execute": ("quality_mask",)}


@pytest.mark.parametrize("name", each(PERCEIVE))
def test_perceive_gives_the_protocols_evidence(name: str) -> None:
    b, o = perceived(name)
    is_there(o)
    source, middle, valid = o.evidence.source, o.evidence.intermediate, o.evidence.validity
    # source: weights with name, digest, licence, or the method with its reference; thresholds, sensor, resolution
    for w in source.get("weights", ()):
        assert w["name"] and w["digest"].startswith("sha256:") and w["licence"], w
    assert source.get("weights") or source["method"]
    assert source["thresholds"] and source["sensor"] and source["resolution_m"] > 0
    if o.inputs[0].scene_id and b.question.scenes[0].sensor:
        assert b.question.scenes[0].sensor in str(source["sensor"])
    # intermediate: what was found with the confidence of each, and what every filter left
    for one in middle["filters"]:
        assert one["name"] and 0 <= one["after"] <= one["before"], one
    assert middle["kept"] <= middle["candidates"]
    for ref in o.result.layers:
        if ref.kind in ("boxes", "polygons") and ref.label != "windows":
            features = b.layers.read_features(ref)
            assert ref.n == len(features) and all(0 <= f["properties"]["score"] <= 1 for f in features), ref.label
        if ref.kind == "mask":
            mask, seen = b.layers.read_mask(ref)
            assert int((mask & seen).sum()) == ref.n == middle["mask_px"] == middle["numerator"]
            assert middle["kept"] == (middle["polygons"] if name == "regions by prompts" else middle["mask_px"])
            assert int(seen.sum()) == middle["valid_px"] == middle["denominator"]
            assert middle["share"] == pytest.approx(middle["numerator"] / middle["denominator"])
    if o.configuration.coarse in ("objects", "document"):
        kept = [r for r in o.result.layers if not r.is_aside]
        assert sum(r.n for r in kept) == middle["kept"] == len(middle["scores"])
    if o.configuration.coarse in ("regions", "change"):
        sure = [p["sureness"] for p in middle.get("pieces", ())] or middle.get("piece_sureness") or [middle.get("sureness")]
        assert all(v is None or 0 <= v <= 1 for v in sure)
        assert name == "regions by a class" or any(v is not None for v in sure), "no confidence"
        assert "pieces" not in middle or sum(p["px"] for p in middle["pieces"]) == middle["mask_px"]
        assert source["band_mapping"]
    # validity: status, completeness over the asked classes, geometry flags, quality mask, applicability
    assert valid["layer_status"] == "complete" and valid["class_complete"] in (True, False) and "geometry_valid" in valid
    assert isinstance(valid["applicability"]["ok"], bool) and valid["not_for"] and 0 < valid["valid_share"] <= 1
    has_band = any(x.role == "qa" for x in b.question.scenes[0].bands)
    assert bool(valid["quality_mask"]) == has_band or name == "evidence"
    if has_band:
        assert middle["quality_masked"]["of_px"] - middle["quality_masked"]["n_px"] == middle["valid_px"]
    elif name != "evidence":
        assert any("no quality band" in line.message for line in o.status.log)
    if name not in ("measurement", "evidence"):
        area = middle["area"]
        assert area["searched_px"] == middle["valid_px"] and area["searched_px"] + area["not_seen_px"] == middle["n_region_px"]
        assert area["searched_m2"] == pytest.approx(area["searched_px"] * source["resolution_m"] ** 2, rel=0.02)
        assert valid["valid_share"] == pytest.approx(middle["valid_px"] / middle["n_region_px"])
    if name == "measurement":
        one, two = middle["landmarks"]
        assert one["name"] == "A" and two["name"] == "B"
        for mark in (one, two):
            assert mark["kind"] and len(mark["px"]) == len(mark["lonlat"]) == 2 and mark["uncertainty_m"] > 0
        low, high = o.result.interval
        assert low < o.result.value < high and high - o.result.value == pytest.approx(middle["uncertainty_m"])
        assert middle["azimuth_deg"] is not None and middle["distance_px"] > 0
    checks, _ = run_checks(samples.Sample(o, b, tuple(_parents(name)), question=b.question).case())
    assert next(c for c in checks if c.check == "contract.evidence_present").outcome == "passed"
    wrong = [c.check for c in checks if c.severity == "block" and c.outcome in ("failed", "errored") and c.family != "contract"]
    assert wrong == []


def _parents(name: str) -> list[Observation]:
    return [perceived("regions")[1]] if name == "regions refined" else []


def test_every_mode_and_method_of_regions_is_looked_at_here() -> None:
    told = {n.split(" ")[0] for n in PERCEIVE}
    assert told == set(MODES) == set(get_args(PerceiveMode))
    kinds = set(get_args(RegionMethod.model_fields["kind"].annotation))
    assert kinds == {"index_threshold", "band_threshold", "class_value", "prompt", "refine"}


# --- measure -------------------------------------------------------------------------------------------------------------------
@lru_cache
def measured(what: str, metric: str) -> tuple[Bench, Any, tuple[Observation, ...]]:
    """A metric of water (a mask), of trees (boxes with scores), or of drawn roads and fields on the map."""
    if what == "drawn":
        b = coast()
        fields = {"type": "FeatureCollection", "features": [
            {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [
                [[x, y], [x + 0.0013, y], [x + 0.0013, y + 0.0011], [x, y + 0.0011], [x, y]]]}}
            for x, y in ((-1.2131, 50.7307), (-1.2089, 50.7322))]}
        road = {"type": "LineString", "coordinates": [[-1.2131, 50.7291], [-1.2087, 50.7299], [-1.2043, 50.7337]]}
        given = road if metric == "length" else fields
        region = {"region": {"type": "Polygon", "coordinates": [[[-1.22, 50.72], [-1.2, 50.72], [-1.2, 50.74], [-1.22, 50.74],
                                                                 [-1.22, 50.72]]]}} if metric == "density" else {}
        source = {"name": "field", "mode": "extent", "geometry": given}
        second = {"name": "road", "mode": "extent", "geometry": road}
        spec = {"metric": metric, "subject": "field", **({"reference": "road"} if metric == "distance" else {}),
                **({"relation": "within", "reference": "road", "distance_m": 400, "denominator": "subject"}
                   if metric == "ratio" else {})}
        sources = [source, second] if metric in ("distance", "ratio") else [source]
        _, o = ask(b, "measure", {"sources": sources, "spec": spec, **region})
        return b, o, ()
    if what == "boxes":
        b, parent = perceived("objects by a formula")
        name, mode = "tree", "objects"
    else:
        b, parent = perceived("regions")
        name, mode = "water", "regions"
    source = {"name": name, "mode": mode, "layer": {"observation": parent.id}}
    _, o = ask(b, "measure", {"sources": [source], "spec": {"metric": metric, "subject": name}}, parent)
    return b, o, (parent,)


METRICS = get_args(MeasureSpec.model_fields["metric"].annotation)
CALLS = [(w, m) for w in ("mask", "boxes", "drawn") for m in METRICS if (w, m) != ("boxes", "length")]


@pytest.mark.parametrize(("what", "metric"), CALLS)
def test_measure_gives_the_protocols_evidence(what: str, metric: str) -> None:
    b, o, parents = measured(what, metric)
    is_there(o)
    source, middle, valid = o.evidence.source, o.evidence.intermediate, o.evidence.validity
    # source: where each layer came from, metric, unit specification
    for layer in source["layers"]:
        assert layer["name"] and layer["mode"] and layer["kind"] and layer["crs"]
        if parents:
            assert layer["observation"] == parents[0].id and layer["artifact"].startswith("sha256:")
        else:
            assert layer["accuracy"]["m"] > 0 and layer["accuracy"]["is_floor"] and "decimals" in layer["accuracy"]["from"]
    assert source["metric"] == source["spec"]["metric"] == metric and source["unit"]["output"] and source["unit"]["base"]
    # intermediate: numerator, denominator, pixel counts
    assert middle["numerator"] is not None and middle["denominator_is"] and middle["n_px_is"]
    assert (middle["denominator"] is not None) or middle["denominator_is"].startswith("none")
    assert (middle["n_px"] is not None) != middle["n_px_is"].startswith("none")
    if metric in ("ratio", "density"):
        per = 1e-6 if metric == "density" else 1.0
        assert o.result.value == pytest.approx(middle["numerator"] / middle["denominator"] / per)
    if metric == "count":
        assert o.result.value == middle["numerator"]
    span = source["ranges"]["value"]
    assert span["low"] == 0 and span["unit"] == source["unit"]["base"]
    # uncertainty: an interval about the value that says from what, or why there is none
    if metric == "boolean":
        assert isinstance(middle["is_uncertain"], bool)
    else:
        assert o.result.interval is not None and middle["interval_from"]
        low, high = o.result.interval
        assert low <= o.result.value <= high
        assert what != "boxes" or metric not in ("count", "density") or o.result.interval_level == 0.9
    # validity: layer status, class coverage
    assert valid["layer_status"] == "complete" and valid["class_complete"] is True and valid["geometry_valid"] is True
    for name, covered in valid["class_coverage"].items():
        assert name in covered["asked"] and covered["complete"] is True
        assert not parents or 0 < covered["seen_share"] <= 1
    checks, _ = run_checks(samples.Sample(o, b, parents, question=b.question).case())
    wrong = [c.check for c in checks if c.severity == "block" and c.outcome in ("failed", "errored") and c.family != "contract"]
    assert wrong == []


def test_every_metric_declares_a_unit_of_its_own_dimension_and_a_range() -> None:
    assert set(DEFAULT_UNIT) == set(RANGES) == set(METRICS)
    assert all(low < high for low, high in RANGES.values())
    assert DEFAULT_UNIT["area"] in AREA_M2 and DEFAULT_UNIT["distance"] in LENGTH_M and DEFAULT_UNIT["length"] in LENGTH_M
    assert DEFAULT_UNIT["density"] in DENSITY


# --- execute -------------------------------------------------------------------------------------------------------------------
S = ("s1", "asset.scene", (), {"scene": "s"})
NDVI = ("i", "raster.product.index", ("s1",), {"index": "ndvi"})
GRAPHS: dict[str, list[tuple[Any, ...]]] = {
    "a mean": [S, NDVI, ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"})],
    "a masked mean": [S, ("i", "raster.product.index", ("s1",), {"index": "ndvi", "quality_mask": "auto"}),
                      ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"})],
    "an area": [S, NDVI, ("t", "raster.product.threshold", ("i",), {"op": ">", "value": 0.3}),
                ("out", "raster.summarize.area", ("t",), {})],
    "a share": [S, NDVI, ("t", "raster.product.threshold", ("i",), {"op": ">", "value": 0.3}),
                ("out", "raster.summarize.share", ("t",), {})],
    "a raster": [S, NDVI],
    "a histogram": [S, NDVI, ("out", "raster.summarize.histogram", ("i",), {})],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_execute_gives_the_protocols_evidence(name: str) -> None:
    b = samples.cloudy() if "masked" in name else coast()
    o = b.execute(GRAPHS[name])
    is_there(o)
    source, middle, valid = o.evidence.source, o.evidence.intermediate, o.evidence.validity
    ids = [n[0] for n in GRAPHS[name]]
    # source: operator parameters, product formula, band mapping
    told = {n["id"]: n for n in source["operators"]}
    assert set(ids) <= set(told) and all("params" in n and n["op"] for n in told.values())
    assert source["formulas"] and all(source["formulas"].values())
    assert set(source["band_mapping"]) == {"s"} and set(source["band_mapping"]["s"]) >= {"red", "nir"}
    assert source["sensor"] and source["resolution_m"] and source["ranges"]
    # intermediate: output of each node, valid-pixel counts
    nodes = {n["id"]: n for n in middle["nodes"]}
    assert set(ids) <= set(nodes) and 0 < middle["valid_px"] <= middle["n_region_px"]
    for n in nodes.values():
        if str(n.get("op", "")).startswith("raster."):
            assert n["n_valid"] > 0, n
    assert o.result.interval is not None or middle["interval_from"].startswith("none:")
    grid = b.question.scenes[0].grid
    assert sum(middle["masked"].values()) + middle["valid_px"] == grid.width * grid.height
    # validity: node status, quality masks, failed nodes
    assert set(valid["node_status"]) >= set(ids) and set(valid["node_status"].values()) == {"ok"} and valid["failed_nodes"] == []
    assert bool(valid["quality_mask"]) == ("masked" in name)
    if "masked" in name:
        n, of = middle["quality_masked"]["n_px"], middle["quality_masked"]["of_px"]
        assert 0 < n < of and middle["masked"]["masked_out"] == n


# --- ranges and applicability --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(n for n, _ in OPERATORS.items()))
def test_every_operator_declares_its_range_its_nodata_and_its_inputs(name: str) -> None:
    op = OPERATORS[name]
    assert isinstance(op.range, PhysicalRange) or (isinstance(op.range, str) and len(op.range) > 8)
    if isinstance(op.range, PhysicalRange):
        assert op.range.low < op.range.high and (np.isfinite([op.range.low, op.range.high]).all() or op.range.why)
    assert len(op.nodata) > 8 and op.summary.endswith((".", "…")) and op.gives and (op.takes.kinds or op.takes.most == 0)
    assert op.params.model_config.get("extra") == "forbid"
    # a number that a person may set is bounded, or says what it is
    for key, field in op.params.model_fields.items():
        bounded = field.metadata or field.description or field.annotation in (str, bool) or "Literal" in str(field.annotation)
        assert bounded or not re.fullmatch(r"<class '(int|float)'>", str(field.annotation)), (name, key)


@pytest.mark.parametrize("name", each(PERCEIVE))
def test_every_mode_says_what_it_is_not_for(name: str) -> None:
    _, o = perceived(name)
    assert all(isinstance(x, str) and x for x in o.evidence.validity["not_for"])
    problems = o.evidence.validity["applicability"]["problems"]
    assert o.evidence.validity["applicability"]["ok"] == (not problems)


@pytest.mark.parametrize("name", each(PERCEIVE))
def test_every_mode_declares_kind_range_and_applicability_and_keeps_to_it(name: str) -> None:
    _, o = perceived(name)
    declared = DECLARED[name.split(" ")[0]]
    assert o.result.kind in declared.gives and len(declared.range) > 20 and len(declared.applies_to) > 20
    assert o.evidence.source["declared_range"] == declared.range and o.evidence.validity["applies_to"] == declared.applies_to
    assert set(DECLARED) == set(MODES)


def test_a_mode_that_declares_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DECLARED, "evidence")
    _, o = look(coast(), "evidence")
    assert o.status.state == "failed" and "declares neither range nor applicability" in o.status.reason


def test_every_method_without_weights_says_for_which_pixels_and_ground_it_is() -> None:
    for m in METHODS.values():
        assert 0 < m.gsd_m[0] < m.gsd_m[1] and m.roles and m.least_m and m.not_for and m.source and m.about and m.settings
    assert set(NOT_FOR) == set(DEFAULTS) and all(d.reference and -1 <= d.threshold <= 1 for d in DEFAULTS.values())


def test_every_shipped_model_says_what_it_was_made_for() -> None:
    shipped = [card for card, _ in models() if card.source == "shipped"]
    assert shipped
    for card in shipped:
        assert card.classes and card.bands and card.sensors and card.not_for and card.licence and card.sha256, card.name
        assert card.gsd_m or all(c.gsd_m for c in card.classes), card.name
        for c in card.classes:
            span = c.gsd_m or card.gsd_m
            assert span is not None and 0 < span[0] < span[1], (card.name, c.name)


# --- a whole scene ----------------------------------------------------------------------------------------------------------
@pytest.mark.shared_data
def test_a_whole_cloudy_landsat_scene_says_what_could_not_be_seen(shared_data: Path) -> None:
    """As ingest reads it: band by band, with the coding of the quality band from its profile."""
    import rasterio

    folder = shared_data / "multispectral/landsat8_cloudy"
    planes = [rasterio.open(folder / f"l8_{n}.tif").read(1) for n in ("B3", "B5", "BQA")]
    info, _ = from_file(folder / "l8_B3.tif", {"green": 1}, unit="DN")
    schemes = {"qa": "landsat_precollection"}
    bands = [info.bands[0].model_copy(update={"index": i + 1, "role": r, "scheme": schemes.get(r, "")})
             for i, r in enumerate(("green", "nir", "qa"))]
    b = Bench((info.model_copy(update={"bands": tuple(bands), "sensor": "Landsat 8/9 OLI-TIRS"}), np.stack(planes)))
    _, o = look(b, "regions", target_groups={"water": []})
    is_there(o)
    hidden = planes[2].astype(int) >> 14 == 3
    assert o.evidence.validity["quality_mask"][0]["share"] == pytest.approx(hidden.mean())
    _, area = ask(b, "measure", {"sources": [{"name": "water", "mode": "regions", "layer": {"observation": o.id}}],
                                 "spec": {"metric": "area"}}, o)
    is_there(area)
    green, nir = (p.astype(float) for p in planes[:2])
    assert area.result.value == pytest.approx(int(((green > nir) & ~hidden).sum()) * 900, rel=2e-3)
    assert area.evidence.validity["quality_mask"] == o.evidence.validity["quality_mask"]
    assert area.evidence.validity["class_coverage"]["water"]["seen_share"] == pytest.approx(1 - hidden.mean())
