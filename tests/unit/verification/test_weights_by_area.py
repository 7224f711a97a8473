"""What the checks say of means and shares of pixels that differ in area: the figure by area stands, the other is told from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyproj
import pytest

from apps.core.geo.grid import Grid
from apps.verification.checks import Case, Limits, run_checks
from apps.verification.pixel_areas import areas_of, spread_of, weights_due
from apps.verification.scattered import places_of
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification.samples import patched

S = ("s1", "asset.scene", (), {"scene": "s"})
V = ("v", "raster.product.band", ["s1"], {"role": "lst"})
COLD = ("m", "raster.product.threshold", ["v"], {"op": "<", "value": 260})
SHARE, MEAN = "raster.summarize.share", "raster.summarize.statistic"
LATITUDES = 89.5 - np.arange(180)
WARMTH = 288 - 40 * np.sin(np.radians(LATITUDES))[:, None] ** 2 + np.random.default_rng(8).normal(0, 3, (180, 360))
ZONES = ("z", "vector.zones", (), {"geojson": {"type": "Polygon", "coordinates": [
    [[-80, 0], [90, 0], [90, 85], [-80, 85], [-80, 0]]]}})  # fmt: skip
NODES: dict[str, list[Any]] = {
    "mean": [S, V, ("o", MEAN, ["v"], {})],
    "share": [S, V, COLD, ("o", SHARE, ["m"], {"unit": "%"})],
    "zonal mean": [S, V, ZONES, ("o", "raster.summarize.zonal", ["v", "z"], {})],
    "zonal share": [S, V, COLD, ZONES, ("o", "raster.summarize.zonal", ["m", "z"], {"statistic": "share"})],
    "calculated": [S, V, ("a", MEAN, ["v"], {}), ("b", MEAN, ["v"], {"statistic": "max"}),
                   ("o", "value.calculate", ["a", "b"], {"expression": "b - a"})],
}  # fmt: skip
LIMITS = [Limits(), Limits(dense_look_px=4000), Limits(full_look_px=9000, dense_look_px=4000)]


def globe() -> Bench:
    return Bench(scene(WARMTH[None], ["lst"], unit="K", crs="EPSG:4326", pixel=1.0, origin=(-180.0, 90.0)))


def blamed(bench: Bench, o: Any, limits: Limits | None = None) -> set[str]:
    stored = {s.scene_id: s for s in bench.question.scenes}
    case = Case(o, bench.question, (), (), (), bench.layers, lambda i: bench._open(stored[i]), limits or Limits())
    return {c.check for c in run_checks(case)[0] if c.outcome in ("failed", "errored")}


def with_node(o: Any, **facts: Any) -> dict[str, Any]:
    k = next(k for k, n in enumerate(o.evidence.intermediate["nodes"]) if n["id"] == "o")
    return {f"/evidence/intermediate/nodes/{k}/{name}": value for name, value in facts.items()}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("which", sorted(NODES))
def test_what_the_tools_make_of_a_globe_in_degrees_stands(which: str, limits: Limits) -> None:
    bench = globe()
    o = bench.execute(NODES[which])
    assert o.status.state == "ok", o.status.reason
    assert blamed(bench, o, limits) == set()


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize(("which", "name"), [
    ("mean", "consistency.value_matches_source"), ("share", "consistency.value_matches_source"),
    ("mean", "consistency.statistic_recomputes"), ("share", "consistency.share_recomputes")])  # fmt: skip
def test_a_figure_by_pixels_is_not_one_by_area(which: str, name: str, limits: Limits) -> None:
    bench = globe()
    o = bench.execute(NODES[which])
    by_pixels = o.evidence.intermediate["by_pixels"]
    # said to be by area; and nothing said
    assert name in blamed(bench, patched(o, {"/result/value": by_pixels}), limits)
    assert name in blamed(bench, patched(o, {"/result/value": by_pixels} | with_node(o, weights=...)), limits)
    # by number of pixels, and told so, where nobody asked for it
    assert name in blamed(bench, patched(o, {"/result/value": by_pixels} | with_node(o, weights="pixels")), limits)
    # the right figure under the wrong name
    assert name in blamed(bench, patched(o, with_node(o, weights="pixels")), limits)


@pytest.mark.parametrize("which", ["mean", "share"])
def test_a_figure_by_area_is_not_one_by_pixels(which: str) -> None:
    bench = globe()
    nodes = [*NODES[which][:-1], (*NODES[which][-1][:3], NODES[which][-1][3] | {"weights": "pixels"})]
    o = bench.execute(nodes)
    assert o.result.value == o.evidence.intermediate["by_pixels"] and blamed(bench, o) == set()
    by_area = patched(o, {"/result/value": o.evidence.intermediate["by_area"]})
    assert "consistency.value_matches_source" in blamed(bench, by_area)
    assert "consistency.value_matches_source" in blamed(bench, patched(o, with_node(o, weights="area")))


@pytest.mark.parametrize("which", ["zonal mean", "zonal share"])
def test_zones_by_pixels_are_not_zones_by_area(which: str) -> None:
    bench = globe()
    o = bench.execute(NODES[which])
    by_pixels = o.result.items[0]["by_pixels"]
    wrong = patched(o, {"/result/value": by_pixels, "/result/items/0/value": by_pixels})
    assert "consistency.zonal_matches_source" in blamed(bench, wrong)
    assert "consistency.zonal_matches_source" in blamed(bench, patched(o, with_node(o, weights="pixels")))


def test_arithmetic_of_means_is_that_of_means_by_area() -> None:
    bench = globe()
    o = bench.execute(NODES["calculated"])
    wrong = patched(o, {"/result/value": float(WARMTH.max() - WARMTH.mean())})
    assert "consistency.value_matches_source" in blamed(bench, wrong)


def test_dates_and_tables_of_classes() -> None:
    more: Any = {"crs": "EPSG:4326", "pixel": 1.0, "origin": (-180.0, 90.0)}
    held = [scene((WARMTH + k)[None], ["lst"], unit="K", scene_id=f"d{k}", date=f"202{k}-06-01", **more) for k in range(3)]
    nodes = [n for k in range(3) for n in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                           (f"v{k}", "raster.product.band", [f"s{k}"], {"role": "lst"}))]  # fmt: skip
    bench = Bench(*held)
    o = bench.execute([*nodes, ("o", "raster.summarize.series", ["v0", "v1", "v2"], {})])
    assert blamed(bench, o) == set()
    wrong = patched(o, {"/result/items/1/value": float(WARMTH.mean()) + 1})
    assert "consistency.series_matches_source" in blamed(bench, wrong)
    assert "consistency.series_matches_source" in blamed(bench, patched(o, {"/result/items/1/weights": "pixels"}))
    classes = [np.where(limit > WARMTH, 1.0, 2.0) for limit in (260, 265)]
    bench = Bench(*(scene(c[None], ["class"], scene_id=f"c{k}", date=f"202{k}-01-01", **more) for k, c in enumerate(classes)))
    nodes = [n for k in range(2) for n in ((f"s{k}", "asset.scene", (), {"scene": f"c{k}"}),
                                           (f"b{k}", "raster.product.band", [f"s{k}"], {"role": "class"}))]  # fmt: skip
    o = bench.execute([*nodes[:2], ("o", "raster.summarize.class_areas", ["b0"], {})])
    assert blamed(bench, o) == set()
    alike = {f"/result/items/{k}/share": i["share_by_pixels"] for k, i in enumerate(o.result.items)}
    assert "consistency.classes_recount" in blamed(bench, patched(o, alike))
    o = bench.execute([*nodes, ("o", "raster.summarize.transitions", ["b0", "b1"], {})])
    assert blamed(bench, o) == set()
    wrong = patched(o, {"/result/value": o.evidence.intermediate["by_pixels"]})
    assert "consistency.transitions_recount" in blamed(bench, wrong)


@pytest.mark.parametrize(("crs", "transform"), [
    ("EPSG:4326", (0.5, 0, -20, 0, -0.5, 75)), ("EPSG:3857", (60000, 0, 1e6, 0, -60000, 1e7)),
    ("EPSG:32662", (50000, 0, -2e6, 0, -50000, 8e6)), ("EPSG:3413", (50000, 0, -1.5e6, 0, -50000, 1.5e6)),
    ("EPSG:4326", (0.4, 0.1, 0, 0.1, -0.4, 60))])  # fmt: skip
def test_the_verifiers_own_areas_are_those_of_geodesic_polygons(crs: str, transform: tuple[float, ...]) -> None:
    grid = Grid(crs=crs, transform=transform, width=60, height=60)  # type: ignore[arg-type]
    mine = areas_of(grid)
    geod, to = pyproj.Geod(ellps="WGS84"), pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    a, b, c, d, e, f = transform
    t = np.linspace(0, 1, 30)
    for row, col in ((0, 0), (17, 31), (59, 59), (30, 30)):
        px = col + np.concatenate([t, np.ones(30), t[::-1], np.zeros(30)])
        py = row + np.concatenate([np.zeros(30), t, np.ones(30), t[::-1]])
        lon, lat = to.transform(a * px + b * py + c, d * px + e * py + f)
        assert mine[row, col] == pytest.approx(abs(geod.polygon_area_perimeter(lon, lat)[0]), rel=1e-3)
    part = (7, 5, 40, 50)
    assert areas_of(grid, part, 3) == pytest.approx(places_of(part, 3).take(mine, part), rel=1e-3)


def test_pixels_of_near_equal_area_count_alike() -> None:
    utm = Grid(crs="EPSG:32630", transform=(10, 0, 6e5, 0, -10, 5.6e6), width=2000, height=2000)
    assert spread_of(utm) < 0.001 and weights_due(utm, None, "auto", "") == "pixels"
    fine = Grid(crs="EPSG:4326", transform=(0.001, 0, 0, 0, -0.001, 40), width=300, height=300)
    assert weights_due(fine, None, "auto", "area") == "pixels" and weights_due(fine, None, "area", "") == "area"
    # about one per cent either is right
    edge = Grid(crs="EPSG:4326", transform=(0.001, 0, 0, 0, -0.001, 40), width=300, height=695)
    assert abs(spread_of(edge) - 0.01) < 0.001
    assert [weights_due(edge, None, "auto", told) for told in ("area", "pixels")] == ["area", "pixels"]
