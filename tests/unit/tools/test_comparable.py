"""What must not be held against each other, added up or put into one formula, over real pixels; and what may.

Expected values: numpy over the same window of a shipped Sentinel-2 image; counts of people by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rasterio

from tests.unit.tools.rasters import Bench, node_of, scene
from tests.unit.tools.test_execute_operators import pixels_of
from tests.unit.verification.samples import FISHBOURNE

ROLES = ("blue", "green", "red", "nir")
REFLECTANCE: dict[str, Any] = {"unit": "reflectance", "scale": 1e-4}


def coast() -> np.ndarray[Any, Any]:
    with rasterio.open(FISHBOURNE) as src:
        pixels: np.ndarray[Any, Any] = src.read()
    return pixels[:, 35:75, :50].astype(np.float64)


STORED = coast()
NDVI = (STORED[3] - STORED[2]) / (STORED[3] + STORED[2])
S = ("s1", "asset.scene", (), {"scene": "s"})


def dates(*how: dict[str, Any], days: tuple[str, ...] = (), add: float = 0.0) -> Bench:
    """One place on several dates; those that say no unit hold stored numbers with ``add`` on them, as since baseline 04.00."""
    held = days or tuple(f"201{k}-07-05" for k in range(len(how)))
    return Bench(*[scene(STORED * (1 + 0.01 * k) + (0 if h else add), ROLES, scene_id=f"d{k}", date=day, **h)
                   for k, (h, day) in enumerate(zip(how, held, strict=True))])


def of_dates(n: int, *last: Any) -> list[Any]:
    nodes = [x for k in range(n) for x in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                           (f"n{k}", "raster.product.index", [f"s{k}"], {"index": "ndvi"}))]
    return [*nodes, *last]


ALL = ["n0", "n1", "n2", "n3"]
COMPARING = [
    ("raster.product.difference", ALL[:2], {}), ("raster.summarize.series", ALL, {}), ("raster.summarize.trend", ALL, {}),
    ("raster.summarize.series_analysis", ALL, {"analysis": "sen"}), ("raster.product.composite", ALL, {}),
    ("raster.product.anomaly", ALL, {}), ("raster.product.pixel_trend", ALL, {}), ("raster.product.best_pixel", ALL, {}),
    ("raster.summarize.agreement", ALL[:2], {"measure": "bias"})]


@pytest.mark.parametrize(("op", "inputs", "params"), COMPARING, ids=[c[0].rpartition(".")[2] for c in COMPARING])
def test_an_index_of_reflectance_is_not_compared_with_one_of_stored_numbers(op: str, inputs: list[str],
                                                                            params: dict[str, Any]) -> None:
    nodes = of_dates(4, ("out", op, inputs, params))
    o = dates(REFLECTANCE, {}, REFLECTANCE, {}, add=1000.0).execute(nodes)
    assert o.status.state == "failed" and "DN in d1.tif" in o.status.reason, o.status.reason
    assert dates(REFLECTANCE, REFLECTANCE, REFLECTANCE, REFLECTANCE).execute(nodes).status.state == "ok"
    assert dates({}, {}, {}, {}).execute(nodes).status.state == "ok"


def test_a_difference_of_one_unit_is_numpys() -> None:
    data, valid = pixels_of(dates(REFLECTANCE, REFLECTANCE), of_dates(2, ("out", "raster.product.difference", ALL[:2], {})))
    assert valid.all() and np.abs(data).max() < 1e-6  # a factor leaves a ratio as it is


@pytest.mark.parametrize("op", ["raster.product.anomaly", "raster.product.composite", "raster.product.pixel_trend",
                                "raster.summarize.series", "raster.summarize.trend"])
def test_a_date_counts_once(op: str) -> None:
    bench = dates(*[REFLECTANCE] * 4)
    o = bench.execute(of_dates(4, ("out", op, ["n0", "n1", "n2", "n3", "n1"], {})))
    assert o.status.state == "failed" and "n1 twice" in o.status.reason
    again = ("n9", "raster.product.index", ["s1"], {"index": "ndvi"})
    o = bench.execute(of_dates(4, again, ("out", op, ["n0", "n1", "n2", "n3", "n9"], {})))
    assert o.status.state == "failed" and "n1 and n9, which are the same" in o.status.reason


def test_a_band_sharpens_once() -> None:
    bench = Bench(scene(np.concatenate([STORED, STORED[:3].mean(0)[None]]), (*ROLES, "pan")))
    bands = [(r, "raster.product.band", ["s1"], {"role": r}) for r in ("red", "green", "pan")]
    o = bench.execute([S, *bands, ("out", "raster.product.pansharpen", ["red", "red", "pan"], {})])
    assert o.status.state == "failed" and "red twice" in o.status.reason


@pytest.mark.parametrize(("shift", "state", "part"), [
    (0, "ok", ""), (1, "ok", "0.50 pixels"), (2, "ok", "1.00 pixels"), (4, "failed", " m) beside"), (8, "failed", " m) beside")])
def test_a_panchromatic_band_lies_on_the_bands_or_is_refused(shift: int, state: str, part: str) -> None:
    with rasterio.open(FISHBOURNE) as src:
        fine = src.read((1, 2, 3)).astype(np.float64)[:, 40:130, 4:112]
    coarse = fine[:, :, 8:].reshape(3, 45, 2, 50, 2).mean(axis=(2, 4))
    pan = fine.mean(axis=0)[:, 8 - shift:108 - shift]
    bench = Bench(scene(coarse, ["blue", "green", "red"], scene_id="s", pixel=20.0),
                  scene(pan[None], ["pan"], scene_id="p", pixel=10.0))
    bands = [(r, "raster.product.band", ["s1"], {"role": r}) for r in ("red", "green", "blue")]
    other = [("s2", "asset.scene", (), {"scene": "p"}), ("pan", "raster.product.band", ["s2"], {"role": "pan"})]
    o = bench.execute([S, *other, *bands,
                       ("h", "raster.product.pansharpen", ["red", "green", "blue", "pan"], {}),
                       ("out", "raster.summarize.statistic", ["h"], {})])
    told = [line.message for line in o.status.log if "panchromatic" in line.message]
    assert o.status.state == state, o.status.reason
    if state == "failed":
        away = float(o.status.reason.split("lies ")[1].split()[0])
        assert part in o.status.reason and away == pytest.approx(shift / 2, abs=0.15)
    else:
        assert node_of(o, "h")["pan_shift_px"] == pytest.approx([0, shift / 2], abs=0.1)
        assert len(told) == bool(part) and all("pixels of the bands" in t for t in told)


def people() -> tuple[Bench, np.ndarray[Any, Any]]:
    counts = np.random.default_rng(3).poisson(3, (1, 60, 60)).astype(np.float64)
    return Bench(scene(counts, ["index"], unit="people")), counts[0]


V = ("v", "raster.product.band", ["s1"], {"role": "index"})


@pytest.mark.parametrize("params", [{"resolution": 30, "method": "average"}, {"resolution": 5}])
def test_pixels_of_another_size_are_not_added_up(params: dict[str, Any]) -> None:
    bench, counts = people()
    moved = ("r", "raster.product.reproject", ["v"], params)
    for sums in (("out", "raster.summarize.statistic", ["r"], {"statistic": "sum"}),):
        o = bench.execute([S, V, moved, sums])
        assert o.status.state == "failed" and "scene's own" in o.status.reason
    zone = ("z", "vector.zones", (), {"crs": "EPSG:32630", "geojson": {"type": "Polygon", "coordinates": [
        [[600000, 5600000], [600300, 5600000], [600300, 5599700], [600000, 5599700], [600000, 5600000]]]}})
    o = bench.execute([S, V, moved, zone, ("out", "raster.summarize.zonal", ["r", "z"], {"statistic": "sum"})])
    assert o.status.state == "failed" and "scene's own" in o.status.reason
    o = bench.execute([S, V, zone, ("out", "raster.summarize.zonal", ["v", "z"], {"statistic": "sum"})])
    assert o.result.items[0]["value"] == counts[:30, :30].sum()
    o = bench.execute([S, V, moved, ("out", "raster.summarize.statistic", ["r"], {})])
    assert o.result.value == pytest.approx(counts.mean(), rel=0.02)


def test_a_resolution_counts_in_the_units_of_its_crs() -> None:
    bench, _ = people()
    for method in ("average", "nearest"):
        o = bench.execute([S, V, ("out", "raster.product.reproject", ["v"], {"crs": "EPSG:4326", "resolution": 30,
                                                                              "method": method})])
        assert o.status.state == "failed" and "degree" in o.status.reason and "larger than the whole" in o.status.reason


def test_much_coarser_pixels_by_interpolation_are_warned_of() -> None:
    bench, _ = people()
    o = bench.execute([S, V, ("out", "raster.product.reproject", ["v"], {"resolution": 60})])
    assert any("average takes them all" in line.message for line in o.status.log)
    o = bench.execute([S, V, ("out", "raster.product.reproject", ["v"], {"resolution": 60, "method": "average"})])
    assert not any("takes them all" in line.message for line in o.status.log)


# --- formulas of the caller's own ----------------------------------------------------------------------------------------------
def in_formula(expression: str, roles: tuple[str, ...], units: tuple[str, ...], stored: Any = None) -> Any:
    info, pixels = scene(STORED[:len(roles)] / 100 + 1 if stored is None else stored, roles)
    info = info.model_copy(update={"bands": tuple(b.model_copy(update={"unit": u})
                                                  for b, u in zip(info.bands, units, strict=True))})
    return Bench((info, pixels)).execute([S, ("m", "raster.product.math", ["s1"], {
        "expression": expression, "range": [-1e6, 1e6]}), ("out", "raster.summarize.statistic", ["m"], {})])


@pytest.mark.parametrize(("expression", "roles", "units", "part"), [
    ("vv / vh", ("vv", "vh"), ("dB", "dB"), "logarithms"), ("(vv - 1) * vh", ("vv", "vh"), ("dB", "dB"), "logarithms"),
    ("vv + vh", ("vv", "vh"), ("dB", "dB"), "logarithms"), ("red + thermal1", ("red", "thermal1"), ("reflectance", "K"), "units"),
    ("where(red > thermal1, 1, 0)", ("red", "thermal1"), ("reflectance", "K"), "units"),
    ("min(red, nir)", ("red", "nir"), ("reflectance", "DN"), "units"), ("class * 1", ("class",), ("DN",), "codes"),
    ("where(red > 0, class, 0)", ("red", "class"), ("DN", "DN"), "codes"), ("floor(qa / 8)", ("qa",), ("DN",), "codes")])
def test_a_formula_that_means_nothing_is_refused(expression: str, roles: tuple[str, ...], units: tuple[str, ...],
                                                 part: str) -> None:
    o = in_formula(expression, roles, units)
    assert o.status.state == "failed" and part in o.status.reason, o.status.reason


@pytest.mark.parametrize(("expression", "roles", "units", "value"), [
    ("vv - vh", ("vv", "vh"), ("dB", "dB"), lambda a, b: a - b),
    ("10 ^ (vv / 10) / 10 ^ (vh / 10)", ("vv", "vh"), ("dB", "dB"), lambda a, b: 10 ** ((a - b) / 10)),
    ("0.3 * red + 0.01 * thermal1", ("red", "thermal1"), ("reflectance", "K"), lambda a, b: 0.3 * a + 0.01 * b),
    ("thermal1 - 273.15", ("thermal1",), ("K",), lambda a: a - 273.15),
    ("class == 8", ("class",), ("DN",), lambda a: (a == 8).astype(float)),
    ("(floor(qa / 8) - 2 * floor(qa / 16)) == 1", ("qa",), ("DN",), lambda a: (a // 8 % 2 == 1).astype(float)),
    ("nir - red", ("red", "nir"), ("reflectance", "reflectance"), lambda a, b: b - a)])
def test_a_formula_with_a_meaning_is_numpys(expression: str, roles: tuple[str, ...], units: tuple[str, ...], value: Any) -> None:
    stored = np.floor(STORED[:len(roles)] / 100) + 1
    o = in_formula(expression, roles, units, stored)
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == pytest.approx(float(np.mean(value(*stored))), rel=1e-9)


def test_a_direction_goes_into_a_formula_by_its_sine_alone() -> None:
    row, col = np.mgrid[:30, :30]
    bench = Bench(scene((col * 3.0 + row)[None], ["elevation"], unit="m"))
    nodes = [S, ("e", "raster.product.band", ["s1"], {"role": "elevation"}),
             ("t", "raster.product.terrain", ["e"], {"product": "aspect"})]

    def mean(expression: str) -> Any:
        return bench.execute([*nodes, ("m", "raster.product.math", ["t"], {"expression": expression, "range": [-400, 400]}),
                              ("out", "raster.summarize.statistic", ["m"], {})])

    for expression in ("t * 1", "t - 180", "abs(t)"):
        assert "directions go round" in mean(expression).status.reason
    assert "radians" in mean("cos(t)").status.reason
    # rises three metres east for one south, so it falls to the west and a little north: 270° + atan(1/3)
    wanted = np.cos(np.radians(270 + np.degrees(np.arctan(1 / 3))))
    assert mean("cos(t * 0.017453292519943295)").result.value == pytest.approx(wanted, abs=1e-6)
    o = bench.execute([*nodes, ("f", "raster.product.terrain", ["e"], {}),
                       ("out", "raster.summarize.agreement", ["t", "f"], {"measure": "bias"})])
    assert o.status.state == "failed" and "directions go round" in o.status.reason


# --- classes, seasons, constants -----------------------------------------------------------------------------------------------
def test_classes_of_two_legends_have_no_transitions() -> None:
    bench = Bench(scene(STORED, ROLES, **REFLECTANCE))
    index = ("i", "raster.product.index", ["s1"], {"index": "ndvi"})

    def moved(one: dict[str, Any], other: dict[str, Any]) -> Any:
        return bench.execute([S, index, ("a", "raster.product.classify", ["i"], one),
                              ("b", "raster.product.classify", ["i"], other),
                              ("out", "raster.summarize.transitions", ["a", "b"], {})])

    assert "one legend" in moved({"breaks": [0.2, 0.4]}, {"breaks": [0.3, 0.6]}).status.reason
    assert "one legend" in moved({"preset": "ndvi_cover"}, {"breaks": [0.3, 0.6]}).status.reason
    assert moved({"breaks": [0.2, 0.4]}, {"breaks": [0.2, 0.4]}).result.value == 0
    o = bench.execute([S, index, ("a", "raster.product.classify", ["i"], {"breaks": [0.2, 0.4]}),
                       ("out", "raster.summarize.class_areas", ["a"], {})])
    assert [i["name"] for i in o.result.items] == ["below 0.2", "0.2 to 0.4", "0.4 and more"]
    assert [i["n_px"] for i in o.result.items] == np.bincount(np.digitize(NDVI, [0.2, 0.4]).ravel()).tolist()


def test_an_anomaly_against_other_seasons_or_one_year_says_so() -> None:
    for days, parts in ((("2020-07-05", "2020-01-05", "2020-02-05", "2020-12-05"), ("season", "1 year:")),
                        (("2020-01-05", "2019-12-20", "2018-01-10", "2017-12-31"), ())):
        o = dates(*[REFLECTANCE] * 4, days=days).execute(of_dates(4, ("out", "raster.product.anomaly", ALL, {})))
        told = [line.message for line in o.status.log if "reference" in line.message]
        assert len(told) == len(parts) and all(p in t for p, t in zip(parts, told, strict=True))


def test_constants_have_no_components() -> None:
    bench = Bench(scene(np.full((2, 20, 20), 5.0), ["red", "nir"]))
    bands = [(r, "raster.product.band", ["s1"], {"role": r}) for r in ("red", "nir")]
    o = bench.execute([S, *bands, ("out", "raster.product.pca", ["red", "nir"], {})])
    assert o.status.state == "failed" and "constant" in o.status.reason


@pytest.mark.parametrize("height", [12.345, 500.1, 1000 / 3])
def test_level_ground_faces_no_way(height: float) -> None:
    # in float64 the weighted sums of these equal heights differ by their rounding
    terrace = np.where(np.arange(30)[None, :] < 15, height, height + 7.7)[None] * np.ones((1, 30, 1))
    bench = Bench(scene(terrace, ["elevation"], unit="m"))
    nodes = [S, ("e", "raster.product.band", ["s1"], {"role": "elevation"})]
    aspect, valid = pixels_of(bench, [*nodes, ("t", "raster.product.terrain", ["e"], {"product": "aspect"})])
    assert valid.sum() == 28 * 2 and (aspect[valid] == 270).all()  # the step alone, which falls to the west
    slope, valid = pixels_of(bench, [*nodes, ("t", "raster.product.terrain", ["e"], {})])
    assert (slope[:, :14][valid[:, :14]] == 0).all() and slope[5, 14] == pytest.approx(np.degrees(np.arctan(7.7 / 20)), abs=1e-5)


def test_areas_in_two_units_are_not_put_together() -> None:
    bench = Bench(scene(STORED, ROLES, **REFLECTANCE))
    nodes = [S, ("i", "raster.product.index", ["s1"], {"index": "ndvi"}),
             ("m", "raster.product.threshold", ["i"], {"value": 0.5}),
             ("a", "raster.summarize.area", ["m"], {"unit": "ha"}), ("b", "raster.summarize.area", ["m"], {"unit": "m2"})]
    for expression in ("a + b", "a / b", "max(a, b)"):
        o = bench.execute([*nodes, ("out", "value.calculate", ["a", "b"], {"expression": expression})])
        assert o.status.state == "failed" and "one unit" in o.status.reason
    o = bench.execute([*nodes, ("out", "value.calculate", ["a", "b"], {"expression": "a - b / 10000", "unit": "ha"})])
    assert o.result.value == pytest.approx(0, abs=1e-9)


def test_which_way_a_formula_of_two_dates_runs_is_asked() -> None:
    bench = dates(REFLECTANCE, REFLECTANCE)
    minus = ("d", "raster.product.math", ["n0", "n1"], {"expression": "n1 - n0", "range": [-2, 2]})
    o = bench.execute(of_dates(2, minus, ("out", "raster.product.classify", ["d"], {"preset": "burn_severity"})))
    assert o.status.state == "failed" and "mode loss" in o.status.reason


def test_change_of_an_index_is_between_bands_of_one_unit() -> None:
    asked = {"image_paths": ["d0", "d1"], "objective": "x", "mode": "change", "regions_method": {
        "kind": "index_threshold", "index": "ndvi", "threshold": -0.1, "side": "below"}}
    o = dates(REFLECTANCE, {}, add=1000.0).call("perceive", asked)
    assert o.status.state == "failed" and "different units" in o.status.reason
    # one and the same place, 1 % brighter: no pixel lost a tenth of its NDVI
    bench = dates(REFLECTANCE, REFLECTANCE)
    o = bench.call("perceive", asked)
    assert o.status.state == "ok" and not bench.layers.read_mask(o.result.layers[0])[0].any()


def test_a_threshold_that_parts_one_heap_is_told() -> None:
    heap = np.random.default_rng(1).normal(0.3, 0.05, (1, 80, 80))
    nodes = [S, ("v", "raster.product.band", ["s1"], {"role": "index"}),
             ("m", "raster.product.threshold", ["v"], {"value": "otsu"}),
             ("out", "raster.summarize.share", ["m"], {})]
    for stored, is_told in ((heap, True), (np.where(np.arange(80) < 40, heap, heap + 0.5), False)):
        o = Bench(scene(stored, ["index"], unit="1")).execute(nodes)
        assert any("hardly parts two classes" in line.message for line in o.status.log) == is_told
        assert o.result.value == pytest.approx(0.5, abs=0.05)  # of both half: nothing in the figure tells them apart


def test_codes_have_no_scale() -> None:
    codes = (STORED[:1] // 500).astype(np.uint8)
    band = ("v", "raster.product.band", ["s1"], {"role": "class"})
    areas = ("out", "raster.summarize.class_areas", ["v"], {"unit": "ha"})
    o = Bench(scene(codes, ["class"], scale=0.1)).execute([S, band, areas])
    assert o.status.state == "failed" and "codes, which have no scale" in o.status.reason
    o = Bench(scene(codes, ["class"])).execute([S, band, areas])
    assert [i["n_px"] for i in o.result.items] == [int(n) for n in np.bincount(codes.ravel()) if n]


# --- dates of two kinds, thresholds and signs ----------------------------------------------------------------------------------
def course(values: tuple[float, ...], role: str, unit: str, times: tuple[str, ...], sensors: tuple[str, ...] = ()) -> Any:
    grain = np.random.default_rng(1).normal(0, 0.1, (1, 20, 20))
    bench = Bench(*[scene(v + grain, [role], scene_id=f"d{k}", date=t, unit=unit, sensor=(sensors or ("",) * 9)[k])
                    for k, (v, t) in enumerate(zip(values, times, strict=True))])
    nodes = [x for k in range(len(values)) for x in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                                     (f"v{k}", "raster.product.band", [f"s{k}"], {"role": role}))]

    def ask(op: str, params: dict[str, Any]) -> Any:
        inputs = [f"v{k}" for k in range(len(values))]
        if op.startswith("raster.summarize"):
            return bench.execute([*nodes, ("out", op, inputs, params)])
        return bench.execute([*nodes, ("t", op, inputs, params), ("out", "raster.summarize.statistic", ["t"], {})])

    return ask


MIXED = ("2020-07-01T10:30", "2021-07-01T10:40", "2022-07-01T22:20", "2023-07-01T22:30")
SAME = ("2020-07-01T10:30", "2021-07-01T13:40", "2022-07-01T10:20", "2023-07-01T11:30")
TRENDS: list[tuple[str, dict[str, Any]]] = [
    ("raster.summarize.trend", {}), ("raster.product.pixel_trend", {}),
    ("raster.summarize.series_analysis", {"analysis": "mann_kendall"})]


@pytest.mark.parametrize(("op", "params"), TRENDS)
@pytest.mark.parametrize(("role", "unit"), [("lst", "K"), ("vv", "dB")])
def test_a_trend_is_of_one_time_of_the_day(op: str, params: dict[str, Any], role: str, unit: str) -> None:
    values = (300.0, 301.0, 302.0, 303.0) if unit == "K" else (-10.0, -11.0, -12.0, -13.0)
    o = course(values, role, unit, MIXED)(op, params)
    assert o.status.state == "failed" and "times of the day" in o.status.reason and "22 h" in o.status.reason
    for times in (SAME, tuple(t[:10] for t in MIXED)):
        assert course(values, role, unit, times)(op, params).status.state == "ok"
    # what plants reflect has no such two sides, and the hours of one day are what is asked about
    if op == "raster.summarize.trend":
        assert course((0.1, 0.2, 0.3, 0.4), "ndvi", "1", MIXED)(op, params).status.state == "ok"
        hours = (*(f"2020-07-01T{h:02}:00" for h in (3, 9, 15)), "2020-07-02T15:00")
        assert "times of the day" not in course(values, role, unit, hours)(op, params).status.reason


def test_a_series_over_day_and_night_or_of_several_sensors_says_so() -> None:
    o = course((300.0, 301.0, 285.0, 284.0), "lst", "K", MIXED)("raster.summarize.series", {})
    assert o.result.value == pytest.approx(292.5, abs=0.05) and any("times of the day" in x.message for x in o.status.log)
    for sensors, n in ((("Landsat 5 TM", "Landsat 7 ETM+", "Landsat 8/9 OLI-TIRS", ""), 1), (("Landsat 5 TM", "Landsat 7 ETM+",
                        "Landsat 4–7 TM/ETM+", ""), 0), (("Sentinel-2 MSI",) * 4, 0)):
        o = course((0.1, 0.2, 0.3, 0.4), "ndvi", "1", SAME, sensors)("raster.summarize.trend", {})
        assert sum("several sensors" in x.message for x in o.status.log) == n
        days = [(np.datetime64(t[:10]) - np.datetime64(SAME[0][:10])).astype(int) / 365.25 for t in SAME]
        assert o.result.value == pytest.approx(np.polyfit(days, [0.1, 0.2, 0.3, 0.4], 1)[0], rel=1e-6)


@pytest.mark.parametrize(("value", "unit", "state"), [(0.02, "", "failed"), (0.02, "dB", "ok"), (-12.5, "", "ok"), (2, "", "ok")])
def test_linear_power_is_no_threshold_on_decibels(value: float, unit: str, state: str) -> None:
    stored = np.linspace(-15, -10, 900).reshape(1, 30, 30)
    o = Bench(scene(stored, ["vv"], unit="dB")).execute([
        S, ("v", "raster.product.band", ["s1"], {"role": "vv"}),
        ("m", "raster.product.threshold", ["v"], {"op": "<", "value": value, "unit": unit}),
        ("out", "raster.summarize.share", ["m"], {})])
    assert o.status.state == state
    if state == "ok":
        assert o.result.value == np.mean(stored < value)
    else:
        assert "-17.0 dB" in o.status.reason


@pytest.mark.parametrize(("expression", "state"), [
    ("n0 - n1", "ok"), ("n1 - n0", "failed"), ("1000 * (n1 - n0)", "failed"), ("(n0 - n1) / (abs(n0) + 1)", "ok")])
def test_dnbr_by_a_formula_is_before_minus_after(expression: str, state: str) -> None:
    bench = Bench(*[scene(STORED[2:] * (1 + k), ("swir2", "nir"), scene_id=f"d{k}", date=f"2020-0{6 + k}-01") for k in (0, 1)])
    nodes = [x for k in (0, 1) for x in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                         (f"n{k}", "raster.product.index", [f"s{k}"], {"index": "nbr"}))]
    o = bench.execute([*nodes, ("d", "raster.product.math", ["n0", "n1"], {
        "expression": expression, "quantity": "dnbr", "range": [-2000, 2000]}), ("out", "raster.summarize.statistic", ["d"], {})])
    assert o.status.state == state, o.status.reason
    assert state == "ok" or "before − after" in o.status.reason


@pytest.mark.parametrize(("unit", "role", "values", "limit"), [
    ("K", "lst", (290.0, 300.0), 25.0), ("1", "ndvi", (0.2, 0.5), 40.0)])
def test_a_limit_on_dates_lies_among_the_values(unit: str, role: str, values: tuple[float, ...], limit: float) -> None:
    asked = course(values, role, unit, SAME[:2])
    o = asked("raster.summarize.series", {"over": "count_above", "limit": limit})
    assert o.status.state == "failed" and "outside it" in o.status.reason
    o = asked("raster.summarize.series", {"over": "count_above", "limit": sum(values) / 2})
    assert o.result.value == 1
    o = asked("raster.summarize.series", {"over": "count_above", "limit": 1.01, "limit_is": "times_mean"})
    assert o.result.value == 1


@pytest.mark.parametrize(("unit", "role", "breaks", "state"), [
    ("K", "lst", [10.0, 20.0], "failed"), ("1", "ndvi", [20.0, 40.0], "failed"), ("K", "lst", [285.0, 295.0], "ok"),
    ("1", "ndvi", [-1.0, 0.0, 1.0], "ok")])
def test_limits_of_classes_lie_among_the_values(unit: str, role: str, breaks: list[float], state: str) -> None:
    stored = np.linspace(280, 300, 400).reshape(1, 20, 20) if unit == "K" else np.linspace(-0.5, 0.9, 400).reshape(1, 20, 20)
    o = Bench(scene(stored, [role], unit=unit)).execute([
        S, ("v", "raster.product.band", ["s1"], {"role": role}), ("c", "raster.product.classify", ["v"], {"breaks": breaks}),
        ("out", "raster.summarize.class_areas", ["c"], {})])
    assert o.status.state == state, o.status.reason
    if state == "ok":
        held = np.unique(np.digitize(stored, breaks), return_counts=True)[1]
        assert [i["n_px"] for i in o.result.items] == held.tolist()


@pytest.mark.parametrize(("unit", "role", "value"), [("K", "lst", 290.0), ("degC", "lst", 17.0)])
def test_temperatures_are_not_added_up_but_degree_days_are(unit: str, role: str, value: float) -> None:
    asked = course((value, value + 5), role, unit, SAME[:2])
    o = asked("raster.summarize.series", {"over": "sum"})
    assert o.status.state == "failed" and "degree-days" in o.status.reason
    assert asked("raster.summarize.series", {}).result.value == pytest.approx(value + 2.5, abs=0.05)
    grain = np.random.default_rng(1).normal(0, 0.1, (1, 20, 20))
    bench = Bench(*[scene(value + 5 * k + grain, [role], scene_id=f"d{k}", date=SAME[k], unit=unit) for k in (0, 1)])
    nodes: list[Any] = []
    for k in (0, 1):
        nodes += [(f"s{k}", "asset.scene", (), {"scene": f"d{k}"}), (f"v{k}", "raster.product.band", [f"s{k}"], {"role": role}),
                  (f"m{k}", "raster.product.math", [f"v{k}"], {"expression": f"max(v{k} - {value - 7}, 0)", "range": [0, 100]})]
    o = bench.execute([*nodes, ("out", "raster.summarize.series", ["m0", "m1"], {"over": "sum"})])
    assert o.result.value == pytest.approx(7 + 12, abs=0.05)


def test_a_composite_of_hardly_more_than_one_date_says_so_and_has_no_deviation() -> None:
    def left(masked: tuple[int, ...], method: str) -> Any:
        stored = [np.full((1, 20, 20), 0.1 * (k + 1)) for k in range(4)]
        for k in masked:
            stored[k][:] = -9999
        bench = Bench(*[scene(a, ["ndvi"], scene_id=f"d{k}", date=SAME[k], unit="1", nodata=-9999.0)
                        for k, a in enumerate(stored)])
        nodes = [x for k in range(4) for x in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                               (f"v{k}", "raster.product.band", [f"s{k}"], {"role": "ndvi"}))]
        return bench.execute([*nodes, ("t", "raster.product.composite", [f"v{k}" for k in range(4)], {"method": method}),
                              ("out", "raster.summarize.statistic", ["t"], {})])

    o = left((1, 2, 3), "mean")
    assert o.result.value == pytest.approx(0.1) and any("of 4 dates 1.0 lie under a pixel" in x.message for x in o.status.log)
    assert not any("lie under a pixel" in x.message for x in left((3,), "mean").status.log)
    assert left((1, 2, 3), "std").status.state == "failed"
    assert left((2, 3), "std").result.value == pytest.approx(0.05)


def test_a_season_that_runs_over_the_turn_of_the_year_says_so() -> None:
    times = ("2020-01-05", "2020-02-05", "2020-12-05", "2021-01-05")
    asked = course((0.1, 0.2, 0.3, 0.4), "ndvi", "1", times)
    o = asked("raster.product.composite", {"months": [12, 1, 2], "years": [2020], "method": "mean"})
    assert o.result.value == pytest.approx(0.2, abs=0.02) and any("turn of the year" in x.message for x in o.status.log)
    for params in ({"months": [12, 1, 2]}, {"months": [6, 7, 1], "years": [2020]}, {"years": [2020]}):
        o = asked("raster.product.composite", {"method": "mean", **params})
        assert not any("turn of the year" in x.message for x in o.status.log)


MONTHS = tuple(f"20{10 + k // 12}-{k % 12 + 1:02d}-01" for k in range(30))


@pytest.mark.parametrize("params", [{"analysis": "stl", "period": 12},
                                    {"analysis": "mann_kendall", "variant": "seasonal", "period": 12}])
def test_seasons_are_not_counted_over_missing_dates(params: dict[str, Any]) -> None:
    values = tuple(0.4 + 0.3 * float(np.sin(k / 12 * 2 * np.pi)) for k in range(30))
    assert course(values, "ndvi", "1", MONTHS, ("",) * 30)("raster.summarize.series_analysis", params).status.state == "ok"
    kept = [k for k in range(30) if k not in (3, 7, 8)]
    o = course(tuple(values[k] for k in kept), "ndvi", "1", tuple(MONTHS[k] for k in kept), ("",) * 30)(
        "raster.summarize.series_analysis", params)
    assert o.status.state == "failed" and "some are missing" in o.status.reason


@pytest.mark.parametrize(("values", "analysis", "told"), [
    ((0.1, 0.1, 0.11, 0.1, 0.09, 0.1, 0.1, 0.9), "change_point", True), ((0.1,) * 10 + (0.8,) * 10, "change_point", False),
    ((0.1, 0.3, 0.2, 0.4, 0.1, 0.3, 0.2, 0.4), "mann_kendall", True),
    (tuple(0.05 * k for k in range(12)), "mann_kendall", False)])
def test_what_is_not_significant_says_so(values: tuple[float, ...], analysis: str, told: bool) -> None:
    o = course(values, "ndvi", "1", MONTHS[:len(values)], ("",) * 30)("raster.summarize.series_analysis", {"analysis": analysis})
    assert any("not significant" in x.message for x in o.status.log) == told


def test_the_commonest_class_shrinks_what_is_rare_and_says_so() -> None:
    codes = np.zeros((1, 30, 30))
    codes[0, ::3, ::3] = 1
    bench = Bench(scene(codes, ["class"]))
    o = bench.execute([S, ("v", "raster.product.band", ["s1"], {"role": "class"}),
                       ("r", "raster.product.reproject", ["v"], {"resolution": 30, "method": "mode"}),
                       ("out", "raster.summarize.class_areas", ["r"], {"unit": "m2"})])
    assert [i["class"] for i in o.result.items] == [0] and any("what is rare shrinks" in x.message for x in o.status.log)
