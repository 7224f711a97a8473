"""measure: figures against geometry worked out by hand or by another library, on grids, on the globe and on plain pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from pyproj import Geod, Transformer
from scipy import ndimage
from shapely.geometry import LineString, box, mapping

from apps.core.evidence.observation import REQUIRED_EVIDENCE, Configuration, Evidence, Observation, Result, Status
from apps.core.geo.grid import Grid
from apps.verification.checks import CHECKS, Case
from tests.unit.tools.rasters import TASK, Bench, from_file, scene

EMPTY = np.ones((1, 60, 80), dtype=np.uint8)
GEOD = Geod(ellps="WGS84")


def seen(bench: Bench, layers: Sequence[Any], state: Any = "ok", mode: str = "objects", **evidence: Any) -> Observation:
    """An observation of perceive with those layers, as an accepted parent."""
    return Observation(
        id=f"o{len(bench.layers.kept)}", step=1, task=TASK, tool="perceive",
        configuration=Configuration(coarse=mode, fine=mode),
        status=Status(state=state, started_at=datetime(2024, 1, 1, tzinfo=UTC), elapsed_s=0.1,
                      reason="" if state == "ok" else "half"),
        result=Result(kind="layer", layers=tuple(layers)),
        evidence=Evidence(intermediate=evidence, validity={"layer_status": "complete", "class_complete": True}))


def boxes(bench: Bench, rectangles: Sequence[tuple[float, float, float, float]], *, label: str = "vehicle",
          scores: Sequence[float] | None = None, weak: Sequence[float] = ()) -> Observation:
    def feature(r: tuple[float, float, float, float], p: float) -> dict[str, Any]:
        return {"type": "Feature", "geometry": mapping(box(*r)),
                "properties": {"score": p, "p": p, "class": label, "target": label}}

    ps = list(scores) if scores is not None else [0.9] * len(rectangles)
    put = bench.layers.put_features
    kept = put([feature(r, p) for r, p in zip(rectangles, ps, strict=True)], kind="boxes", crs="image", label=label, scene_id="s")
    candidates = put([feature((1, 1, 2, 2), p) for p in weak], kind="boxes", crs="image", label="candidates", scene_id="s")
    return seen(bench, [kept, candidates])


def mask_of(bench: Bench, mask: NDArray[np.bool_], *, label: str = "water", valid: NDArray[np.bool_] | None = None,
            ) -> Observation:
    grid = bench.question.scenes[0].grid
    ref = bench.layers.put_mask(mask, np.ones_like(mask) if valid is None else valid, grid, label=label, scene_id="s")
    return seen(bench, [ref], mode="regions")


def measure(bench: Bench, spec: dict[str, Any], *sources: tuple[str, str, Observation], **more: Any) -> Any:
    listed = [{"name": n, "mode": m, "layer": {"observation": o.id}} for n, m, o in sources]
    return bench.call("measure", {"sources": listed, "spec": spec, **more}, parents=[o for _, _, o in sources])


def blob(*rectangles: tuple[int, int, int, int], shape: tuple[int, int] = (60, 80)) -> NDArray[np.bool_]:
    """True in rectangles (row, column, rows, columns)."""
    out = np.zeros(shape, dtype=bool)
    for r, c, h, w in rectangles:
        out[r:r + h, c:c + w] = True
    return out


@pytest.fixture
def utm() -> Bench:
    return Bench(scene(EMPTY, ["gray"]))


@pytest.fixture
def picture() -> Bench:
    return Bench(scene(EMPTY, ["gray"], crs=None))


# --- count -----------------------------------------------------------------------------------------------------------------
def test_count_is_the_number_of_kept_boxes_and_its_interval_holds_the_expected_number(utm: Bench) -> None:
    o = measure(utm, {"metric": "count", "subject": "vehicle"},
                ("vehicle", "objects", boxes(utm, [(i, i, i + 3, i + 3) for i in range(20)], scores=[0.8] * 20, weak=[0.2] * 10)))
    assert (o.result.kind, o.result.value, o.result.unit) == ("count", 20, "1")
    expected, spread = 20 * 0.8 + 10 * 0.2, math.sqrt(30 * 0.16)
    assert o.result.interval == (math.floor(expected - 1.6449 * spread), math.ceil(max(20, expected + 1.6449 * spread)))
    assert o.result.interval_level == 0.9
    assert o.configuration.fine == "count/auto/objects" and o.configuration.coarse == "count"
    for part, keys in REQUIRED_EVIDENCE["measure"].items():
        assert all(k in getattr(o.evidence, part) for k in keys)


def test_nothing_counted_is_a_finding_of_zero(utm: Bench) -> None:
    o = measure(utm, {"metric": "count"}, ("vehicle", "objects", boxes(utm, [])))
    assert o.status.state == "ok" and o.result.value == 0


def test_pieces_of_a_mask_are_counted_with_diagonals_joined(utm: Bench) -> None:
    o = measure(utm, {"metric": "count"}, ("water", "regions", mask_of(utm, blob((0, 0, 2, 2), (2, 2, 2, 2), (10, 10, 3, 3)))))
    assert o.result.value == 2


def test_a_region_keeps_the_objects_whose_centre_lies_inside(utm: Bench) -> None:
    ring = [[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]
    o = measure(utm, {"metric": "count"}, ("vehicle", "objects", boxes(utm, [(1, 1, 3, 3), (8, 8, 11, 11), (9, 9, 13, 13)])),
                region={"type": "Polygon", "coordinates": [ring]}, region_crs="image")
    assert o.result.value == 2


# --- area ------------------------------------------------------------------------------------------------------------------
def test_area_on_a_utm_grid_and_its_bounds(utm: Bench) -> None:
    o = measure(utm, {"metric": "area", "unit": "ha"}, ("water", "regions", mask_of(utm, blob((10, 10, 20, 30)))))
    assert o.result.value == pytest.approx(600 * 100 / 1e4)
    # 96 pixels on the inner side of the outline, 100 on the outer one, half of each
    assert o.result.interval == pytest.approx((6 - 96 * 0.5 * 0.01, 6 + 100 * 0.5 * 0.01))
    e = o.evidence.intermediate
    assert (e["n_px"], e["edge_px"], e["outer_edge_px"], e["method"]) == (600, 96, 100, "grid")
    assert abs(float(str(e["geodesic_m2"])) / 60_000 - 1) < 1e-3


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857"])
def test_area_elsewhere_is_geodesic(crs: str) -> None:
    pixel, origin = (0.001, (10.0, 60.0)) if crs == "EPSG:4326" else (100.0, (1113194.9, 8399737.9))
    b = Bench(scene(EMPTY, ["gray"], crs=crs, pixel=pixel, origin=origin))
    o = measure(b, {"metric": "area"}, ("water", "regions", mask_of(b, blob((0, 0, 60, 80)))))
    grid: Grid = b.question.scenes[0].grid
    ring = [grid.lonlat(*grid.xy(c, r)) for c, r in
            [(i, 0) for i in range(80)] + [(80, i) for i in range(60)] + [(i, 60) for i in range(80, 0, -1)]
            + [(0, i) for i in range(60, 0, -1)]]
    wanted = abs(GEOD.polygon_area_perimeter([p[0] for p in ring], [p[1] for p in ring])[0])
    assert o.result.value == pytest.approx(wanted, rel=1e-4)
    assert o.evidence.intermediate["method"] == "geodesic"


def test_area_without_gsd_abstains_and_a_given_gsd_serves(picture: Bench) -> None:
    lake = mask_of(picture, blob((0, 0, 10, 10)))
    o = measure(picture, {"metric": "area"}, ("water", "regions", lake))
    assert o.status.state == "failed" and o.status.needs == {"gsd_m": True, "code": "NEEDS_GSD", "abstained": True}
    source = {"name": "water", "mode": "regions", "layer": {"observation": lake.id}, "gsd_m": 0.5}
    o = picture.call("measure", {"sources": [source],
                                 "spec": {"metric": "area"}}, parents=[lake])
    assert o.result.value == 25.0 and o.evidence.validity["gsd_from"] == "given"


def test_a_gsd_that_contradicts_the_crs_is_told_and_not_used(utm: Bench) -> None:
    lake = mask_of(utm, blob((0, 0, 10, 10)))
    o = utm.call("measure", {"sources": [{"name": "water", "mode": "regions", "layer": {"observation": lake.id}, "gsd_m": 1.0}],
                             "spec": {"metric": "area"}}, parents=[lake])
    assert o.result.value == 10_000 and any("the CRS is used" in line.message for line in o.status.log)


def test_overlapping_boxes_are_not_counted_twice_in_area(utm: Bench) -> None:
    o = measure(utm, {"metric": "area"}, ("roof", "objects", boxes(utm, [(0, 0, 10, 10), (5, 0, 15, 10)], label="roof")))
    assert o.result.value == pytest.approx(150 * 100)
    assert o.evidence.intermediate["overlap_m2"] == pytest.approx(50 * 100)
    assert any("area is that of boxes" in line.message for line in o.status.log)


# --- ratio, density, boolean -----------------------------------------------------------------------------------------------
def test_share_of_valid_pixels_needs_no_gsd(picture: Bench) -> None:
    valid = blob((0, 0, 60, 40))
    o = measure(picture, {"metric": "ratio"}, ("water", "regions", mask_of(picture, blob((0, 0, 10, 24)), valid=valid)))
    assert o.result.value == pytest.approx(240 / 2400)
    assert o.evidence.intermediate["numerator"] == 240 and o.evidence.intermediate["denominator"] == 2400
    scene_share = measure(picture, {"metric": "ratio", "denominator": "scene", "unit": "%"},
                          ("water", "regions", mask_of(picture, blob((0, 0, 10, 24)), valid=valid)))
    assert scene_share.result.value == pytest.approx(5.0)
    assert scene_share.configuration.fine == "ratio/scene/regions"


def test_a_ratio_of_counts_to_a_reference(utm: Bench) -> None:
    cars = boxes(utm, [(i, 0, i + 1, 1) for i in range(6)])
    houses = boxes(utm, [(i, 9, i + 1, 10) for i in range(3)], label="house")
    o = measure(utm, {"metric": "ratio", "subject": "vehicle", "reference": "house"}, ("vehicle", "objects", cars),
                ("house", "objects", houses))
    assert o.result.value == 2.0


def test_density_per_square_kilometre(utm: Bench) -> None:
    o = measure(utm, {"metric": "density"}, ("vehicle", "objects", boxes(utm, [(i, 0, i + 1, 1) for i in range(6)])))
    assert o.result.value == pytest.approx(6 / (60 * 80 * 100 / 1e6)) and o.result.unit == "1/km2"


def test_presence_and_a_comparison_within_its_uncertainty(utm: Bench) -> None:
    cars = boxes(utm, [(0, 0, 1, 1)])
    assert measure(utm, {"metric": "boolean"}, ("vehicle", "objects", cars)).result.value is True
    lake = mask_of(utm, blob((10, 10, 20, 30)))
    o = measure(utm, {"metric": "boolean", "of": "area", "comparison": {"op": ">", "value": 5.9, "unit": "ha"}},
                ("water", "regions", lake))
    assert o.result.value is True and o.evidence.intermediate["is_uncertain"] is True
    assert any("either side" in line.message for line in o.status.log)
    o = measure(utm, {"metric": "boolean", "of": "area", "comparison": {"op": ">", "value": 50, "unit": "ha"}},
                ("water", "regions", lake))
    assert o.result.value is False and o.evidence.intermediate["is_uncertain"] is False


# --- distance and length ---------------------------------------------------------------------------------------------------
def test_distances_between_edges_minimum_mean_and_maximum(picture: Bench) -> None:
    cars = boxes(picture, [(0, 0, 2, 2), (0, 10, 2, 12)])
    house = boxes(picture, [(5, 0, 6, 1)], label="house")
    for statistic, wanted in (("minimum", 3.0), ("maximum", math.hypot(3, 9)), ("mean", (3 + math.hypot(3, 9)) / 2)):
        o = picture.call("measure", {
            "sources": [{"name": "a", "mode": "objects", "layer": {"observation": cars.id}, "gsd_m": 1.0},
                        {"name": "b", "mode": "objects", "layer": {"observation": house.id}, "gsd_m": 1.0}],
            "spec": {"metric": "distance", "subject": "a", "reference": "b", "distance_statistic": statistic}},
            parents=[cars, house])
        assert o.result.value == pytest.approx(wanted), o.status.reason
        assert o.evidence.intermediate["n_distances"] == 2
        assert o.configuration.fine == f"distance/{statistic}/objects"


def test_distance_on_the_globe_is_geodesic() -> None:
    b = Bench(scene(EMPTY, ["gray"], crs="EPSG:4326", pixel=0.01, origin=(10.0, 60.0)))
    lake, wood = mask_of(b, blob((10, 10, 5, 5))), mask_of(b, blob((10, 40, 5, 5)), label="wood")
    o = measure(b, {"metric": "distance", "subject": "lake", "reference": "wood", "unit": "km"}, ("lake", "regions", lake),
                ("wood", "regions", wood))
    # edges at columns 15 and 40; the northern corners are the closest on the globe
    wanted = min(GEOD.inv(10.15, lat, 10.40, lat)[2] for lat in (59.90, 59.85)) / 1000
    assert o.result.value == pytest.approx(wanted, rel=1e-6)


def test_distances_between_centroids(picture: Bench) -> None:
    cars = boxes(picture, [(0, 0, 2, 2), (0, 10, 2, 12), (30, 0, 32, 2)])
    source = {"name": "a", "mode": "objects", "layer": {"observation": cars.id}, "gsd_m": 2.0}
    for statistic, wanted in (("minimum", 20.0), ("maximum", 60.0)):
        o = picture.call("measure", {"sources": [source], "spec": {"metric": "distance", "distance_between": "centroids",
                                                                   "distance_statistic": statistic}}, parents=[cars])
        assert o.result.value == pytest.approx(wanted), o.status.reason
    assert o.configuration.fine == "distance/maximum.centroids/objects"


def test_masks_that_share_pixels_touch(utm: Bench) -> None:
    a, c = mask_of(utm, blob((0, 0, 10, 10))), mask_of(utm, blob((2, 2, 3, 3)), label="island")
    o = measure(utm, {"metric": "distance", "subject": "island", "reference": "water"}, ("island", "regions", c),
                ("water", "regions", a))
    assert o.result.value == 0.0


def test_nearest_neighbours_within_one_layer_agree_with_brute_force(utm: Bench) -> None:
    rng = np.random.default_rng(5)
    mask = rng.random((60, 80)) < 0.02
    o = measure(utm, {"metric": "distance", "distance_statistic": "mean"}, ("water", "regions", mask_of(utm, mask)))
    labels, n = ndimage.label(mask, structure=np.ones((3, 3)))
    px = [np.argwhere(labels == i + 1) for i in range(n)]

    def gap(a: NDArray[Any], b: NDArray[Any]) -> float:
        d = np.maximum(np.abs(a[:, None] - b[None]) - 1, 0)
        return float(np.sqrt((d**2).sum(axis=2)).min())

    wanted = np.mean([min(gap(px[i], px[j]) for j in range(n) if j != i) for i in range(n)]) * 10
    assert o.result.value == pytest.approx(wanted, rel=1e-3)  # UTM's scale here is within 1e-3 of 1


def test_a_lonely_object_has_no_distance(utm: Bench) -> None:
    o = measure(utm, {"metric": "distance"}, ("vehicle", "objects", boxes(utm, [(0, 0, 1, 1)])))
    assert o.status.state == "failed" and "too few" in o.status.reason


def test_length_of_a_line_of_objects_and_of_a_road_mask(utm: Bench) -> None:
    line = {"type": "LineString", "coordinates": [[10.0, 50.0], [10.0, 51.0]]}
    o = utm.call("measure", {"sources": [{"name": "road", "mode": "extent", "geometry": line}],
                             "spec": {"metric": "length", "unit": "km"}})
    assert o.result.value == pytest.approx(GEOD.inv(10, 50, 10, 51)[2] / 1000, rel=1e-6)
    o = measure(utm, {"metric": "length"}, ("ship", "objects", boxes(utm, [(0, 0, 12, 3), (20, 20, 22, 30)], label="ship")))
    assert o.result.value == pytest.approx(110, rel=1e-3)  # 12 and 10 pixels of 10 m
    o = measure(utm, {"metric": "length"}, ("road", "regions", mask_of(utm, blob((30, 0, 3, 80)), label="road")))
    assert o.result.value == pytest.approx(780, abs=20)


# --- relations -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("relation", "more", "wanted"), [
    ("inside", {}, 1), ("overlaps", {}, 2), ("touches", {}, 1), ("within", {"distance_m": 40}, 3), ("north_of", {}, 1),
    ("south_of", {}, 3), ("east_of", {}, 3), ("west_of", {}, 1), ("nearest", {"nearest_k": 2}, 2),
])
def test_relations_to_a_lake(utm: Bench, relation: str, more: dict[str, Any], wanted: int) -> None:
    lake = mask_of(utm, blob((20, 20, 10, 10)))  # centroid at column 25, row 25
    cars = boxes(utm, [(24, 24, 27, 27),   # inside; a little south-east of the centroid
                       (28, 22, 33, 24),   # overlaps; its centroid lies outside, north-east
                       (22, 30, 24, 32),   # touches the southern shore, south-west
                       (60, 25, 62, 25.5)])  # far east, a quarter pixel south
    o = measure(utm, {"metric": "count", "subject": "vehicle", "reference": "water", "relation": relation, **more},
                ("vehicle", "objects", cars), ("water", "regions", lake))
    assert o.result.value == wanted, o.status.reason
    assert o.evidence.intermediate["n_before_relation"] == 4


def test_between_and_directions_without_crs(picture: Bench) -> None:
    posts = boxes(picture, [(0, 0, 2, 2), (20, 0, 22, 2)], label="post")
    cars = boxes(picture, [(10, 0.5, 11, 1.5), (30, 0, 31, 1)])
    o = measure(picture, {"metric": "count", "subject": "vehicle", "reference": "post", "relation": "between"},
                ("vehicle", "objects", cars), ("post", "objects", posts))
    assert o.result.value == 1
    o = measure(picture, {"metric": "count", "subject": "vehicle", "reference": "post", "relation": "north_of"},
                ("vehicle", "objects", cars), ("post", "objects", posts))
    assert o.status.state == "failed" and "North is not known" in o.status.reason


# --- what may not be measured ----------------------------------------------------------------------------------------------
def test_geometry_of_a_language_model_is_not_measured(utm: Bench) -> None:
    cars = boxes(utm, [(0, 0, 1, 1)])
    o = utm.call("measure", {"sources": [{"name": "v", "mode": "objects", "layer": {"observation": cars.id}, "backend": "vlm"}],
                             "spec": {"metric": "count"}}, parents=[cars])
    assert o.status.state == "failed" and "approximate" in o.status.reason


@pytest.mark.parametrize(("spec", "part"), [
    ({"metric": "area", "unit": "deg2"}, "no unit"), ({"metric": "area", "unit": "deg2"}, "is not a unit of area"),
    ({"metric": "count", "unit": "m"}, "no unit of a count"), ({"metric": "count", "relation": "inside"}, "needs a reference"),
    ({"metric": "count", "reference": "lake"}, "no source named 'lake'"),
])
def test_wrong_calls_are_refused(utm: Bench, spec: dict[str, Any], part: str) -> None:
    o = measure(utm, spec, ("vehicle", "objects", boxes(utm, [(0, 0, 1, 1)])))
    assert o.status.state == "failed"
    assert part in o.status.reason or part == "no unit"


def test_a_parent_that_was_not_handed_over_is_named(utm: Bench) -> None:
    o = utm.call("measure", {"sources": [{"name": "v", "mode": "objects", "layer": {"observation": "gone"}}],
                             "spec": {"metric": "count"}})
    assert o.status.state == "failed" and "gone" in o.status.reason and o.status.needs["code"] == "NOT_FOUND"


def test_a_partial_layer_makes_a_partial_measure(utm: Bench) -> None:
    ref = boxes(utm, [(0, 0, 1, 1)]).result.layers[0]
    half = seen(utm, [ref], state="partial")
    o = measure(utm, {"metric": "count"}, ("vehicle", "objects", half))
    assert o.status.state == "partial" and o.evidence.validity["layer_status"] == "partial"


@pytest.mark.shared_data
def test_flood_area_from_perceive_to_measure(shared_data: Path) -> None:
    b = Bench(from_file(shared_data / "water_flood/Spain_7370579_S2Hand.tif", {"green": 3, "nir": 8}, unit="reflectance",
                        scale=1e-4, nodata=0))
    w = b.call("perceive", {"image_paths": ["s"], "objective": "water", "mode": "regions", "target_groups": {"water": ["water"]}})
    o = measure(b, {"metric": "area", "subject": "water", "unit": "km2"}, ("water", "regions", w))
    assert o.result.value == pytest.approx(4.37, abs=0.02) and o.configuration.fine == "area/auto/regions"
    assert o.result.interval is not None and o.result.interval[0] < 4.37 < o.result.interval[1]




# --- length of masks on grids whose pixels are not square on the ground ------------------------------------------------------
# (CRS, transform): UTM, degrees at 60 and 45 north and across the antimeridian, pixels of 10 by 20 m, Web Mercator at 60 north
LONG_GRIDS: dict[str, tuple[str, tuple[float, float, float, float, float, float]]] = {
    "utm": ("EPSG:32630", (10, 0, 6e5, 0, -10, 5.6e6)), "60 N": ("EPSG:4326", (1e-4, 0, 10, 0, -1e-4, 60)),
    "45 N": ("EPSG:4326", (2e-4, 0, 10, 0, -2e-4, 45)), "180 E": ("EPSG:4326", (1e-3, 0, 179.95, 0, -1e-3, -17)),
    "10 by 20 m": ("EPSG:32630", (10, 0, 6e5, 0, -20, 5.6e6)), "Mercator": ("EPSG:3857", (10, 0, 1e6, 0, -10, 8.4e6)),
    "turned": ("EPSG:32630", (8, 6, 6e5, 6, -8, 5.6e6))}


@pytest.mark.parametrize("name", LONG_GRIDS)
@pytest.mark.parametrize("ends", [((10, 41.5), (111, 41.5)), ((41.5, 5), (41.5, 86)), ((10.5, 5.5), (90.5, 85.5)),
                                  ((10.5, 10.5), (110.5, 51.9)), ((100.5, 5.5), (67.4, 85.5))])
def test_a_road_is_as_long_as_on_the_ellipsoid_whatever_its_direction_and_the_shape_of_pixels(
        name: str, ends: tuple[tuple[float, float], tuple[float, float]]) -> None:
    crs, transform = LONG_GRIDS[name]
    info, stored = scene(np.ones((1, 90, 130), dtype=np.uint8), ["gray"])
    grid = Grid(crs=crs, transform=transform, width=130, height=90)
    bench = Bench((info.model_copy(update={"grid": grid}), stored))
    rows, cols = np.mgrid[:90, :130]
    road = shapely.contains_xy(LineString(ends).buffer(1.5, cap_style="flat"), cols + 0.5, rows + 0.5)
    parent = mask_of(bench, road, label="road")
    o = measure(bench, {"metric": "length"}, ("road", "regions", parent))
    at = np.linspace(ends[0], ends[1], 65)
    a, b, c, d, e, f = transform
    to_lonlat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    true = GEOD.line_length(*to_lonlat.transform(a * at[:, 0] + b * at[:, 1] + c, d * at[:, 0] + e * at[:, 1] + f))
    low, high = o.result.interval
    assert low <= true <= high and high < 1.25 * low + 0.1 * true
    # the skeleton ends up to 1.5 px short of each end of the road
    assert o.result.value == pytest.approx(true, rel=0.045)
    look = CHECKS["consistency.length_recomputes"].look
    assert look(Case(o, bench.question, (parent,), layers=bench.layers)).outcome in ("passed", "not_applicable")
    # one mean size of a pixel for all directions: the figures of before
    old = float(o.evidence.intermediate["length_px"]) * float(grid.gsd_m or 0)
    is_wrong = abs(old / o.result.value - 1) > 0.1
    found = look(Case(o.model_copy(update={"result": o.result.model_copy(update={"value": old, "interval": None})}),
                      bench.question, (parent,), layers=bench.layers))
    assert (found.outcome, found.severity) == ("failed", None) if is_wrong else found.outcome != "errored"


def test_the_length_of_a_mask_step_by_step() -> None:
    # one pixel wide: three steps to the right, two down, on pixels of 10 by 20 m; UTM's scale at its middle is 0.9996
    info, stored = scene(EMPTY, ["gray"])
    grid = Grid(crs="EPSG:32630", transform=(10, 0, 5e5, 0, -20, 5.6e6), width=80, height=60)
    bench = Bench((info.model_copy(update={"grid": grid}), stored))
    o = measure(bench, {"metric": "length"}, ("road", "regions", mask_of(bench, blob((5, 5, 1, 20), (40, 40, 15, 1)))))
    assert o.result.value == pytest.approx((19 * 10 + 14 * 20) / 0.9996, rel=1e-5)
    assert o.evidence.intermediate["steps"] == {"right": 19, "down": 14, "down_right": 0, "down_left": 0}
    assert o.evidence.intermediate["ends"] == 4
    empty = measure(bench, {"metric": "length"}, ("road", "regions", mask_of(bench, blob())))
    assert (empty.result.value, empty.result.interval) == (0.0, None)


# --- how sure the figures are ------------------------------------------------------------------------------------------------
def test_the_number_of_pieces_is_as_sure_as_their_gaps_and_corners(utm: Bench) -> None:
    # one pixel apart: 2 or 1; at a corner: 1 or 2; far away: 1
    mask = blob((5, 5, 6, 6), (5, 12, 6, 6), (30, 5, 5, 5), (35, 10, 5, 5), (30, 40, 5, 5))
    o = measure(utm, {"metric": "count"}, ("pond", "regions", mask_of(utm, mask, label="pond")))
    assert (o.result.value, o.result.interval, o.result.interval_level) == (4, (3, 5), None)
    km2 = 60 * 80 * 100 / 1e6
    o = measure(utm, {"metric": "density"}, ("pond", "regions", mask_of(utm, mask, label="pond")))
    assert o.result.value == pytest.approx(4 / km2) and o.result.interval == pytest.approx((3 / km2, 5 / km2))
    o = measure(utm, {"metric": "count"}, ("pond", "regions", mask_of(utm, blob(), label="pond")))
    assert (o.result.value, o.result.interval) == (0, (0, 0))
    # a line one pixel wide is there for sure
    o = measure(utm, {"metric": "count"}, ("pond", "regions", mask_of(utm, blob((10, 0, 1, 80)), label="pond")))
    assert (o.result.value, o.result.interval) == (1, (1, 1))


def test_a_share_of_boxes_without_gsd_moves_with_half_a_pixel(picture: Bench) -> None:
    o = measure(picture, {"metric": "ratio", "denominator": "scene"}, ("roof", "objects", boxes(picture, [(10, 10, 30, 20)])))
    whole = 60 * 80
    assert o.result.value == pytest.approx(200 / whole)
    assert o.result.interval == pytest.approx(((200 - 30) / whole, (200 + 30) / whole))


@pytest.mark.parametrize(("geometry", "metric"), [
    ({"type": "LineString", "coordinates": [[10.0, 50.0], [10.0, 51.0]]}, "length"),
    (mapping(box(10, 50, 11, 51)), "area")])
def test_nobody_knows_how_exactly_a_file_was_drawn(utm: Bench, geometry: dict[str, Any], metric: str) -> None:
    o = utm.call("measure", {"sources": [{"name": "river", "mode": "extent", "geometry": geometry}], "spec": {"metric": metric}})
    assert o.result.interval is None and str(o.evidence.intermediate["interval_from"]).startswith("not known")
    assert any("How exactly river was drawn is not known" in line.message for line in o.status.log)


def test_a_distance_down_a_tall_scene_of_degrees_fits_in_it() -> None:
    # at 60 north a pixel of equal degrees is twice as high as wide: 380 rows are longer than 400 mean pixels
    info, stored = scene(np.ones((1, 400, 20), dtype=np.uint8), ["gray"])
    bench = Bench((info.model_copy(update={"grid": Grid(crs="EPSG:4326", transform=(1e-4, 0, 10, 0, -1e-4, 60), width=20,
                                                        height=400)}), stored))
    one, two = (mask_of(bench, blob((r, 5, 5, 5), shape=(400, 20)), label=name) for r, name in ((2, "a"), (393, "b")))
    o = measure(bench, {"metric": "distance", "subject": "a", "reference": "b"}, ("a", "regions", one), ("b", "regions", two))
    assert o.result.value == pytest.approx(GEOD.inv(10.0005, 60 - 7e-4, 10.0005, 60 - 393e-4)[2], rel=1e-6)
    look = CHECKS["plausibility.distance_within_scene"].look
    case = Case(o, bench.question, (one, two), layers=bench.layers)
    assert look(case).outcome == "passed"
    far = o.model_copy(update={"result": o.result.model_copy(update={"value": 1.2 * o.result.value, "interval": None})})
    assert look(Case(far, bench.question, (one, two), layers=bench.layers)).outcome == "failed"
