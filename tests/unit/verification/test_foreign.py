"""What other tools' observations lack or have wrong: figures by hand, and right scenes of every kind that must not be refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.geo.grid import Grid
from apps.verification.checks import CHECKS
from apps.verification.checks.coverage import share_on
from apps.verification.checks.periods import period_of
from apps.verification.checks.resampled import power_of
from tests.shared import DATA, has_shared
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification import samples as s
from tests.unit.verification import samples_foreign as f
from tests.unit.verification.samples import NDVI, S, Sample, graph
from tests.unit.verification.samples_layers import over_landsat
from tests.unit.verification.test_judge import judged

needs_shared = pytest.mark.skipif(not has_shared(), reason="the data folder is absent")
EXCHANGED = "plausibility.red_and_nir_as_ground_reflects"
VISIBLE = ("blue", "green", "red", "nir")


# --- nothing to look at ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [*s.HONEST, s.none_so_green])
@pytest.mark.parametrize(
    "left_out", [("/inputs",), ("/arguments", "/arguments_passed"), ("/inputs", "/arguments", "/arguments_passed")]
)
def test_a_record_without_call_or_inputs_is_not_accepted(make: Any, left_out: tuple[str, ...]) -> None:
    bare = make().but({p: [] if p == "/inputs" else {} for p in left_out})
    _, decision = judged(bare)
    assert decision.decision != "accept", decision.p_correct
    if decision.decision == "request_evidence":
        assert {r.field for r in decision.requested} & {"/inputs", "/arguments"}


# --- red and near infrared -----------------------------------------------------------------------------------------------------
def in_bands(planes: dict[str, NDArray[Any]], *, exchange: bool = False, unit: str = "DN") -> Sample:
    names = {"red": "nir", "nir": "red"} if exchange else {}
    stored = np.stack([planes[r] for r in VISIBLE])
    info, pixels = scene(stored, [names.get(r, r) for r in VISIBLE], unit=unit, nodata=0)
    bench = Bench((info, pixels))
    nodes = graph(S, NDVI, ("out", "raster.summarize.statistic", ("i",), {}))
    return s.ask(bench, "What is the mean NDVI?", "number", "execute", nodes)


def shared_scenes() -> dict[str, dict[str, NDArray[Any]]]:
    """Fields, sea, forest in summer and winter, clouds, a city, a desert valley, a flood: all with blue, green, red, infrared."""

    def of(*at: tuple[str, int]) -> dict[str, NDArray[Any]]:
        out = {}
        for role, (name, index) in zip(VISIBLE, at, strict=True):
            with rasterio.open(DATA / name) as src:
                out[role] = np.nan_to_num(src.read(index)).astype(np.float64)
        return out

    def stack(name: str, *indices: int) -> dict[str, NDArray[Any]]:
        return of(*((name, i) for i in indices))

    many = "multispectral/"
    return {
        "sea": stack(many + "geopandas_s2a_l2a_fishbourne.tif", 1, 2, 3, 4),
        "forest": stack("change/landsat7_p15r32_2002-07-20.tif", 1, 2, 3, 4),
        "winter": stack("change/landsat7_p15r32_2002-11-25.tif", 1, 2, 3, 4),
        "clouds": of(*((f"{many}landsat8_cloudy/l8_B{k}.tif", 1) for k in (2, 3, 4, 5))),
        "valley": of(*((f"{many}landsat8_talca_2016/LC82320832016040LGN00_band{k}.tif", 1) for k in (2, 3, 4, 5))),
        "valley in reflectance": of(
            *((f"{many}landsat8_talca_2016/LC82320832016040LGN00_sr_band{k}.tif", 1) for k in (2, 3, 4, 5))
        ),
        "estuary": stack(many + "s2_l1c_crop512_13band_32618.tif", 2, 3, 4, 8),
        "flood": stack("water_flood/Spain_7370579_S2Hand.tif", 2, 3, 4, 8),
        "city": stack(many + "solaris_rotterdam_ms1_32631.tif", 1, 2, 3, 4),
    }


@needs_shared
def test_exchanged_bands_are_seen_in_every_scene_and_right_ones_never_blamed() -> None:
    for name, planes in shared_scenes().items():
        found = {e: CHECKS[EXCHANGED].look(in_bands(planes, exchange=e).case()) for e in (False, True)}
        assert (found[False].outcome, found[True].outcome) == ("passed", "failed"), (name, found[True].measured)


@needs_shared
def test_parts_of_right_scenes_are_not_blamed() -> None:
    """Windows of 64 pixels: sea alone, city alone, cloud alone, bare fields, forest."""
    n = 0
    for name, planes in shared_scenes().items():
        rows, columns = planes["red"].shape
        for r in range(0, rows - 63, 128):
            for c in range(0, columns - 63, 128):
                part = {k: v[r : r + 64, c : c + 64] for k, v in planes.items()}
                if np.logical_and.reduce([v > 0 for v in part.values()]).mean() < 0.5:
                    continue
                n += 1
                found = CHECKS[EXCHANGED].look(in_bands(part).case())
                assert found.outcome != "failed", (name, r, c, found.measured)
    assert n > 60


def test_bands_by_the_names_and_wavelengths_of_their_files() -> None:
    check = CHECKS["radiometry.bands_as_files_name_them"]
    right = (490.0, 560.0, 665.0, 842.0)
    assert check.look(f.named(("", "", "", ""), right).case()).outcome == "passed"
    for swapped in ((490.0, 560.0, 842.0, 665.0), (490.0, 560.0, 665.0, 1610.0)):
        assert check.look(f.named(("", "", "", ""), swapped).case()).outcome == "failed"
    for names in (("Blue", "Green", "NIR", "Red"), ("blue", "green", "near infrared", "red"), ("B2", "B3", "B8", "B4")):
        assert check.look(f.named(names).case()).outcome == "failed", names
    # an edge of red, a narrow infrared, positions and a name that says two things are no other role
    for names in (("1", "2", "3", "4"), ("band 1", "band 2", "band 3", "band 4"), ("", "", "red or nir", "NIR narrow"), f.NAMES):
        assert check.look(f.named(names).case()).outcome in ("passed", "not_applicable"), names


# --- pixels of another size --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("expression", "power"),
    [("m * n", 1), ("n * 900", 1), ("n / k", 0), ("m + 1", 0), ("m * n / k", 0), ("sqrt(n)", 1), ("n * k", 2),
     ("-(n)", 1), ("m *", None)],
)  # fmt: skip
def test_how_often_a_formula_holds_the_number_of_pixels(expression: str, power: int | None) -> None:
    assert power_of(expression, {"n": 1, "k": 1, "m": 0}) == power


def times_count(at: dict[str, Any] | None, expression: str) -> Sample:
    nodes: list[Any] = [("r", "raster.product.reproject", ("i",), at)] if at else []
    over = "r" if at else "i"
    nodes += [
        ("m", "raster.summarize.statistic", (over,), {"statistic": "mean"}),
        ("n", "raster.summarize.statistic", (over,), {"statistic": "count"}),
        ("out", "value.calculate", ("m", "n"), {"expression": expression}),
    ]
    return over_landsat("What is the sum of NDVI at 90 m?", *nodes)


def test_a_mean_times_a_count_is_a_sum() -> None:
    check = CHECKS["consistency.sum_over_measured_pixels"]
    coarse = times_count({"resolution": 90, "method": "average"}, "m * n")
    own = times_count(None, "m * n")
    # nine times fewer pixels make a ninth of the sum
    assert float(str(own.observation.result.value)) / float(str(coarse.observation.result.value)) == pytest.approx(9, rel=0.02)
    assert check.look(own.case()).outcome == "passed"
    assert check.look(coarse.case()).outcome == "failed"
    assert check.look(times_count({"resolution": 90, "method": "average"}, "m + 0 * m").case()).outcome == "not_applicable"


def test_averaged_pixels_differ_less_and_that_is_said() -> None:
    check = CHECKS["consistency.spread_over_measured_pixels"]
    own, coarse = f.deviation(), f.coarse_deviation()
    assert float(str(coarse.observation.result.value)) < 0.95 * float(str(own.observation.result.value))
    assert check.look(own.case()).outcome == "passed"
    found = check.look(coarse.case())
    assert (found.outcome, found.severity) == ("failed", None)
    assert check.look(f.asked(coarse, "What is the standard deviation of NDVI at 90 m?").case()).outcome == "passed"
    smoothed = f.deviation(("g", "raster.product.focal", ("i",), {"statistic": "mean", "size": 5}))
    assert check.look(smoothed.case()).outcome == "failed"
    assert judged(smoothed)[1].decision == "reject"


# --- places and periods --------------------------------------------------------------------------------------------------------
def test_the_share_of_a_region_on_an_image_is_that_of_their_rectangles() -> None:
    grid = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0), width=100, height=50)

    def box(west: float, south: float, east: float, north: float) -> dict[str, Any]:
        return {"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]]}

    # the image reaches from 600,000 to 601,000 and from 5,599,500 to 5,600,000
    assert share_on(box(600500, 5599600, 601500, 5599900), "EPSG:32630", grid) == pytest.approx(0.5)
    assert share_on(box(599000, 5599000, 602000, 5601000), "EPSG:32630", grid) == pytest.approx(1000 * 500 / (3000 * 2000))
    assert share_on(box(0, 0, 400, 50), "image", grid) == pytest.approx(0.25)
    assert share_on(box(700000, 5599600, 701000, 5599900), "EPSG:32630", grid) == 0


@pytest.mark.parametrize(("right", "decision"), [(80, "accept"), (82, "accept"), (140, "reject")])
def test_a_region_beside_the_image_has_no_figure(right: int, decision: str) -> None:
    """Columns 60 to 140 of an image that has 80: a quarter of them."""
    made = f.in_region(60, right)
    assert judged(made)[1].decision == decision
    found = CHECKS["completeness.region_on_the_images"].look(made.case())
    assert found.measured == pytest.approx(20 / (right - 60))
    told = [line.message for line in made.observation.status.log if "of the region lies on" in line.message]
    assert [t.split(" % ")[0] for t in told] == {80: [], 82: ["90.9"], 140: ["25"]}[right]


def test_a_southern_file_taken_for_a_northern_one() -> None:
    """Sinop lies at 11.9 degrees south, northing 8,684,000 of zone 21 south; called north, it lies at 78 degrees north."""
    info, pixels = scene(np.ones((1, 60, 80)) * 5, ["nir"], crs="EPSG:32621", origin=(655000.0, 8684000.0))
    place = {
        "type": "Polygon",
        "coordinates": [[[-55.58, -11.91], [-55.57, -11.91], [-55.57, -11.90], [-55.58, -11.90], [-55.58, -11.91]]],
    }
    bench = Bench((info, pixels))
    nodes = graph(S, ("b", "raster.product.band", ("s1",), {"role": "nir"}), ("out", "raster.summarize.statistic", ("b",), {}))
    made = s.ask(bench, "What is the mean of the nir band?", "number", "execute", nodes)
    there = made.but(question=bench.question.model_copy(update={"region": place, "region_crs": "EPSG:4326"}))
    found = CHECKS["completeness.region_on_the_images"].look(there.case())
    assert found.outcome == "failed"
    assert "other side of the equator" in found.message
    # files of Landsat have negative northings south of the equator, and tiles reach a little over it
    for crs, north in (("EPSG:32630", -7_000_000.0), ("EPSG:32730", 4_410_000.0), ("EPSG:32631", 0.0)):
        assert CHECKS["geometry.scene_where_its_crs_is"].look(f.moved_north(north, crs).case()).outcome == "passed", crs
    for crs, north in (("EPSG:32730", 5_000_000.0), ("EPSG:32630", 4_000_000.0)):
        assert CHECKS["geometry.scene_where_its_crs_is"].look(f.moved_north(north, crs).case()).outcome == "failed", crs


@pytest.mark.parametrize(
    ("text", "is_south", "wanted"),
    [
        ("2014", False, (date(2014, 1, 1), date(2014, 12, 31))),
        ("summer 2014", False, (date(2014, 6, 1), date(2014, 8, 31))),
        ("summer 2014", True, (date(2013, 12, 1), date(2014, 2, 28))),
        ("2014 winter", False, (date(2013, 12, 1), date(2014, 2, 28))),
        ("DJF 2016", False, (date(2015, 12, 1), date(2016, 2, 29))),
        ("November 2013", False, (date(2013, 11, 1), date(2013, 11, 30))),
        ("2013-12", False, (date(2013, 12, 1), date(2013, 12, 31))),
        ("2013-12-19", False, None),
        ("zone 2014b", False, None),
    ],
)
def test_periods_by_their_names(text: str, is_south: bool, wanted: Any) -> None:
    assert period_of(text, is_south=is_south) == wanted


@pytest.mark.parametrize(
    ("period", "outcome"),
    [("summer 2014", "passed"), ("November 2013", "passed"), ("spring 2013", "passed"), ("2013", "failed"), ("2015", "failed"),
     ("winter 2014", "failed"), ("March 2014", "failed")],
)  # fmt: skip
def test_figures_of_periods_without_dates(period: str, outcome: str) -> None:
    """At Sinop, dates of September to January: southern spring and most of summer, but not a year."""
    assert CHECKS["completeness.periods_have_dates"].look(f.of_periods(period).case()).outcome == outcome


def test_lost_features_are_told_with_their_number() -> None:
    check = CHECKS["completeness.features_lost_are_told"]
    assert check.look(s.zoned().case()).outcome == "passed"
    assert check.look(f.with_lost(n_lost=2).case()).outcome == "inconclusive"
    assert check.look(f.with_lost(dropped={"empty": 1}).case()).outcome == "passed"


def test_points_beside_polygons_are_left_out_with_a_word() -> None:
    bench = Bench(s.optical())
    held = [s._outline(bench, s._corners(*at), name=name) for name, at in s.ZONES.items()]
    point = {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [600000.0, 5600000.0]},
        "properties": {"name": "well"},
    }
    ref = bench.layers.put_features([*held, point], kind="polygons", crs="EPSG:32630", label="mixed.geojson")
    nodes = graph(
        S, NDVI, ("z", "vector.zones", (), {"vector": ref.artifact, "skip_others": True}),
        ("out", "raster.summarize.zonal", ("i", "z"), {"statistic": "mean", "pick": "max"}),
    )  # fmt: skip
    made = s.ask(bench, "Which of the fields has the highest NDVI?", "class", "execute", nodes)
    assert any("1 of 3 features are no polygons" in line.message for line in made.observation.status.log)
    assert CHECKS["completeness.features_lost_are_told"].look(made.case()).outcome == "passed"
    assert judged(made)[1].decision == "accept"


# --- another metric ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "text", "outcome", "severity"),
    [
        (s.counted, "How much area do trees cover?", "failed", None),
        (s.area, "How many fields have NDVI above 0.4?", "failed", None),
        (s.area, "What share has NDVI above 0.4?", "passed", None),
        (s.counted, "What share is covered by trees?", "failed", "warn"),
        (s.counted, "How many trees are there, and how much area do they cover?", "failed", "warn"),
        (s.area, "How many hectares have NDVI above 0.4?", "passed", None),
    ],
)
def test_a_figure_of_another_metric_is_no_answer(make: Any, text: str, outcome: str, severity: str | None) -> None:
    found = CHECKS["contract.metric_as_asked"].look(f.asked(make(), text).case())
    assert (found.outcome, found.severity) == (outcome, severity)


# --- one thing wrong beside the value ----------------------------------------------------------------------------------------
AT = "/evidence/intermediate"
BESIDE: dict[str, tuple[Any, dict[str, Any]]] = {
    "a trend of an index in kelvins": (s.trend, {"/result/unit": "K/year"}),
    "a trend of an index in per cent": (s.trend, {"/result/unit": "%/year"}),
    "a change of an index in metres": (s.change, {"/result/unit": "m"}),
    "a change of an index in per cent": (s.change, {"/result/unit": "%"}),
    "a quotient of two bands in hectares": (s.quotient, {"/result/unit": "ha"}),
    "more pixels in the region than are told of": (s.mean, {f"{AT}/n_region_px": 5000}),
    "the pixels of another mask": (s.area, {f"{AT}/numerator": 2600}),
    "a denominator of another scene": (s.area, {f"{AT}/denominator": 4800}),
    "a count of another run": (s.near_the_road, {f"{AT}/numerator": 3}),
    "the square metres of another island": (s.drawn_island, {f"{AT}/numerator": 135.0}),
    "a sum of other distances": (s.apart, {f"{AT}/numerator": 70.0}),
    "the number of other distances": (s.apart, {f"{AT}/denominator": 5}),
    "a least value of another zone": (s.zoned, {"/result/items/0/min": -0.9}),
    "a deviation of another zone": (s.zoned, {"/result/items/0/std": 0.9}),
    "valid pixels of another zone": (s.zoned, {"/result/items/0/n_valid": 200}),
    "a layer of another scene": (s.area, {"/result/layers/0/source_scene_id": "other"}),
    "a vector file in another CRS": (s.near_the_road, {"/inputs/0/crs": "EPSG:3857"}),
    "a mask on another grid": (lambda: s.measured("area"), {"/inputs/0/size_px": [81, 60]}),
    "an error in the log": (s.mean, {"/status/log": [{"at_s": 0.1, "level": "error", "message": "band 4 was not read"}]}),
    "another index": (s.mean, {"/result/quantity": "ndwi"}),
    "other pixels of a date": (s.series, {"/result/items/2/n_valid": 4692}),
    "more pixels of a date than its scene has": (s.trend, {"/result/items/2/n_valid": 48000}),
    "other pixels of all dates": (s.series, {f"{AT}/valid_px": 24000}),
    "both dates' pixels for a change": (s.change, {f"{AT}/valid_px": 9600}),
    "a change of more pixels than a date": (s.change, {f"{AT}/nodes/2/n_valid": 3000}),
    "pixels for shapes on the ground": (s.drawn_island, {"/result/unit": "px"}),
    "the formula of another index": (s.mean, {"/evidence/source/formulas/i": "(green - nir) / (green + nir)"}),
    "a formula without brackets": (s.mean, {"/evidence/source/formulas/i": "nir - red / nir + red"}),
    "a formula under its name": (s.mean, {"/evidence/source/formulas/NDVI": "NDVI = (Red - NIR) / (NIR + Red)"}),
    "a threshold of another formula": (s.area, {"/evidence/source/formulas/m": "ndvi > 0.3"}),
    "a change told backwards": (s.change, {"/evidence/source/formulas/d": "before - after, of (nir - red) / (nir + red)"}),
    "water by a formula of vegetation": (s.water, {"/evidence/source/method/formula": "(nir - red) / (nir + red)"}),
    "pieces that a mask has not": (s.water, {f"{AT}/pieces/1/px": 73}),
}


@pytest.mark.parametrize("name", sorted(BESIDE))
def test_one_thing_wrong_beside_a_right_value_is_not_accepted(name: str) -> None:
    make, changes = BESIDE[name]
    assert judged(make())[1].decision == "accept"
    assert judged(make().but(changes))[1].decision == "reject"


def test_a_loss_is_no_change() -> None:
    """NDVI falls from July to November: the change is below zero, before less after above it."""
    pair = (("a", s.BEFORE, "2002-07-20"), ("b", s.AFTER, "2002-11-25"))

    def told(text: str, mode: str) -> Sample:
        nodes = graph(
            ("s1", "asset.scene", (), {"scene": "a"}),
            ("s2", "asset.scene", (), {"scene": "b"}),
            ("i", "raster.product.index", ("s1",), {"index": "ndvi"}),
            ("j", "raster.product.index", ("s2",), {"index": "ndvi"}),
            ("d", "raster.product.difference", ("i", "j"), {"mode": mode}),
            ("out", "raster.summarize.statistic", ("d",), {}),
        )
        held = [s.cut(path, s.LANDSAT7, s.VALLEY, scene_id=i, date=day) for i, path, day in pair]
        return s.ask(Bench(*held), text, "number", "execute", nodes)

    change, loss = "What is the mean NDVI change from July to November?", "How much NDVI was lost from July to November?"
    assert float(str(told(change, "difference").observation.result.value)) < 0
    assert judged(told(change, "difference"))[1].decision == "accept"
    assert judged(told(change, "loss"))[1].decision == "reject"
    assert judged(told(loss, "loss"))[1].decision == "accept"


def test_no_check_that_warns_says_that_it_blocks() -> None:
    """What a check that only warns calls blocking would be a warning all the same."""
    folder = Path(__file__).resolve().parents[3] / "apps" / "verification" / "checks"
    assert [p.name for p in folder.glob("*.py") if 'severity="block"' in p.read_text() and p.name != "catalogue.py"] == []
    assert CHECKS["contract.target_as_asked"].severity == CHECKS["completeness.log_without_errors"].severity == "block"


@pytest.mark.parametrize("how", ["axes", "upside down", "lattice"])
def test_boxes_that_lie_beside_what_they_are_of(how: str) -> None:
    assert judged(f.turned(how))[1].decision == "reject"


def test_lattices_of_any_pitch_are_seen() -> None:
    """Boxes on nothing part the picture as other boxes on nothing do; one lattice in so many may lie on crowns by chance."""
    check, found = CHECKS["geometry.boxes_where_the_picture_parts"], []
    for pitch in (24, 32, 40, 50, 64):
        for start in (0, 5, 11):
            at = [(x, y) for x in range(start, 380 - pitch // 2, pitch) for y in range(start, 380 - pitch // 2, pitch)]
            boxes = [s.scored((x, y, x + pitch // 2, y + pitch // 2), 0.8) for x, y in at]
            found.append(check.look(s.found_instead(boxes).case()).outcome)
    assert found.count("failed") >= 12, found


def test_boxes_of_a_person_and_of_the_finder_lie_on_crowns() -> None:
    check = CHECKS["geometry.boxes_where_the_picture_parts"]
    for made in (s.found(), f.turned("right"), s.objects(), s.objects(s.trees()[::2]), s.objects(s.trees()[:20])):
        assert check.look(made.case()).outcome == "passed"
    # of a few nothing can be told
    assert check.look(s.objects(s.trees()[:9]).case()).outcome == "not_applicable"


def test_a_date_with_pixels_has_a_value() -> None:
    assert judged(s.series().but({"/result/items/1/value": None}))[1].decision == "reject"


# --- right figures of a call that does not answer the question ---------------------------------------------------------------
def after(*nodes: Any, statistic: str = "mean", text: str = "What is the mean NDVI?") -> Sample:
    over = nodes[-1][0] if nodes else "i"
    out = ("out", "raster.summarize.statistic", (over,), {"statistic": statistic})
    return s.ask(Bench(s.optical()), text, "number", "execute", graph(S, NDVI, *nodes, out))


def calculated(expression: str) -> Sample:
    mean = ("m", "raster.summarize.statistic", ("i",), {"statistic": "mean"})
    nodes = graph(S, NDVI, mean, ("out", "value.calculate", ("m",), {"expression": expression}))
    return s.ask(Bench(s.optical()), "What is the mean NDVI?", "number", "execute", nodes)


def math_of(expression: str) -> tuple[Any, ...]:
    return "g", "raster.product.math", ("i",), {"expression": expression, "range": [-200, 200]}


OTHERWISE: dict[str, Any] = {
    "turned round": lambda: f.by_formula("(red - nir) / (red + nir)"),
    "green for red": lambda: f.by_formula("(nir - green) / (nir + green)"),
    "without brackets": lambda: f.by_formula("nir - red / nir + red"),
    "a ratio": lambda: f.by_formula("nir / red"),
    "times a hundred": lambda: after(math_of("i * 100")),
    "without its sign": lambda: after(math_of("abs(i)")),
    "of neighbours": lambda: after(("g", "raster.product.focal", ("i",), {"statistic": "max", "size": 3})),
    "less than one": lambda: calculated("1 - m"),
    "in per cent": lambda: calculated("m * 100"),
    "an extreme of means": lambda: after(
        ("g", "raster.product.reproject", ("i",), {"resolution": 60, "method": "average"}),
        statistic="max", text="What is the maximum NDVI?"),
    "another percentile": lambda: f.percentile(10),
    "another band": lambda: f.by_formula("red", "What is the mean of the nir band?"),
    "of the green pixels alone": lambda: after(
        ("t", "raster.product.threshold", ("i",), {"op": ">", "value": 0.4}),
        ("g", "raster.product.apply_mask", ("i", "t"), {})),
    "water where NDWI is low": lambda: s.ask(
        Bench(s.optical()), "How many hectares of water are there?", "area", "perceive",
        s.water_by(kind="index_threshold", index="ndwi", threshold=0.0, side="below")),
    "water where NDVI is high": lambda: s.ask(
        Bench(s.optical()), "How many hectares of water are there?", "area", "perceive",
        s.water_by(kind="index_threshold", index="ndvi", threshold=0.0, side="above")),
    "a share for hectares": lambda: f.asked(s.share(), "How many hectares have NDVI above 0.4?"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(OTHERWISE))
def test_a_right_figure_of_something_else_is_not_accepted(name: str) -> None:
    assert judged(OTHERWISE[name]())[1].decision == "reject"


@pytest.mark.parametrize(
    "make",
    [
        lambda: f.by_formula("(nir - red) / (nir + red)"),
        lambda: f.by_formula("1 - 2 * red / (nir + red)"),
        lambda: f.by_formula("nir / red", "What is the mean of nir over red?"),
        lambda: f.percentile(90),
        lambda: after(math_of("i * 100"), text="What is the mean of NDVI times 100?"),
        lambda: after(
            ("t", "raster.product.threshold", ("i",), {"op": ">", "value": 0.4}),
            ("g", "raster.product.apply_mask", ("i", "t"), {}),
            text="What is the mean NDVI where NDVI is above 0.4?",
        ),
    ],
)
def test_other_ways_to_the_same_figure_are_not_blamed(make: Any) -> None:
    """The second formula is NDVI, written in another way."""
    assert judged(make())[1].decision == "accept"


def test_a_series_of_seasons_holds_all_of_its_dates() -> None:
    """Sinop lies in the south: September to mid November are of spring, December and January of summer."""
    check = CHECKS["completeness.series_covers_scenes"]
    assert check.look(f.of_periods("spring 2013", "summer 2014").case()).outcome == "passed"
    assert check.look(f.of_periods("spring 2013").case()).outcome == "failed"
    assert check.look(f.of_periods("spring 2013", "spring 2013", "summer 2014").case()).outcome == "failed"


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("What is the trend of NDVI from 2010 to 2014?", "reject"),
        ("What is the trend of NDVI between January 2013 and December 2014?", "reject"),
        ("What is the trend of NDVI per year from 2013-09-14 to 2014-01-17?", "accept"),
        ("What is the trend of NDVI from September 2013 to January 2014?", "accept"),
    ],
)
def test_a_trend_of_a_part_is_none_of_the_span(text: str, decision: str) -> None:
    """Five dates from September 2013 to January 2014: four months, of five years and of two."""
    found = CHECKS["completeness.periods_have_dates"].look(f.asked(s.trend(), text).case())
    assert (found.outcome, found.severity) == (("passed", None) if decision == "accept" else ("failed", None)), found.message
    assert judged(f.asked(s.trend(), text))[1].decision == decision


def test_pieces_are_joined_as_the_record_tells() -> None:
    """Water of two pieces by corners; scipy's own labels by sides and by corners."""
    made = s.measured("boolean").but()
    mask, valid = made.bench.layers.read_mask(s.water().observation.result.layers[0])
    by_side, by_corner = ndimage.label(mask & valid)[1], ndimage.label(mask & valid, structure=np.ones((3, 3)))[1]
    assert by_side > by_corner
    count = {"/result/kind": "count", "/result/unit": "1", "/result/value": by_corner}
    check = CHECKS["consistency.pieces_recount"]
    assert check.look(made.but(count).case()).outcome == "passed"
    assert check.look(made.but(count | {"/result/value": by_side}).case()).outcome == "failed"
    four = {"/evidence/intermediate/connectivity": 4, "/result/value": by_side}
    assert check.look(made.but(count | four).case()).outcome == "passed"
