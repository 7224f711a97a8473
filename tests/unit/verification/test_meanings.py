"""What is held together, handed in by a tool that does not refuse it: seen from the record alone; and what is right passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shapely.geometry import box, mapping

from apps.verification.checks import CHECKS
from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples_meanings as m
from tests.unit.verification.samples import NDVI, S, Sample, ask, graph, nir
from tests.unit.verification.samples_layers import agreement, remembered, transitions, with_layer
from tests.unit.verification.samples_new import landsat


def outcome(sample: Sample, name: str) -> str:
    return CHECKS[name].look(sample.case()).outcome


@pytest.mark.parametrize(
    ("expression", "unit", "wanted"),
    [
        ("nir / red", "DN", "passed"),
        ("nir / red", "dB", "failed"),
        ("nir - red", "dB", "passed"),
        ("nir + red", "dB", "failed"),
        ("10 ^ (nir / 10) / 10 ^ (red / 10)", "dB", "passed"),
        ("log10(nir) + log10(red)", "dB", "passed"),
        ("nir * 0.5 - red * 0.5", "dB", "passed"),
        ("abs(nir) * 2", "dB", "passed"),
        ("(nir - 3) * 2", "dB", "passed"),
    ],
)
def test_formulas_of_decibels(expression: str, unit: str, wanted: str) -> None:
    made = m.with_unit(m.divided(), "s", unit).but({"/arguments/nodes/1/params/expression": expression})
    assert outcome(made, "consistency.formula_has_a_meaning") == wanted


def with_roles(sample: Sample, **by_role: tuple[str, str]) -> Sample:
    """The question's scene with other roles and units: old role → (new role, unit)."""
    assert sample.question is not None
    (scene,) = sample.question.scenes
    bands = tuple(
        b.model_copy(update=dict(zip(("role", "unit"), by_role[b.role], strict=True))) if b.role in by_role else b
        for b in scene.bands
    )
    return sample.but(question=sample.question.model_copy(update={"scenes": (scene.model_copy(update={"bands": bands}),)}))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("red + thermal1", "failed"),
        ("max(red - thermal1, 0)", "failed"),
        ("0.3 * red + 0.01 * thermal1", "passed"),
        ("class * 1", "failed"),
        ("class == 8", "passed"),
        ("where(class == 8, red, 0)", "passed"),
    ],
)
def test_formulas_of_several_units_and_of_codes(expression: str, wanted: str) -> None:
    made = with_roles(m.divided(), red=("red", "reflectance"), nir=("thermal1", "K"), blue=("class", "DN"))
    made = made.but({"/arguments/nodes/1/params/expression": expression})
    assert outcome(made, "consistency.formula_has_a_meaning") == wanted


def test_the_same_date_under_another_name() -> None:
    first: Any = remembered().observation.arguments["nodes"]
    nodes = [*first[:-1], {**first[1], "id": "again"}, {**first[-1], "inputs": [*first[-1]["inputs"], "again"]}]
    made = remembered().but({"/arguments/nodes": nodes})
    assert outcome(made, "consistency.each_input_once") == "failed"
    assert outcome(remembered(), "consistency.each_input_once") == "passed"


def test_a_unit_before_the_suns_angle_is_reflectance_to_a_ratio() -> None:
    made = m.with_unit(m.with_unit(agreement(), "s", "reflectance"), "t", "reflectance before sun angle")
    assert outcome(made, "radiometry.dates_of_one_unit") == "passed"
    assert outcome(m.with_unit(made, "t", "DN"), "radiometry.dates_of_one_unit") == "failed"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [({"preset": "ndvi_cover", "breaks": []}, "failed"), ({"names": ["a", "b", "c", "d"]}, "failed"), ({}, "passed")],
)
def test_legends(change: dict[str, Any], wanted: str) -> None:
    made = transitions().but({f"/arguments/nodes/5/params/{k}": v for k, v in change.items()})
    assert outcome(made, "consistency.classes_of_one_legend") == wanted


def test_a_sum_of_which_no_grid_is_on_record_is_asked_for() -> None:
    made = m.coarser().but({"/arguments/nodes/3/params/statistic": "sum", "/result/layers": []})
    # 90 m were asked for, of pixels of 30 m
    assert outcome(made, "consistency.sum_over_measured_pixels") == "failed"
    nowhere = made.but({"/arguments/nodes/2/params/resolution": ...})
    assert outcome(nowhere, "consistency.sum_over_measured_pixels") == "inconclusive"
    assert outcome(m.coarser(), "consistency.sum_over_measured_pixels") == "not_applicable"


@pytest.mark.parametrize(
    ("expression", "units", "wanted"),
    [
        ("a + b", ("ha", "m2"), "failed"),
        ("a / b", ("ha", "m2"), "failed"),
        ("a + b", ("ha", "ha"), "passed"),
        ("a / b", ("km2", "km2"), "passed"),
        ("a / 10000 + b", ("m2", "ha"), "passed"),
    ],
)
def test_arithmetic_of_areas_in_several_units(expression: str, units: tuple[str, str], wanted: str) -> None:
    nodes: Any = m.divided().observation.arguments["nodes"]
    areas = [
        {"id": n, "op": "raster.summarize.area", "inputs": ["m"], "params": {"unit": u}} for n, u in zip("ab", units, strict=True)
    ]
    last = {"id": "out", "op": "value.calculate", "inputs": ["a", "b"], "params": {"expression": expression}}
    made = m.divided().but({"/arguments/nodes": [*nodes[:-1], *areas, last]})
    assert outcome(made, "consistency.formula_has_a_meaning") == wanted


def test_zones_that_are_called_alike_each_have_a_figure() -> None:
    squares = [[[x, 10], [x + 40, 10], [x + 40, 60], [x, 60], [x, 10]] for x in (10, 60)]
    zones = {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "properties": {"name": "field"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
            for ring in squares
        ],
    }
    made = ask(
        Bench(landsat()),
        "What is the mean NDVI of each field?",
        "table",
        "execute",
        graph(
            S,
            NDVI,
            ("z", "vector.zones", (), {"geojson": zones, "crs": "image"}),
            ("out", "raster.summarize.zonal", ("i", "z"), {}),
        ),
    )
    bands = made.bench.stored["s"].astype(float)
    red, nir = bands[2], bands[3]
    ndvi = (nir - red) / (nir + red)
    means = [float(ndvi[10:60, x : x + 40].mean()) for x in (10, 60)]
    assert [i["value"] for i in made.observation.result.items] == pytest.approx(means, rel=1e-9)
    assert any("called field" in line.message for line in made.observation.status.log)
    assert outcome(made, "consistency.zonal_matches_source") == "passed"
    # each row is that of another zone: one figure twice is not
    assert outcome(made.but({"/result/items/1/value": means[0]}), "consistency.zonal_matches_source") == "failed"


def measured(crs: str, *boxes: tuple[float, float, float, float], **spec: Any) -> Sample:
    """A figure of rectangles that were drawn in a CRS; the second is the reference."""
    sources = [
        {"name": name, "mode": "extent", "geometry": mapping(box(*b)), "geometry_crs": crs}
        for name, b in zip(("subject", "reference"), boxes, strict=False)
    ]
    return ask(Bench(landsat()), "How large is it?", "number", "measure", {"sources": sources, "spec": spec})


def test_written_digits_of_a_projection_are_as_fine_as_on_the_ground() -> None:
    made = measured("EPSG:3857", (-150000, 6500000, -149000, 6501000), metric="area")
    # half a unit along both axes, of which at 50.3° north each is cos(50.3°) long
    lat = np.degrees(2 * np.arctan(np.exp(6500500 / 6378137)) - np.pi / 2)
    told: Any = made.observation.evidence.source["layers"]
    assert told[0]["accuracy"]["m"] == pytest.approx(0.5 * 2**0.5 * np.cos(np.radians(lat)), rel=5e-3)
    name = "consistency.interval_as_exact_as_drawn"
    assert outcome(made, name) == "passed"
    assert outcome(made.but({"/evidence/source/layers/0/accuracy/m": 0.2}), name) == "failed"


@pytest.mark.parametrize(("of", "value"), [({}, 1 / 9), ({"of": "area"}, 1 / 9), ({"of": "count"}, 1.0)])
def test_a_ratio_to_a_reference_is_of_areas_where_nothing_is_said(of: dict[str, Any], value: float) -> None:
    squares = ((600000.0, 5599900.0, 600100.0, 5600000.0), (600200.0, 5599700.0, 600500.0, 5600000.0))
    made = measured("EPSG:32630", *squares, metric="ratio", reference="reference", denominator="reference", **of)
    assert made.observation.result.value == pytest.approx(value, rel=1e-4)
    assert outcome(made, "consistency.relation_recomputes") == "passed"
    assert outcome(made.but({"/result/value": value * 0.8}), "consistency.relation_recomputes") == "failed"


@pytest.mark.parametrize(
    ("fill", "wanted"), [(-9999.0, "failed"), (-3.4028234663852886e38, "failed"), (1e20, "failed"), (0.0, "passed")]
)
def test_a_second_value_for_nothing_is_seen_in_the_result(fill: float, wanted: str) -> None:
    def gaps(data: Any) -> Any:
        data[10:14, 20:40] = fill
        return data

    made = with_layer(nir(), "raster", gaps)
    assert outcome(made, "radiometry.no_fill_value_in_raster") == wanted


@pytest.mark.parametrize(("by_px", "wanted"), [(0, "passed"), (2, "passed"), (-4, "failed"), (8, "failed")])
def test_where_a_panchromatic_band_lies(by_px: int, wanted: str) -> None:
    assert outcome(m.sharpened_beside(by_px), "geometry.pan_lies_on_bands") == wanted


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("a - b", "passed"), ("b - a", "failed"), ("1000 * (b - a)", "failed"), ("abs(b - a)", "not_applicable")],
)
def test_which_date_dnbr_is_taken_from(expression: str, wanted: str) -> None:
    made = m.burnt().but({"/arguments/nodes/4/params/expression": expression})
    assert outcome(made, "consistency.dnbr_before_minus_after") == wanted


@pytest.mark.parametrize(
    ("limit", "op", "wanted"), [(-15, "<", "passed"), (0, "<", "passed"), (0.02, "<", "failed"), (2000, ">", "failed")]
)
def test_thresholds_on_decibels(limit: float, op: str, wanted: str) -> None:
    made = m.in_decibels().but({"/arguments/nodes/2/params/value": limit, "/arguments/nodes/2/params/op": op})
    assert outcome(made, "consistency.threshold_in_the_values_unit") == wanted


@pytest.mark.parametrize(
    ("hours", "wanted"),
    [((10, 13, 10, 12), "passed"), ((23, 1, 0, 22), "passed"), ((10, 22, 10, 22), "failed"), ((4, 5, 16, 5), "failed")],
)
def test_hours_of_a_trend_go_round(hours: tuple[int, ...], wanted: str) -> None:
    assert outcome(m.warming(hours), "plausibility.trend_of_one_time_of_day") == wanted


def test_scanners_of_landsat_are_of_one_kind() -> None:
    name = "plausibility.dates_of_one_sensor"
    held = ("Landsat 5 TM", "Landsat 7 ETM+", "Landsat 4–7 TM/ETM+", "")
    assert outcome(m.warming(sensors=held), name) == "passed"
    assert outcome(m.warming(sensors=(*held[:3], "Sentinel-2 MSI")), name) == "failed"


def test_a_change_of_temperature_is_no_temperature() -> None:
    """Three kelvins warmer than usual is no surface of three kelvins; three kelvins as such are."""
    nodes: Any = m.warming().observation.arguments["nodes"]
    anomaly = {"id": "d", "op": "raster.product.anomaly", "inputs": ["b0", "b1", "b2", "b3"], "params": {}}
    last = {"id": "out", "op": "raster.summarize.statistic", "inputs": ["d"], "params": {"statistic": "mean"}}
    told = {"/result/kind": "statistic", "/result/unit": "K", "/result/value": 3.0}
    made = m.warming().but({"/arguments/nodes": [*nodes[:-1], anomaly, last], **told})
    assert outcome(made, "radiometry.temperature_plausible") == "not_applicable"
    plain = m.warming().but({"/arguments/nodes": [*nodes[:-1], {**last, "inputs": ["b0"]}], **told})
    assert outcome(plain, "radiometry.temperature_plausible") == "failed"


@pytest.mark.parametrize(
    ("op", "params", "wanted"),
    [
        ("raster.summarize.series", {"over": "count_above", "limit": 25}, "failed"),
        ("raster.summarize.series", {"over": "count_above", "limit": 298}, "passed"),
        ("raster.summarize.series", {"over": "count_above", "limit": 1.5, "limit_is": "times_mean"}, "not_applicable"),
        ("raster.product.classify", {"breaks": [10, 20, 300]}, "failed"),
        ("raster.product.classify", {"breaks": [280, 290]}, "passed"),
    ],
)
def test_limits_on_kelvins(op: str, params: dict[str, Any], wanted: str) -> None:
    made = m.warming().but({"/arguments/nodes/8": {"id": "out", "op": op, "inputs": ["b0"], "params": params}})
    assert outcome(made, "consistency.threshold_in_the_values_unit") == wanted
