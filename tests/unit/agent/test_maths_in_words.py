"""Ratios, formulas, histograms, centres, trends of each pixel, equations and pictures asked in words, over real pixels, against
figures worked out here in numpy and scipy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
from numpy.typing import NDArray
from scipy import stats

from apps.agent.planner.band_maths import read_formula
from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Plan, Question
from tests.unit.agent.asked_of_pixels import answered
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.tools.test_execute_real import ZEROS, modis

Array = NDArray[np.float64]
ROLES = {"blue": 1, "green": 2, "red": 3, "nir": 4}


@pytest.fixture
def fields(shared_data: Path) -> tuple[Bench, dict[str, Array], NDArray[np.bool_]]:
    """Sentinel-2 near Fishbourne: the bench, its bands as they are stored, and where they are no fill."""
    info, stored = from_file(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif", ROLES, fill=ZEROS)
    bands = {r: stored[i - 1].astype(np.float64) for r, i in ROLES.items()}
    return Bench((info, stored)), bands, ~(stored == 0).all(axis=0)


def plan(bench: Bench, text: str) -> Plan:
    return OfflinePlanner().plan(Question(text=text, scenes=bench.question.scenes))


@pytest.mark.shared_data
def test_ratios_and_formulas(fields: tuple[Bench, dict[str, Array], NDArray[np.bool_]]) -> None:
    bench, p, valid = fields
    nir, red, green = (p[r][valid] for r in ("nir", "red", "green"))
    wanted = {
        "What is the ratio of nir to red?": (nir / red).mean(),
        "maximum nir/green ratio": (nir / green).max(),
        "(nir - red) / (nir + red)": ((nir - red) / (nir + red)).mean(),
        "median of (nir − red) / (nir + red)": np.median((nir - red) / (nir + red)),
        "What is the normalized difference between green and nir?": ((green - nir) / (green + nir)).mean(),
        "mean of nir - 2 * red": (nir - 2 * red).mean(),
        "What is the mean of (nir - red) / (nir + red)^0.5 / (nir)^0.5?": ((nir - red) / (nir + red) ** 0.5 / nir**0.5).mean(),
        "mean of ndvi - ndwi": ((nir - red) / (nir + red) - (green - nir) / (green + nir)).mean(),
    }
    for text, value in wanted.items():
        made, found = answered(bench, text)
        assert found.value == pytest.approx(value, rel=1e-6), text
        assert "pixel by pixel" in made.understood
    assert answered(bench, "What is the ratio of nir to red?")[1].value == pytest.approx(np.divide(nir, red).mean())


@pytest.mark.shared_data
def test_a_number_among_stored_numbers_is_refused(fields: tuple[Bench, dict[str, Array], NDArray[np.bool_]]) -> None:
    """The 1 of EVI2 means reflectance; of numbers as they are stored it is nothing."""
    bench, p, valid = fields
    text = "mean of 2.5 * (nir - red) / (nir + 2.4 * red + 1)"
    assert "adds a plain number" in plan(bench, text).reason
    info = bench.question.scenes[0]
    bands = tuple(b.model_copy(update={"unit": "reflectance", "scale": 1e-4}) for b in info.bands)
    light = Bench((info.model_copy(update={"bands": bands}), bench.stored["s"]))
    nir, red = p["nir"][valid] * 1e-4, p["red"][valid] * 1e-4
    assert answered(light, text)[1].value == pytest.approx((2.5 * (nir - red) / (nir + 2.4 * red + 1)).mean(), rel=1e-6)
    assert "unit of nir * red is not told" in plan(bench, "mean of nir * red").reason


@pytest.mark.parametrize(
    ("text", "names", "power", "has_constant"),
    [
        ("(nir - red) / (nir + red)", ("nir", "red"), 0, False),
        ("nir - 2 * red", ("nir", "red"), 1, False),
        ("nir * red", ("nir", "red"), 2, False),
        ("sqrt(nir * red)", ("nir", "red"), 1, False),
        ("nir / red + 1", ("nir", "red"), 0, False),
        ("nir + 1", ("nir",), 1, True),
        ("nir ^ 2 + red", ("nir", "red"), None, True),
        ("log(nir)", ("nir",), None, False),
        ("log(nir / red)", ("nir", "red"), 0, False),
        ("-nir ** 0.5", ("nir",), 0.5, False),
        ("max(nir, red)", ("nir", "red"), 1, False),
    ],
)
def test_a_formula_is_read_with_the_power_of_its_unit(
    text: str, names: tuple[str, ...], power: float | None, has_constant: bool
) -> None:
    found = read_formula(text)
    assert found is not None and (found.names, found.power, found.has_constant) == (names, power, has_constant)


@pytest.mark.parametrize(
    "text",
    ["nir", "2 + 2", "nir red", "nir.real", "__import__('os')", "nir[0]", "nir if red else blue", "open(nir)", "nir ^ red",
     "max(nir)", "sqrt(nir, x=1)", "nir @ red", "nir // red", "nir % 2", "(nir", "nir + 'a'", "nir + " * 60 + "nir",
     "lambda: nir"],
)  # fmt: skip
def test_what_is_no_formula_is_not_read(text: str) -> None:
    assert read_formula(text) is None


@pytest.mark.shared_data
def test_histogram_of_an_index(fields: tuple[Bench, dict[str, Array], NDArray[np.bool_]]) -> None:
    bench, p, valid = fields
    ndvi = (p["nir"][valid] - p["red"][valid]) / (p["nir"][valid] + p["red"][valid])
    made, found = answered(bench, "Show the histogram of NDVI with 20 bins")
    counts, edges = np.histogram(ndvi, 20)
    told = [(row.partition(": ")[0], int(row.rpartition(": ")[2])) for row in str(found.value).split("; ")]
    assert [n for _, n in told] == pytest.approx(counts, abs=2)  # a value on an edge may fall on either side of it
    assert float(told[0][0].partition(" to ")[0]) == pytest.approx(edges[0], abs=1e-6)
    assert f"mean {ndvi.mean():.3f}" in found.text and f"median {np.median(ndvi):.3f}" in found.text
    assert f"{valid.sum():,} pixels in 20 bins" in found.text
    assert [s.why for s in made.steps][-1].endswith("a chart, for a person to look at.")


@pytest.mark.shared_data
def test_the_centre_of_what_is_green(fields: tuple[Bench, dict[str, Array], NDArray[np.bool_]], shared_data: Path) -> None:
    bench, p, valid = fields
    with np.errstate(all="ignore"):
        green = ((p["nir"] - p["red"]) / (p["nir"] + p["red"]) > 0.4) & valid
    rows, cols = np.nonzero(green)
    with rasterio.open(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif") as src:
        x, y = rasterio.transform.xy(src.transform, rows.mean(), cols.mean())
        lon, lat = pyproj.Transformer.from_crs(src.crs, "EPSG:4326", always_xy=True).transform(x, y)
    for text in ("Where is the centre of the vegetation?", "centroid of the vegetation"):
        made, found = answered(bench, text)
        assert [float(v) for v in str(found.value).split(", ")] == pytest.approx([lon, lat], abs=2e-6)
        assert "NDVI > 0.4" in made.understood


def trend(stack: Array, valid: NDArray[np.bool_], days: Array) -> tuple[Array, Array]:
    """(slope a year, p) of each pixel's line, by scipy; NaN where fewer than three dates are valid."""
    slope, p = np.full(stack.shape[1:], np.nan), np.full(stack.shape[1:], np.nan)
    for at in np.ndindex(*stack.shape[1:]):
        seen = valid[(slice(None), *at)]
        if seen.sum() >= 3:
            line = stats.linregress(days[seen], stack[(slice(None), *at)][seen])
            slope[at], p[at] = line.slope, line.pvalue
    return slope, p


@pytest.mark.shared_data
def test_trends_of_each_pixel(shared_data: Path) -> None:
    held = [(i.model_copy(update={"grid": i.grid.window(100, 60, 40, 30)}), s[:, 60:90, 100:140]) for i, s in modis(shared_data)]
    bench = Bench(*held)
    stack = np.stack([s[0] for _, s in held]).astype(np.float64)
    valid = (stack >= -2000) & (stack <= 10000)
    days = np.array([i.acquired_at.timestamp() / 86400 / 365.2425 for i, _ in held if i.acquired_at])
    slope, p = trend(stack * 1e-4, valid, days - days.min())
    seen = np.isfinite(p)
    _, found = answered(bench, "What share of the pixels has a significant trend in NDVI?")
    assert found.value == pytest.approx(100 * (p[seen] < 0.05).mean(), abs=1e-6) and found.unit == "%"
    made, found = answered(bench, "share of pixels with a significant falling NDVI trend")
    assert found.value == pytest.approx(100 * ((p < 0.05) & (slope < 0))[seen].mean(), abs=1e-6)
    assert any("one in twenty" in w for w in made.warnings)
    _, found = answered(bench, "What share of the pixels has a rising NDVI trend?")
    assert found.value == pytest.approx(100 * (slope > 0)[seen].mean(), abs=1e-6)
    for text in ("share of pixels where NDVI increases", "What share of the area shows an increase in NDVI?"):
        assert answered(bench, text)[1].value == pytest.approx(100 * (slope > 0)[seen].mean(), abs=1e-6)
    _, found = answered(bench, "Where does NDVI rise?")
    assert f"{int((slope[seen] > 0).sum()):,} of {int(seen.sum()):,} valid pixels" in found.text
    _, found = answered(bench, "Where does NDVI fall significantly?")
    assert f"{int(((p < 0.05) & (slope < 0)).sum()):,} of {int(seen.sum()):,} valid pixels" in found.text
    assert "Every pixel has some trend" in plan(bench, "What share of the pixels has a NDVI trend?").reason
    _, found = answered(bench, "Plot the mean NDVI over time")
    first = held[0][0].acquired_at
    assert first is not None
    rows = dict(row.split(": ") for row in str(found.value).split("; "))
    assert float(rows[first.date().isoformat()]) == pytest.approx((stack[0] * 1e-4)[valid[0]].mean(), abs=1e-6)
    assert len(rows) == 12


@pytest.mark.shared_data
def test_shares_of_a_quality_band(shared_data: Path) -> None:
    """Bits of Landsat before Collection 1: cloud with high confidence is 11 in bits 14 and 15."""
    folder = shared_data / "multispectral/landsat8_cloudy"
    info, stored = from_file(folder / "l8_BQA.tif", {"qa": 1})
    band = info.bands[0].model_copy(update={"scheme": "landsat_precollection", "nodata": 1})
    bench = Bench((info.model_copy(update={"bands": (band,)}), stored))
    seen = stored[0] != 1
    cloud, cirrus = ((stored[0] >> bit & 3) == 3 for bit in (14, 12))
    _, found = answered(bench, "What share of the pixels is clear?")
    assert found.value == pytest.approx(100 * (~cloud)[seen].mean(), abs=1e-9) and found.unit == "%"
    _, found = answered(bench, "What share of the image is cloud by the QA band?")
    assert found.value == pytest.approx(100 * cloud[seen].mean(), abs=1e-9)
    made, found = answered(bench, "share of cirrus pixels by the quality band")
    assert found.value == pytest.approx(100 * cirrus[seen].mean(), abs=1e-9)
    assert "cirrus" in made.understood
    assert "does not tell shadow" in plan(bench, "What share of the pixels is shadow by the quality band?").reason


def test_equations_of_numbers() -> None:
    bench = Bench(scene(np.ones((1, 2, 2)), ["red"]))
    wanted = {
        "solve 2*x + 3 = 7": 2,
        "Solve the equation x^2 = 2 for x between 0 and 2": 2**0.5,
        "What is the largest solution of x^2 - x - 6 = 0?": 3,
        "smallest solution of x^2 - x - 6 = 0": -2,
    }
    for text, value in wanted.items():
        assert answered(bench, text)[1].value == pytest.approx(value, rel=1e-9), text
    assert plan(bench, "solve x + y = 7").steps == ()
    assert plan(bench, "solve the housing crisis = 3").steps == ()


@pytest.mark.shared_data
def test_pictures_stand_beside_a_map(fields: tuple[Bench, dict[str, Array], NDArray[np.bool_]]) -> None:
    bench, p, valid = fields
    ndvi = (p["nir"][valid] - p["red"][valid]) / (p["nir"][valid] + p["red"][valid])
    made, found = answered(bench, "coloured map of NDVI in magma")
    assert f"{valid.sum():,} valid pixels" in found.text
    low, high = (float(v.replace("−", "-")) for v in re.findall(r"−?\d+\.\d+", found.text))
    assert low == pytest.approx(ndvi.min(), abs=1e-3) and high == pytest.approx(ndvi.max(), abs=1e-3)
    nodes: Any = made.steps[1].arguments["nodes"]
    assert nodes[-1]["params"] == {"colours": "magma"}
    made, found = answered(bench, "Mark the vegetation on the image")
    assert f"{int((ndvi > 0.4).sum()):,} of {valid.sum():,}" in found.text
    assert [s.tool for s in made.steps] == ["perceive", "execute"] and "person to look at" in made.warnings[-1]
    made, found = answered(bench, "annotate the image")
    assert found.value == "kept as a picture"


NEAR_MISSES = [
    "ratio of men to women", "ratio of nir to red in the forest", "mean of nir - red - blu", "nir red ratio map of the town",
    "nir + 2 apples", "histogram of the population", "histogram of NDVI by farmer", "chart of the unemployment",
    "Where is the centre of the town?", "centre of gravity of the economy", "Where does the river rise?",
    "Where does NDVI rise because of rain?", "share of significant pixels", "share of pixels with a trend in fashion",
    "solve the puzzle", "coloured map of the forest", "Mark the mayor on the image", "draw a conclusion", "plot the murder",
    "share of clear water", "What share of the sky is clear?", "annotate the text", "nir / red > 2",
]  # fmt: skip


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_is_not_answered(text: str) -> None:
    bench = Bench(scene(np.ones((4, 4, 4)), list(ROLES)))
    made = plan(bench, text)
    assert made.steps == (), made.understood
