"""Every operator against every kind of wrong input. Each gives the same right value whatever stands in a masked pixel, on turned
grids and in degrees, or a clear refusal; none breaks inside, and none can be registered without a row here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.tools.execute.operators import OPERATORS
from tests.unit.tools.rasters import Bench, scene

Nodes = list[tuple[Any, ...]]
H, W = 48, 60
DAYS = ("2020-01-10", "2020-07-10", "2021-01-10", "2021-07-10", "2022-01-10", "2022-07-10")
UNITS = {"red": "reflectance", "nir": "reflectance", "green": "reflectance", "blue": "reflectance", "swir1": "reflectance",
         "swir2": "reflectance", "lst": "K", "elevation": "m", "qa": "DN", "class": "1"}
UTM = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0), width=W, height=H)
DEGREES = Grid(crs="EPSG:4326", transform=(0.001, 0.0, 10.0, 0.0, -0.001, 50.0), width=W, height=H)
_T = math.radians(25)
_C, _S = 10 * math.cos(_T), 10 * math.sin(_T)
TURNED = Grid(crs="EPSG:32630", transform=(_C, _S, 6e5, _S, -_C, 5.6e6), width=W, height=H)
PLAIN = Grid(width=W, height=H)


def stored_of(day: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """((bands, rows, columns), where pixels are missing) of a date: fields on a hill, the same ground with other noise."""
    ground, noise = np.random.default_rng(5), np.random.default_rng(100 + day)
    fields = np.kron(ground.uniform(0.1, 0.8, (6, 6)), np.ones((H // 6, W // 6)))
    rows, cols = np.mgrid[:H, :W]
    ndvi = np.clip(fields + noise.normal(0.02 * day, 0.02, (H, W)), -0.9, 0.95)
    red = 0.1 + 0.02 * ground.random((H, W))
    planes = np.stack([
        red, red * (1 + ndvi) / (1 - ndvi), red * 1.1, red * 0.8, red * 1.6, red * 1.2,
        310 - 20 * ndvi + noise.normal(0, 1, (H, W)),
        300 + 2.0 * rows + 3.0 * cols + 5 * ground.random((H, W)), np.where(noise.random((H, W)) < 0.1, 8.0, 64.0),
        1.0 + (fields > 0.4) + (noise.random((H, W)) < 0.05)])
    hole = noise.random((H, W)) < 0.06
    hole[10:15, 20:27] = True
    return planes, hole


def dated(day: int, *, fill: float = -9999.0, declared: bool = True, grid: Grid = UTM, size: int = 0, empty: bool = False,
          scheme: str = "landsat_c2") -> tuple[SceneInfo, NDArray[Any]]:
    planes, hole = stored_of(day)
    planes[:, hole | np.full(hole.shape, empty)] = fill
    if size:
        planes = planes[:, :size, :size]
        grid = grid.window(0, 0, size, size)
    info, _ = scene(np.zeros((1, *planes.shape[1:])), ["red"], scene_id=f"s{day}", date=DAYS[day])
    nodata = fill if declared and math.isfinite(fill) else None
    bands = tuple(Band(index=i + 1, role=r, role_source="declared", unit=u, nodata=nodata, scheme=scheme if r == "qa" else "")
                  for i, (r, u) in enumerate(UNITS.items()))
    told = {"grid": grid, "bands": bands, "dtype": str(planes.dtype), "sensor": "Landsat 8/9 OLI-TIRS"}
    return info.model_copy(update=told), planes


ZONE = {"type": "Polygon", "coordinates": [[[5, 5], [40, 5], [40, 40], [5, 40], [5, 5]]]}
ALL = [f"a{k}" for k in range(6)]
NDVIS = [f"i{k}" for k in range(6)]
BASE: Nodes = [(f"a{k}", "asset.scene", (), {"scene": f"s{k}"}) for k in range(6)]
BASE += [(f"i{k}", "raster.product.index", [f"a{k}"], {"index": "ndvi"}) for k in range(6)]
MASKS: Nodes = [(f"m{k}", "raster.product.threshold", [f"i{k}"], {"value": 0.4}) for k in range(6)]
CLASSES: Nodes = [(f"c{k}", "raster.product.classify", [f"i{k}"], {"breaks": [0.3, 0.5]}) for k in range(6)]
BANDS: Nodes = [(r, "raster.product.band", ["a0"], {"role": r}) for r in ("red", "nir", "green", "lst", "elevation")]
# temperatures of three microwave channels, and radiances of a body that is as warm in five thermal bands
CHANNELS: Nodes = [(n, "raster.product.math", ["lst"], {"expression": e, "range": [100, 300], "unit": "K"}) for n, e in (
    ("t19v", "0.9 * lst - 40"), ("t19h", "1.3 * lst - 190"), ("t37v", "0.7 * lst + 15"))]
LIGHT: Nodes = [(n, "raster.product.math", ["lst"], {
    "expression": f"{e} * 1.191042972e8 / ({um} ^ 5 * (exp(14387.768775 / ({um} * lst)) - 1))", "range": [0, 30],
    "unit": "W/m2/sr/um"}) for n, um, e in (("l10", 8.291, 0.84), ("l11", 8.634, 0.83), ("l12", 9.075, 0.86),
                                            ("l13", 10.657, 0.96), ("l14", 11.318, 0.97))]
STATISTIC: tuple[Any, ...] = ("v", "raster.summarize.statistic", ["i0"], {"statistic": "mean"})
ZONES: tuple[Any, ...] = ("z", "vector.zones", (), {"geojson": ZONE, "crs": "image"})


def out(op: str, inputs: list[str], /, **params: Any) -> Nodes:
    return [("out", op, inputs, params)]


# operator → graphs that end in it
GRAPHS: dict[str, list[Nodes]] = {
    "asset.scene": [[("out", "asset.scene", (), {"scene": "s0"})]],
    "asset.catalog": [[("out", "asset.catalog", (), {})]],
    "asset.bounds": [BASE[:1] + out("asset.bounds", ["a0"])],
    "raster.product.band": [BASE + out("raster.product.band", ["a0"], role="red")],
    "raster.product.amplitude": [BASE[:1] + out("raster.product.amplitude", ["a0"], role="red")],
    "raster.product.index": [BASE + out("raster.product.index", ["a0"], index=i) for i in ("ndvi", "evi", "bsi", "nbr")],
    "raster.product.normalized_difference": [
        BASE + out("raster.product.normalized_difference", ["a0"], first="nir", second="red")],
    "raster.product.ratio": [BASE + out("raster.product.ratio", ["a0"], first="nir", second="red")],
    "raster.product.math": [BASE + out("raster.product.math", ["i0", "i1"], expression="i1 - i0", range=[-2, 2])],
    "raster.product.threshold": [
        BASE + out("raster.product.threshold", ["i0"], value=v, percentile=60 if v == "percentile" else None)
        for v in (0.3, "otsu", "percentile")],
    "raster.product.logic": [BASE + MASKS + out("raster.product.logic", ["m0", "m1"], op=o)
                             for o in ("and", "or", "xor", "and_not")],
    "raster.product.apply_mask": [BASE + MASKS + out("raster.product.apply_mask", ["i0", "m1"])],
    "raster.product.class_values": [BASE + CLASSES + out("raster.product.class_values", ["c0"], values=[2])],
    "raster.product.difference": [BASE + out("raster.product.difference", ["i0", "i1"], mode=m)
                                  for m in ("difference", "percent")],
    "raster.product.resample": [BASE + out("raster.product.resample", ["i0", "a1"], method=m) for m in ("bilinear", "nearest")],
    "raster.product.reproject": [BASE + out("raster.product.reproject", ["i0"], resolution=r, method=m)
                                 for r, m in ((40.0, "average"), (7.0, "bilinear"))],
    "raster.product.coregister": [BASE + out("raster.product.coregister", ["i1", "i0"])],
    "raster.product.retrieval": [
        BASE + out("raster.product.retrieval", ["a0"], name="albedo_landsat"),
        BASE + BANDS + CHANNELS + out("raster.product.retrieval", ["t19v", "t19h", "t37v"], name="sea_ice_nasa_team"),
        BASE + BANDS + LIGHT + out("raster.product.retrieval", ["l10", "l11", "l12", "l13", "l14"], name="lst_separation")],
    "raster.product.qa_mask": [BASE + out("raster.product.qa_mask", ["a0"], flags=["cloud"])],
    "raster.product.classify": [BASE + out("raster.product.classify", ["i0"], breaks=[0.2, 0.5])],
    "raster.product.vegetation_cover": [BASE + out("raster.product.vegetation_cover", ["i0"], soil=s)
                                        for s in (0.05, "percentile")],
    "raster.product.tvdi": [BASE + BANDS + out("raster.product.tvdi", ["i0", "lst"], bins=20)],
    "raster.product.terrain": [BASE + BANDS + out("raster.product.terrain", ["elevation"], product=p)
                               for p in ("slope", "aspect", "hillshade", "relief", "tpi")],
    "raster.product.focal": [BASE + out("raster.product.focal", ["i0"], statistic=s) for s in ("mean", "median", "std", "max")],
    "raster.product.getis_ord": [BASE + out("raster.product.getis_ord", ["i0"])],
    "raster.product.composite": [BASE + out("raster.product.composite", NDVIS, method=m)
                                 for m in ("median", "mean", "std", "count")],
    "raster.product.best_pixel": [BASE + out("raster.product.best_pixel", [*NDVIS, *NDVIS])],
    "raster.product.anomaly": [BASE + out("raster.product.anomaly", NDVIS, mode=m) for m in ("difference", "zscore")],
    "raster.product.pixel_trend": [BASE + out("raster.product.pixel_trend", NDVIS, output=o) for o in ("slope", "p_value")],
    "raster.product.pca": [BASE + out("raster.product.pca", ["i0", "i1", "i2"])],
    "raster.product.pansharpen": [BASE + BANDS + out("raster.product.pansharpen", ["red", "green", "nir"])],
    "raster.summarize.statistic": [BASE + out("raster.summarize.statistic", ["i0"], statistic=s)
                                   for s in ("mean", "median", "std", "sum", "kurtosis", "iqr", "cv")],
    "raster.summarize.area": [BASE + MASKS + out("raster.summarize.area", ["m0"])],
    "raster.summarize.share": [BASE + MASKS + out("raster.summarize.share", ["m0"])],
    "raster.summarize.class_areas": [BASE + CLASSES + out("raster.summarize.class_areas", ["c0"])],
    "raster.summarize.transitions": [BASE + CLASSES + out("raster.summarize.transitions", ["c0", "c1"])],
    "raster.summarize.series": [BASE + out("raster.summarize.series", NDVIS)],
    "raster.summarize.trend": [BASE + out("raster.summarize.trend", NDVIS, method=m) for m in ("linear", "sen")],
    "raster.summarize.histogram": [BASE + out("raster.summarize.histogram", ["i0"])],
    "raster.summarize.agreement": [BASE + out("raster.summarize.agreement", ["i0", "i1"], measure=m)
                                   for m in ("correlation", "rmse")],
    "raster.summarize.centroid": [BASE + MASKS + out("raster.summarize.centroid", ["m0"])],
    "raster.summarize.series_analysis": [
        BASE + out("raster.summarize.series_analysis", NDVIS, analysis=a, period=2)
        for a in ("mann_kendall", "sen", "autocorrelation", "seasonality", "spikes", "change_points")],
    "raster.summarize.moran": [BASE + out("raster.summarize.moran", ["i0"])],
    "raster.summarize.zonal": [[*BASE, ZONES, *out("raster.summarize.zonal", ["i0", "z"], statistic=s)]
                               for s in ("mean", "median")],
    "vector.zones": [out("vector.zones", [], geojson=ZONE, crs="image")],
    "value.calculate": [[*BASE, STATISTIC, *out("value.calculate", ["v"], expression="100 * v")]],
    "value.solve": [[*BASE, STATISTIC, *out("value.solve", ["v"], equation="2 * x = v", unknown="x")]],
    "image.annotate": [BASE + MASKS + out("image.annotate", ["a0", "m0"], form="png")],
    "image.colours": [BASE + out("image.colours", ["i0"], form="png")],
    "image.chart": [[*BASE, ("h", "raster.summarize.histogram", ["i0"], {}), *out("image.chart", ["h"])]],
}
CASES = [pytest.param(op, nodes, id=f"{op}-{k}") for op, graphs in GRAPHS.items() for k, nodes in enumerate(graphs)]
# figures that are of the ground, or pictures of a grid: another place is another value
OF_THE_GROUND = {
    "asset.bounds", "asset.catalog", "raster.product.terrain", "raster.summarize.area", "raster.summarize.class_areas",
    "raster.summarize.transitions", "raster.summarize.centroid", "raster.product.reproject", "image.annotate",
    "raster.product.coregister", "raster.product.resample"}
# operators that bring two rasters together pixel by pixel
TOGETHER = {"raster.product.math", "raster.product.logic", "raster.product.apply_mask", "raster.product.difference",
            "raster.product.coregister", "raster.product.composite", "raster.product.best_pixel", "raster.product.anomaly",
            "raster.product.pixel_trend", "raster.product.pca", "raster.summarize.transitions", "raster.summarize.agreement"}


def run(nodes: Nodes, *scenes: Any) -> tuple[Any, Bench]:
    b = Bench(*scenes)
    o = b.execute(nodes, "out")
    assert "failed inside" not in o.status.reason and "outside the protocol" not in o.status.reason, o.status.reason
    return o, b


def all_dates(**more: Any) -> list[Any]:
    return [dated(k, **more) for k in range(6)]


def figures(o: Any, b: Bench) -> dict[str, Any]:
    """What the observation says, in numbers: value, items, valid pixels, and the layers' values where they are valid."""
    layers: list[Any] = []
    for ref in o.result.layers:
        kept = b.layers.kept[ref.artifact]
        if isinstance(kept, tuple):
            data, valid = np.asarray(kept[0], dtype=float), np.asarray(kept[1])
        elif isinstance(kept, np.ndarray):
            data, valid = kept.astype(float), np.ones(kept.shape, dtype=bool)
        else:
            data, valid = np.asarray(kept.data[0], dtype=float), np.asarray(kept.valid[0])
        layers.append((valid, np.where(valid, np.nan_to_num(data), 0.0)))
    of_place = {"scene", "bbox", "gsd_m", "crs", "area", "area_m2"}
    items = [{k: v for k, v in i.items() if k not in of_place} for i in o.result.items]
    return {"value": o.result.value, "unit": o.result.unit, "items": items, "layers": layers,
            "valid_px": o.evidence.intermediate.get("valid_px")}


def same(one: dict[str, Any], other: dict[str, Any], tolerance: float = 0.0) -> None:
    def near(a: Any, b: Any) -> bool:
        if isinstance(a, float) and isinstance(b, (int, float)):
            return a == pytest.approx(b, rel=tolerance, abs=tolerance) if tolerance else a == b
        return bool(a == b)

    assert near(one["value"], other["value"]), (one["value"], other["value"])
    assert one["valid_px"] == other["valid_px"] and one["unit"] == other["unit"] and len(one["items"]) == len(other["items"])
    for a, b in zip(one["items"], other["items"], strict=True):
        assert a.keys() == b.keys() and all(near(a[k], b[k]) for k in a), (a, b)
    for (va, da), (vb, db) in zip(one["layers"], other["layers"], strict=True):
        assert np.array_equal(va, vb) and np.allclose(da, db, rtol=tolerance, atol=tolerance), float(np.abs(da - db).max())


def test_every_operator_has_a_row() -> None:
    assert set(GRAPHS) == set(OPERATORS)


@pytest.mark.parametrize(("op", "nodes"), CASES)
def test_what_stands_in_a_missing_pixel_does_not_matter(op: str, nodes: Nodes) -> None:
    o, b = run(nodes, *all_dates())
    if op == "raster.product.amplitude":
        assert "real samples" in o.status.reason
        return
    assert o.status.state == "ok", o.status.reason
    known = figures(o, b)
    for more in ({"fill": 3e8}, {"fill": 0.0}, {"fill": float("nan"), "declared": False},
                 {"fill": float("inf"), "declared": False}):
        again, c = run(nodes, *all_dates(**more))
        assert again.status.state == "ok", (more, again.status.reason)
        same(known, figures(again, c))


@pytest.mark.parametrize(("op", "nodes"), CASES)
@pytest.mark.parametrize("grid", ["degrees", "turned", "none"])
def test_another_place_is_the_same_value_or_a_refusal(op: str, nodes: Nodes, grid: str) -> None:
    place = {"degrees": DEGREES, "turned": TURNED, "none": PLAIN}[grid]
    o, b = run(nodes, *all_dates(grid=place))
    if op in OF_THE_GROUND or op == "raster.product.amplitude":
        refused = {("raster.product.terrain", "none"): "neither CRS nor GSD",
                   ("raster.summarize.area", "none"): "neither CRS nor GSD", ("asset.bounds", "none"): "no CRS",
                   ("raster.product.reproject", "none"): "without CRS", ("raster.product.coregister", "none"): "CRS"}
        part = refused.get((op, grid))
        product = nodes[-1][3].get("product")
        if part and product not in ("relief", "tpi"):
            assert o.status.state == "failed" and part in o.status.reason, o.status.reason
        return
    assert o.status.state == "ok", o.status.reason
    flat, c = run(nodes, *all_dates())
    same(figures(flat, c), figures(o, b), 1e-9)


@pytest.mark.parametrize(("op", "nodes"), CASES)
def test_without_a_valid_pixel_there_is_no_figure(op: str, nodes: Nodes) -> None:
    o, b = run(nodes, *all_dates(empty=True))
    if op in ("asset.scene", "asset.catalog", "asset.bounds", "vector.zones"):
        assert o.status.state == "ok"
        return
    if o.status.state == "failed":
        assert len(o.status.reason) > 20 and o.result.value is None and o.result.layers == ()
        return
    # what may be said of nothing: a sum or count of 0, a picture of the mask's absence
    found = figures(o, b)
    assert found["valid_px"] in (0, None) or nodes[-1][3].get("method") == "count", found
    assert op in ("image.annotate", "raster.product.composite") or nodes[-1][3].get("statistic") in ("sum", "count"), op


@pytest.mark.parametrize(("op", "nodes"), CASES)
@pytest.mark.parametrize("size", [1, 2])
def test_a_pixel_or_four_are_served_or_refused(op: str, nodes: Nodes, size: int) -> None:
    o, _ = run(nodes, *all_dates(size=size))
    assert o.status.state == "ok" or len(o.status.reason) > 20
    if op == "raster.product.index" and nodes[-1][3]["index"] == "ndvi" and size == 1 and o.status.state == "ok":
        planes, _ = stored_of(0)
        red, nir = planes[0, 0, 0], planes[1, 0, 0]
        assert o.evidence.intermediate["nodes"][-1]["mean"] == pytest.approx((nir - red) / (nir + red), rel=1e-6)


@pytest.mark.parametrize(("op", "nodes"), [c for c in CASES if c.values[0] in TOGETHER])
@pytest.mark.parametrize("other", ["zone", "resolution", "size"])
def test_mixed_grids_are_not_brought_together_unasked(op: str, nodes: Nodes, other: str) -> None:
    place = {"zone": UTM.model_copy(update={"crs": "EPSG:32631"}), "size": UTM.model_copy(update={"width": W, "height": H - 8}),
             "resolution": UTM.model_copy(update={"transform": (20.0, 0.0, 600000.0, 0.0, -20.0, 5600000.0)})}[other]
    scenes = all_dates()
    info, planes = scenes[1]
    scenes[1] = (info.model_copy(update={"grid": place}), planes[:, :place.height])
    o, _ = run(nodes, *scenes)
    assert o.status.state == "failed" and "different grids" in o.status.reason, o.status.reason


@pytest.mark.parametrize(("op", "nodes"), CASES)
def test_complex_samples_are_refused(op: str, nodes: Nodes) -> None:
    scenes = [(info.model_copy(update={"dtype": "complex128"}), planes.astype(np.complex128)) for info, planes in all_dates()]
    o, _ = run(nodes, *scenes)
    if op in ("asset.scene", "asset.catalog", "asset.bounds", "vector.zones", "raster.product.amplitude"):
        assert o.status.state == "ok", o.status.reason
    else:
        assert o.status.state == "failed" and "complex" in o.status.reason, o.status.reason


@pytest.mark.parametrize(("op", "nodes"), CASES)
def test_a_missing_band_and_an_empty_region_are_named(op: str, nodes: Nodes) -> None:
    nameless = {"role": "unknown", "scheme": ""}
    bare = [(info.model_copy(update={"bands": tuple(b.model_copy(update=nameless) for b in info.bands)}), p)
            for info, p in all_dates()]
    o, _ = run(nodes, *bare)
    if op not in ("asset.scene", "asset.catalog", "asset.bounds", "vector.zones", "raster.product.amplitude"):
        assert o.status.state == "failed" and ("no band" in o.status.reason or "role" in o.status.reason), o.status.reason
        assert o.status.needs["code"] == "NEEDS_BANDS"
    b = Bench(*all_dates())
    for region, part in (({"type": "Polygon", "coordinates": []}, "empty"), ({"type": "Polygon", "coordinates": [
            [[170, 50], [-170, 50], [-170, 51], [170, 51], [170, 50]]]}, "antimeridian")):
        o = b.execute(nodes, "out", region=region)
        if op not in ("asset.scene", "asset.catalog", "vector.zones", "raster.product.amplitude"):
            assert o.status.state == "failed" and part in o.status.reason, (op, o.status.reason)
