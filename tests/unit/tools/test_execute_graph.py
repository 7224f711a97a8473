"""What a graph may be: every refusal is a sentence, and no pixel is read before the whole graph was checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.core.evidence.observation import REQUIRED_EVIDENCE, Observation
from apps.tools.execute.indices import INDICES
from tests.unit.tools.rasters import Bench, close, node_of, scene

STORED = np.arange(1, 2 * 12 * 10 + 1, dtype=np.uint16).reshape(2, 12, 10)
SCENE = ("s1", "asset.scene", (), {"scene": "s"})
NDVI = [SCENE, ("ndvi", "raster.product.index", ["s1"], {"index": "ndvi"})]
MEAN = ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "mean"})


def _bench(**more: Any) -> Bench:
    return Bench(scene(STORED, ["red", "nir"], **more))


@pytest.mark.parametrize(("nodes", "output", "part"), [
    ([*NDVI, NDVI[1], MEAN], "out", "Two nodes are named"),
    ([SCENE, ("x", "raster.product.nothing", ["s1"], {})], "x", "no operator"),
    ([("ndvi", "raster.product.index", ["nobody"], {"index": "ndvi"})], "ndvi", "no node of the graph"),
    ([*NDVI, MEAN], "other", "output"),
    ([("a", "raster.product.threshold", ["b"], {"value": 0}), ("b", "raster.product.threshold", ["a"], {"value": 0})], "a",
     "circle"),
    ([SCENE, ("out", "raster.summarize.area", ["s1"], {})], "out", "takes mask"),
    ([*NDVI, ("out", "raster.summarize.area", ["ndvi"], {})], "out", "takes mask"),
    ([*NDVI, ("d", "raster.product.difference", ["ndvi"], {})], "d", "takes 2 inputs"),
    ([SCENE, ("i", "raster.product.index", ["s1"], {"index": "nvdi"})], "i", "No index named"),
    ([SCENE, ("i", "raster.product.index", ["s1"], {"index": "ndwi"})], "i", "green"),
    ([SCENE, ("i", "raster.product.index", ["s1"], {"index": "savi"})], "i", "reflectance"),
    ([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "mode"})], "out", "statistic"),
    ([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "percentile"})], "out", "Percentile needs"),
    ([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statstic": "mean"})], "out", "statstic"),
    ([*NDVI, ("m", "raster.product.threshold", ["ndvi"], {"value": 4000})], "m", "outside it"),
    ([*NDVI, ("m", "raster.product.threshold", ["ndvi"], {"value": 0.2, "unit": "K"})], "m", "threshold is in K"),
    ([*NDVI, ("m", "raster.product.threshold", ["ndvi"], {"value": 0.2}),
      ("out", "raster.summarize.area", ["m"], {"unit": "deg2"})],
     "out", "not a unit"),
    ([SCENE, ("m", "raster.product.math", ["s1"], {"expression": "red + nir"})], "m", "range"),
    ([SCENE, ("m", "raster.product.math", ["s1"], {"expression": "eval(red)", "range": [0, 1]})], "m", "not allowed"),
    ([SCENE, ("m", "raster.product.math", ["s1"], {"expression": "red + swir1", "range": [0, 9e9]})], "m", "swir1"),
    ([("s1", "asset.scene", (), {"scene": "other"}), NDVI[1], MEAN], "out", "no scene other"),
])
def test_a_wrong_graph_is_refused_with_a_sentence_before_any_pixel_is_read(nodes: Any, output: Any, part: Any) -> None:
    b = _bench()
    o = b.execute(nodes, output)
    assert o.status.state == "failed"
    assert part in o.status.reason
    assert o.result.value is None
    assert o.status.needs["code"]
    assert not b.readers  # nothing was opened


def test_people_read_a_refusal_without_its_node_which_the_log_keeps() -> None:
    o = Bench(scene(STORED, ["red", "nir"])).execute([SCENE, ("i", "raster.product.index", ["s1"], {"index": "ndwi"})], "i")
    assert o.status.reason.startswith("s.tif has no band known as green")
    told = [line.message for line in o.status.log if line.level == "error"]
    assert told == [f"Node i (raster.product.index): {o.status.reason}"]


def test_missing_roles_are_asked_for() -> None:
    o = Bench(scene(STORED, ["unknown", "unknown"])).execute([*NDVI, MEAN])
    assert o.status.needs == {"roles": ["nir", "red"], "scene": "s", "code": "NEEDS_BANDS"}


def test_two_bands_of_one_role_are_not_guessed_between() -> None:
    o = Bench(scene(np.concatenate([STORED, STORED]), ["red", "nir", "red", "green"])).execute([*NDVI, MEAN])
    assert o.status.state == "failed" and o.status.needs["code"] == "NEEDS_BANDS"


def test_decibels_do_not_enter_a_ratio() -> None:
    o = Bench(scene(STORED.astype(np.float32) - 300, ["vv", "vh"], unit="dB")).execute(
        [SCENE, ("r", "raster.product.ratio", ["s1"], {"first": "vh", "second": "vv"})])
    assert "not dB" in o.status.reason


def test_area_without_crs_or_gsd_abstains_and_asks() -> None:
    nodes = [*NDVI, ("m", "raster.product.threshold", ["ndvi"], {"value": 0}), ("out", "raster.summarize.area", ["m"], {})]
    o = _bench(crs=None).execute(nodes)
    assert o.status.needs == {"gsd_m": True, "code": "NEEDS_GSD"}
    o = _bench(crs=None, gsd_m=2.0).execute(nodes)
    assert o.result.value == 120 * 4.0 and node_of(o, "out")["method"] == "gsd"
    share = _bench(crs=None).execute([*nodes[:-1], ("out", "raster.summarize.share", ["m"], {})])
    assert share.result.value == 1.0


@pytest.mark.parametrize(("region", "crs", "part"), [
    ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}, "EPSG:4326", "does not touch"),
    ({"type": "Point", "coordinates": [0, 0]}, "image", "Polygon"),
    ({"type": "Polygon", "coordinates": [[[0, 0], [9, 9], [9, 0], [0, 9], [0, 0]]]}, "image", "not a valid"),
    ({"type": "Polygon", "coordinates": []}, "image", "empty"),
    ({"type": "Polygon", "coordinates": [[[0.1, 0.1], [0.2, 0.1], [0.2, 0.2], [0.1, 0.1]]]}, "image", "smaller than a pixel"),
    ({"type": "Polygon", "coordinates": "here"}, "image", "cannot be read"),
])
def test_a_wrong_region_is_refused(region: Any, crs: Any, part: Any) -> None:
    b = _bench()
    o = b.execute([*NDVI, MEAN], region=region, region_crs=crs)
    assert o.status.state == "failed" and part in o.status.reason and o.status.needs["code"] == "BAD_REGION"
    assert not any(r.n_reads for r in b.readers.values())


def test_a_map_region_on_a_picture_without_crs_asks_for_the_crs() -> None:
    o = _bench(crs=None).execute([*NDVI, MEAN], region={"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]})
    assert o.status.needs == {"crs": True, "code": "NEEDS_CRS"}


def test_the_questions_region_holds_where_the_arguments_name_none() -> None:
    ring = [[0, 0], [5, 0], [5, 12], [0, 12], [0, 0]]
    b = Bench(scene(STORED, ["red", "nir"]), region={"type": "Polygon", "coordinates": [ring]}, region_crs="image")
    o = b.execute([*NDVI, MEAN])
    assert o.evidence.intermediate["valid_px"] == 60
    assert o.arguments_passed["region_crs"] == "image"


def test_the_evidence_is_whole_and_the_arguments_are_filled_in() -> None:
    o = _bench().execute([*NDVI, MEAN])
    for part, keys in REQUIRED_EVIDENCE["execute"].items():
        found = getattr(o.evidence, part)
        assert all(any(k in found for k in ((key,) if isinstance(key, str) else key)) for key in keys)
    assert o.evidence.source["band_mapping"] == {"s": {"red": 1, "nir": 2}}
    assert o.evidence.source["formulas"] == {"ndvi": "(nir - red) / (nir + red)"}
    assert o.evidence.validity == {"node_status": {"s1": "ok", "ndvi": "ok", "out": "ok"}, "quality_mask": None,
                                   "failed_nodes": [], "valid_share": 1.0, "n_out_of_range": 0}
    assert o.arguments_passed["nodes"][2]["params"]["ddof"] == 0
    assert [b.role for b in o.inputs[0].bands] == ["red", "nir"]
    assert Observation.model_validate_json(o.model_dump_json()) == o
    assert o.provenance.packages["numpy"] and o.provenance.revision == "test"


def test_values_outside_the_physical_range_are_counted_and_told() -> None:
    stored = np.array([[[-100, 50]], [[150, 60]]], dtype=np.int16)
    o = Bench(scene(stored, ["red", "nir"])).execute([*NDVI, MEAN])
    assert node_of(o, "ndvi")["n_out_of_range"] == 1
    told = next(line.message for line in o.status.log if "lie outside the physical range" in line.message)
    assert told.startswith("1 of ") and " values of ndvi (step “ndvi” of the graph) lie" in told and "Node" not in told
    assert any("outside the physical range" in line.message for line in o.status.log)
    kept = Bench(scene(stored, ["red", "nir"])).execute(
        [SCENE, ("ndvi", "raster.product.index", ["s1"], {"index": "ndvi", "out_of_range": "mask"}), MEAN])
    assert close(kept.result.value, 10 / 110)


def test_a_scene_that_cannot_be_read_is_a_failed_observation_without_paths_or_traceback() -> None:
    b = _bench()

    def broken(info: Any) -> Any:
        raise OSError("/srv/secret/place/file.tif: truncated")

    b.box._open_scene = broken
    o = b.execute([*NDVI, MEAN])
    assert o.status.state == "failed"
    assert "/srv" not in o.model_dump_json() and "file.tif: truncated" in o.status.reason
    assert o.evidence.validity["failed_nodes"]


def test_wrong_arguments_are_told_in_a_sentence() -> None:
    o = _bench().call("execute", {"nodes": [], "output": 3})
    assert o.status.state == "failed" and o.status.needs["code"] == "BAD_ARGUMENT"
    assert "nodes" in o.status.reason and "output" in o.status.reason
    assert o.arguments == {"nodes": [], "output": 3}


@pytest.mark.parametrize("arguments", [
    {"nodes": [{"id": "a", "op": "x", "params": {"v": float("nan")}}], "output": "a"},
    {"nodes": [], "output": "a", "region": {"type": "Polygon", "coordinates": [[[0, 0]] * 2000]}},
])
def test_arguments_that_cannot_be_recorded_are_still_an_observation(arguments: dict[str, Any]) -> None:
    o = _bench().call("execute", arguments)
    assert o.status.state == "failed" and o.status.needs["code"] == "BAD_ARGUMENT"


def test_a_series_forgives_a_date_that_cannot_be_read_and_is_partial() -> None:
    one = scene(STORED, ["red", "nir"], scene_id="a", date="2020-01-01")
    two = scene(STORED, ["red", "nir"], scene_id="b", date="2020-02-01")
    b = Bench(one, two)
    opened = b._open
    b.box._open_scene = lambda info: opened(info) if info.scene_id == "a" else (_ for _ in ()).throw(OSError("gone"))
    nodes = [("sa", "asset.scene", (), {"scene": "a"}), ("sb", "asset.scene", (), {"scene": "b"}),
             ("na", "raster.product.index", ["sa"], {"index": "ndvi"}), ("nb", "raster.product.index", ["sb"], {"index": "ndvi"}),
             ("out", "raster.summarize.series", ["na", "nb"], {})]
    o = b.execute(nodes)
    assert o.status.state == "partial" and "nb" in o.status.reason
    assert [i["date"] for i in o.result.items] == ["2020-01-01"]
    assert o.evidence.validity["failed_nodes"] == [{"id": "nb", "reason": "OSError: gone"}]
    assert o.evidence.validity["node_status"]["nb"] == "failed"


def test_a_series_goes_on_without_a_date_beside_the_region() -> None:
    one = scene(STORED, ["red", "nir"], scene_id="a", date="2020-01-01")
    two = scene(STORED, ["red", "nir"], scene_id="b", date="2020-02-01", origin=(700000.0, 5600000.0))
    grid = one[0].grid
    ring = [list(map(float, grid.lonlat(*grid.xy(c, r)))) for c, r in ((1, 1), (8, 1), (8, 9), (1, 9), (1, 1))]
    nodes = [("sa", "asset.scene", (), {"scene": "a"}), ("sb", "asset.scene", (), {"scene": "b"}),
             ("na", "raster.product.index", ["sa"], {"index": "ndvi"}), ("nb", "raster.product.index", ["sb"], {"index": "ndvi"}),
             ("out", "raster.summarize.series", ["na", "nb"], {})]
    o = Bench(one, two).execute(nodes, region={"type": "Polygon", "coordinates": [ring]})
    assert o.status.state == "partial" and [i["date"] for i in o.result.items] == ["2020-01-01"]
    assert any("does not touch b.tif" in line.message for line in o.status.log)
    o = Bench(one, two).execute([*nodes[:4], ("d", "raster.product.difference", ["na", "nb"], {"resample": "nearest"})],
                                region={"type": "Polygon", "coordinates": [ring]})
    assert o.status.state == "failed"


def test_series_needs_dates() -> None:
    o = _bench().execute([*NDVI, ("out", "raster.summarize.series", ["ndvi"], {})])
    assert o.status.needs == {"dates": ["s"], "code": "NEEDS_DATES"}


def test_different_grids_are_not_subtracted_unasked() -> None:
    one = scene(STORED, ["red", "nir"], scene_id="a")
    two = scene(STORED, ["red", "nir"], scene_id="b", origin=(600005.0, 5600000.0))
    nodes = [("sa", "asset.scene", (), {"scene": "a"}), ("sb", "asset.scene", (), {"scene": "b"}),
             ("na", "raster.product.band", ["sa"], {"role": "red"}), ("nb", "raster.product.band", ["sb"], {"role": "red"})]
    o = Bench(one, two).execute([*nodes, ("d", "raster.product.difference", ["na", "nb"], {})])
    assert o.status.state == "failed" and "different grids" in o.status.reason
    o = Bench(one, two).execute([*nodes, ("d", "raster.product.difference", ["na", "nb"], {"resample": "bilinear"}),
                                 ("out", "raster.summarize.statistic", ["d"], {})])
    # red is a ramp of 1 a column: half a pixel to the east, seen from the first grid, is half a step back; the first column
    # lies on the outline and keeps the outer pixel
    assert o.result.value == pytest.approx(-0.5 * 9 / 10)
    assert o.evidence.intermediate["valid_px"] == 120


def test_all_bands_of_a_resampled_scene_are_read() -> None:
    """An index of two bands on another grid: the plane that is resampled rests on both."""
    one = scene(STORED, ["red", "nir"], scene_id="a")
    two = scene(STORED, ["red", "nir"], scene_id="b", origin=(600005.0, 5600000.0))
    nodes = [("sa", "asset.scene", (), {"scene": "a"}), ("sb", "asset.scene", (), {"scene": "b"}),
             ("na", "raster.product.index", ["sa"], {"index": "ndvi"}), ("nb", "raster.product.index", ["sb"], {"index": "ndvi"}),
             ("d", "raster.product.difference", ["na", "nb"], {"resample": "bilinear"}),
             ("out", "raster.summarize.statistic", ["d"], {})]
    o = Bench(one, two).execute(nodes)
    assert o.status.state == "ok", o.status.reason
    red, nir = STORED.astype(float)
    ndvi = (nir - red) / (nir + red)
    # the second grid lies half a pixel to the east: on the first one's centres it is the mean of a pixel and its left one
    left = np.concatenate([ndvi[:, :1], ndvi[:, :-1]], axis=1)
    assert o.result.value == pytest.approx(float(((left + ndvi) / 2 - ndvi).mean()))


def test_every_index_names_its_roles_range_and_reference() -> None:
    for index in INDICES.values():
        assert index.roles and index.reference and index.range.low < index.range.high
        bands = {r: 0.1 + 0.05 * i for i, r in enumerate(index.roles)}
        stored = np.array(list(bands.values()))[:, None, None]
        o = Bench(scene(stored, list(bands), unit="reflectance")).execute(
            [SCENE, ("i", "raster.product.index", ["s1"], {"index": index.name}),
             ("out", "raster.summarize.statistic", ["i"], {})])
        assert o.status.state == "ok", (index.name, o.status.reason)
        assert index.range.low <= o.result.value <= index.range.high


@pytest.mark.parametrize(("index", "bands", "wanted"), [
    # figures computed by hand from the papers' formulas
    ("ndvi", {"red": 0.1, "nir": 0.5}, 0.4 / 0.6), ("ndwi", {"green": 0.3, "nir": 0.1}, 0.5),
    ("mndwi", {"green": 0.3, "swir1": 0.1}, 0.5), ("ndbi", {"swir1": 0.3, "nir": 0.2}, 0.2),
    ("ndmi", {"nir": 0.3, "swir1": 0.2}, 0.2), ("nbr", {"nir": 0.4, "swir2": 0.1}, 0.6),
    ("ndsi", {"green": 0.8, "swir1": 0.2}, 0.6), ("ndti", {"red": 0.12, "green": 0.08}, 0.2),
    ("evi", {"red": 0.1, "nir": 0.5, "blue": 0.05}, 2.5 * 0.4 / (0.5 + 0.6 - 0.375 + 1)),
    ("savi", {"red": 0.1, "nir": 0.5}, 1.5 * 0.4 / 1.1),
    ("bsi", {"swir1": 0.3, "red": 0.2, "nir": 0.25, "blue": 0.1}, 0.15 / 0.85),
    ("wri", {"green": 0.2, "red": 0.1, "nir": 0.1, "swir1": 0.05}, 2.0),
])
def test_indices_give_the_papers_figures(index: Any, bands: Any, wanted: Any) -> None:
    stored = np.array(list(bands.values()))[:, None, None]
    o = Bench(scene(stored, list(bands), unit="reflectance")).execute(
        [SCENE, ("i", "raster.product.index", ["s1"], {"index": index}), ("out", "raster.summarize.statistic", ["i"], {})])
    assert o.result.value == pytest.approx(wanted, rel=1e-12)


def test_trend_agrees_with_a_line_and_its_interval_with_scipy() -> None:
    from scipy import stats

    days = ["2018-01-01", "2019-01-01", "2020-01-01", "2021-01-01", "2022-06-01"]
    levels = [10.0, 12.5, 13.0, 17.0, 18.0]
    scenes = [scene(np.full((1, 3, 3), v), ["lst"], scene_id=f"s{i}", date=d, unit="K", valid_range=(0, 400))
              for i, (d, v) in enumerate(zip(days, [v + 280 for v in levels], strict=True))]
    nodes = [n for i in range(5) for n in ((f"a{i}", "asset.scene", (), {"scene": f"s{i}"}),
                                           (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "lst"}))]
    o = Bench(*scenes).execute([*nodes, ("out", "raster.summarize.trend", [f"b{i}" for i in range(5)], {})])
    x = np.array([0, 365, 730, 1096, 1612]) / 365.25
    fit = stats.linregress(x, levels)
    assert o.result.value == pytest.approx(fit.slope) and o.result.unit == "K/year" and o.result.interval_level == 0.95
    half = stats.t.ppf(0.975, 3) * fit.stderr
    assert o.result.interval == pytest.approx((fit.slope - half, fit.slope + half))
    assert node_of(o, "out")["p_value"] == pytest.approx(fit.pvalue)


def test_class_areas_and_transitions() -> None:
    before = np.array([[[1, 1, 2], [2, 2, 255]]], dtype=np.uint8)
    after = np.array([[[1, 2, 2], [2, 1, 1]]], dtype=np.uint8)
    a, b = (scene(x, ["class"], scene_id=i, nodata=255) for i, x in (("a", before), ("b", after)))
    nodes = [("sa", "asset.scene", (), {"scene": "a"}), ("sb", "asset.scene", (), {"scene": "b"}),
             ("ca", "raster.product.band", ["sa"], {"role": "class"}), ("cb", "raster.product.band", ["sb"], {"role": "class"})]
    o = Bench(a, b).execute([*nodes, ("out", "raster.summarize.class_areas", ["ca"], {"unit": "m2"})])
    assert [(i["class"], i["n_px"], i["area"]) for i in o.result.items] == [(1, 2, 200.0), (2, 3, 300.0)]
    o = Bench(a, b).execute([*nodes, ("out", "raster.summarize.transitions", ["ca", "cb"], {})])
    assert {(i["from"], i["to"]): i["n_px"] for i in o.result.items} == {(1, 1): 1, (1, 2): 1, (2, 2): 2, (2, 1): 1}
    assert o.result.value == pytest.approx(2 / 5)


@pytest.mark.parametrize(("dtype", "codes"), [
    ("int16", [-2, -1, 0, 3]), ("int32", [-70000, 0, 65536, 110000]), ("uint16", [0, 1, 65535])])
def test_transitions_of_codes_below_0_and_beyond_16_bits(dtype: str, codes: list[int]) -> None:
    rng = np.random.default_rng(9)
    before, after = (rng.choice(codes, (1, 20, 30)).astype(dtype) for _ in range(2))
    a, b = (scene(x, ["class"], scene_id=i) for i, x in (("a", before), ("b", after)))
    nodes = [("sa", "asset.scene", (), {"scene": "a"}), ("sb", "asset.scene", (), {"scene": "b"}),
             ("ca", "raster.product.band", ["sa"], {"role": "class"}), ("cb", "raster.product.band", ["sb"], {"role": "class"})]
    o = Bench(a, b).execute([*nodes, ("out", "raster.summarize.transitions", ["ca", "cb"], {})])
    expected = {(i, j): int(((before == i) & (after == j)).sum()) for i in codes for j in codes}
    assert {(i["from"], i["to"]): i["n_px"] for i in o.result.items} == {k: n for k, n in expected.items() if n}
    assert o.result.value == float((before != after).mean())


def test_catalogue_names_what_is_missing() -> None:
    scenes = [scene(STORED, ["red", "nir"], scene_id=f"s{m}", date=f"2020-{m:02}-01", sensor="Sentinel-2") for m in (1, 2, 6)]
    o = Bench(*scenes, scene(STORED, ["red", "green"], scene_id="x", date="2020-03-01")).execute(
        [("c", "asset.catalog", (), {"start": "2020-01-01", "end": "2020-06-30", "roles": ["nir"], "revisit_days": 31})])
    assert o.result.kind == "catalog" and o.result.value == 4
    assert o.evidence.intermediate["nodes"][0]["missing"] == ["x.tif lacks nir"]
    # that of March lacks nir, so it fills no gap
    assert o.evidence.intermediate["nodes"][0]["gaps"] == [{
        "from": "2020-02-01", "to": "2020-06-01", "days": 121, "n_expected": 3,
        "expected": ["2020-03-03", "2020-04-03", "2020-05-04"]}]


def test_catalogue_by_place_level_and_the_sensors_own_revisit() -> None:
    held = [{"id": f"S2A_{d}", "date": f"2024-06-{d:02}", "sensor": "Sentinel-2A msi", "collection": "c", "level": "L2A",
             "roles": ["red", "nir"], "bbox": box, "gsd_m": 10.0, "cloud_share": 0.1}
            for d, box in ((1, [10, 50, 11, 51]), (6, [10, 50, 11, 51]), (26, [10, 50, 11, 51]), (11, [20, 50, 21, 51]),
                           (16, [179, 50, -179, 51]))]
    b = Bench(scene(STORED, ["red", "nir"], scene_id="s1", date="2024-06-01", sensor="Sentinel-2"), stac_items=held)
    o = b.execute([("c", "asset.catalog", (), {"bbox": [10.5, 50.5, 10.6, 50.6], "level": "L2A", "source": "folder"})])
    found: Any = o.evidence.intermediate["nodes"]
    assert [i["date"] for i in o.result.items] == ["2024-06-01", "2024-06-06", "2024-06-26"]
    assert (found[0]["revisit_days"], found[0]["n_missing_dates"]) == (5, 3)
    assert found[0]["gaps"][0]["expected"] == ["2024-06-11", "2024-06-16", "2024-06-21"]
    o = b.execute([("c", "asset.catalog", (), {"bbox": [179.5, 50, -179.5, 51]})])
    assert [i["name"] for i in o.result.items] == ["S2A_16"]
    assert b.execute([("c", "asset.catalog", (), {"source": "question"})]).result.value == 1
    assert b.execute([("c", "asset.catalog", (), {"bbox": [0, 60, 1, 50]})]).status.state == "failed"
    assert b.execute([("c", "asset.catalog", (), {"level": "L1C", "source": "folder"})]).result.value == 0
