"""Right observations of kinds that a check once took for faults pass, and the fault that the check is for still fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyproj import Geod
from scipy import stats

from apps.core.geo.grid import Grid
from apps.verification import words
from apps.verification.checks import CHECKS, Limits, run_checks
from tests.unit.tools import test_operator_matrix as matrix
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification import samples as s
from tests.unit.verification import samples_densities as d
from tests.unit.verification.samples import Sample

EMPTY_PART = "plausibility.no_empty_part_like_the_rest"


def scattered(xy: Any) -> Sample:
    """Trees of 5 px in the photo of the forest (400 × 400 px), whose upper left corners are these."""
    made = s.found()
    boxes = [s.box(float(x), float(y), float(x) + 5, float(y) + 5) for x, y in xy]
    ref = made.bench.layers.put_features(boxes, kind="boxes", crs="image", label="tree", scene_id="s")
    result = made.observation.result.model_copy(update={"layers": (ref, *made.observation.result.layers[1:])})
    return made.but(observation=made.observation.model_copy(update={"result": result}))


def alarms(n: int, draws: int, limits: Limits) -> int:
    rng = np.random.default_rng(n)
    made = (scattered(rng.uniform(0, 395, (n, 2))).but(limits=limits) for _ in range(draws))
    found = [CHECKS[EMPTY_PART].look(m.case()).outcome for m in made]
    assert set(found) <= {"passed", "failed"}
    return found.count("failed")


# --- a quarter that is empty -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("n", "draws"), [(40, 100), (240, 60), (400, 60), (3000, 10)])
def test_detections_spread_evenly_raise_no_alarm(n: int, draws: int) -> None:
    assert alarms(n, draws, Limits()) == 0


@pytest.mark.parametrize("n", [60, 400])
def test_the_chance_of_an_alarm_is_the_one_that_is_stated(n: int) -> None:
    """However little of a quarter counts as empty: at most a twentieth of 200 draws, give or take three of its deviations."""
    level, draws = 0.05, 200
    found = alarms(n, draws, Limits(empty_part_chance=level, empty_part_share=1.0))
    assert 0 < found <= level * draws + 3 * (draws * level * (1 - level)) ** 0.5


@pytest.mark.parametrize("n", [60, 400, 3000])
def test_a_quarter_that_was_not_looked_at_is_told_at_any_number(n: int) -> None:
    xy = np.random.default_rng(n).uniform(0, 395, (n, 2))
    # what reaches over the edge of the part that was lost is still there
    for edge in (197.5, 190.0):
        rest = xy[~((xy < edge).all(axis=1))]
        found = CHECKS[EMPTY_PART].look(scattered(rest).case())
        assert found.outcome == "failed", found.message
        assert "upper left" in found.message


def test_a_quarter_with_half_as_many_was_looked_at() -> None:
    """1,000 of an orchard in three quarters and 167 in the fourth are far beyond chance, and no sign of a lost tile."""
    rng = np.random.default_rng(4)
    xy = rng.uniform(0, 395, (1333, 2))
    thin = (xy < 197.5).all(axis=1) & (rng.uniform(size=len(xy)) < 0.5)
    assert CHECKS[EMPTY_PART].look(scattered(xy[~thin]).case()).outcome == "passed"


def blamed(sample: Sample) -> list[str]:
    """Checks that block, or cannot tell."""
    found, _ = run_checks(sample.case())
    return [c.check for c in found if c.outcome in ("failed", "errored", "inconclusive") and c.severity == "block"]


# --- densities ---------------------------------------------------------------------------------------------------------------
@pytest.mark.ml
def test_trees_per_hectare_and_vehicles_per_square_kilometre() -> None:
    """By hand: the forest is 40 m on a side; a pixel of the street is 0.1500 m by 0.1498 m on the map of UTM 13."""
    trees, cars = d.forest(), d.cars()
    n_trees, n_cars = (x.observation.evidence.intermediate["numerator"] for x in (trees, cars))
    assert n_trees == len(s.found_boxes())
    assert n_cars == len(cars.bench.layers.read_features(cars.history[0].result.layers[0])) > 0
    assert trees.observation.result.value == pytest.approx(float(n_trees) / 0.16, rel=1e-3)  # type: ignore[arg-type]
    grid = cars.bench.question.scenes[0].grid
    street_km2 = grid.width * grid.height * abs(grid.transform[0] * grid.transform[4]) / 1e6
    assert cars.observation.result.value == pytest.approx(float(n_cars) / street_km2, rel=1e-3)  # type: ignore[arg-type]
    for one, unit in ((trees, "1/ha"), (cars, "1/km2")):
        assert (one.observation.result.kind, one.observation.result.unit) == ("ratio", unit)
        assert blamed(one) == []


def test_densities_that_are_none() -> None:
    name = "consistency.density_recomputes"
    right = d.forest()
    wrong = {
        "in another unit": right.but({"/result/unit": "1/km2"}),
        "times a hundred": right.but({"/result/value": float(str(right.observation.result.value)) * 100}),
        "five trees more": d.over(right, things=5),
        "half of the ground": d.over(right, ground=0.5),
    }
    found = {what: CHECKS[name].look(one.case()).outcome for what, one in wrong.items()}
    assert found == dict.fromkeys(wrong, "failed")
    for unit in ("1", "%", "ha", "km2"):
        assert "contract.unit_fits_kind" in blamed(right.but({"/result/unit": unit}))
    # and a share is no density
    assert "contract.unit_fits_kind" in blamed(s.share().but({"/result/unit": "1/ha"}))


def test_ground_that_holds_no_pixel_is_not_divided_by() -> None:
    """Half of the forest is fill: trees per hectare of what was seen stand on 0.08 ha, and over 0.16 ha they are refused."""
    seen = d.half_seen()
    n = float(str(seen.observation.evidence.intermediate["numerator"]))
    assert seen.observation.result.value == pytest.approx(n / 0.08, rel=1e-3)
    assert "consistency.density_recomputes" not in blamed(seen)
    whole = d.half_seen("scene")
    assert whole.observation.result.value == pytest.approx(n / 0.16, rel=1e-3)
    assert "consistency.density_recomputes" in blamed(whole)


def of_sites(region: dict[str, Any] | None) -> Any:
    """measure density of four sites in a vector file, of which three lie in the region."""
    bench = Bench(s.cut(s.FISHBOURNE, s.ROLES, s.COAST), region=region)
    corners = [(-0.80, 50.80), (-0.79, 50.81), (-0.75, 50.84), (-0.2, 50.9)]
    features = [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": list(c)}, "properties": {}} for c in corners
    ]
    digest = bench.layers.put_features(features, kind="points", crs="EPSG:4326", label="sites").artifact
    call = {
        "sources": [{"name": "sites", "mode": "extent", "vector": digest}],
        "spec": {"metric": "density", "subject": "sites", "unit": "1/km2"},
    }
    return bench, bench.call("measure", call)


def test_the_density_of_a_file_stands_on_a_region_or_is_asked_back() -> None:
    ring = [(-0.9, 50.7), (-0.6, 50.7), (-0.6, 50.9), (-0.9, 50.9), (-0.9, 50.7)]
    bench, made = of_sites({"type": "Polygon", "coordinates": [[list(xy) for xy in ring]]})
    area_m2 = abs(Geod(ellps="WGS84").polygon_area_perimeter([x for x, _ in ring], [y for _, y in ring])[0])
    assert made.result.value == pytest.approx(3 / area_m2 * 1e6, rel=2e-3)
    sample = Sample(made, bench, question=bench.question, has_reader=False)
    assert "consistency.density_recomputes" not in blamed(sample)
    assert CHECKS["consistency.density_recomputes"].look(sample.case()).outcome == "passed"
    assert CHECKS["consistency.density_recomputes"].look(d.over(sample, ground=0.9).case()).outcome == "failed"
    _, nowhere = of_sites(None)
    assert (nowhere.status.needs["code"], nowhere.status.needs["abstained"]) == ("NEEDS_REGION", True)
    assert nowhere.result.value is None
    assert "which area" in nowhere.status.reason


# --- operators, one by one ---------------------------------------------------------------------------------------------------
def clear_dates(grid: Grid, names: set[str]) -> list[Any]:
    """The matrix's scenes of these names, all of them when none is named, without a cloud; each a file of its own."""
    out = []
    for k, (info, planes) in enumerate(matrix.all_dates(grid=grid)):
        planes[8] = np.where(planes[8] == 8.0, 64.0, planes[8])
        if not names or info.scene_id in names:
            out.append((info.model_copy(update={"artifact": f"sha256:{k:064d}"}), planes))
    return out


def needed(nodes: matrix.Nodes) -> matrix.Nodes:
    """The nodes that the last one is made from, and itself."""
    held, todo, seen = {n[0]: n for n in nodes}, [nodes[-1][0]], set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += list(held[name][2])
    return [n for n in nodes if n[0] in seen]


def run_over(nodes: matrix.Nodes, grid: Grid) -> Sample | None:
    """The observation of an honest run; None where the operator refuses it with a reason."""
    nodes = needed(nodes)
    bench = Bench(*clear_dates(grid, {str(n[3]["scene"]) for n in nodes if n[1] == "asset.scene"}))
    made = bench.execute(nodes, nodes[-1][0])
    return Sample(made, bench, question=bench.question) if made.status.state == "ok" else None


@pytest.mark.parametrize("place", ["UTM", "DEGREES", "TURNED", "PLAIN"])
def test_no_operator_run_honestly_is_blocked(place: str) -> None:
    """EVI is left out: the matrix's near infrared reaches a reflectance of 5, which no ground has."""
    bad, n = {}, 0
    for one in matrix.CASES:
        _, nodes = one.values
        if nodes[-1][3].get("index") == "evi":  # type: ignore[index]
            continue
        made = run_over(nodes, getattr(matrix, place))  # type: ignore[arg-type]
        n += made is not None
        if made is not None and (found := blamed(made)):
            bad[one.id] = found
    assert bad == {}
    assert n > 60


STATISTICS = ("mean", "median", "min", "max", "std", "percentile", "sum", "count", "range", "cv", "skewness", "kurtosis",
              "variance", "iqr")  # fmt: skip


@pytest.mark.parametrize("of", ["ndvi", "lst", "nir", "elevation"])
def test_no_statistic_of_an_honest_run_is_blocked(of: str) -> None:
    source = "i0" if of == "ndvi" else of
    bands = [] if of == "ndvi" else [(of, "raster.product.band", ["a0"], {"role": of})]
    bad = {}
    for statistic in STATISTICS:
        params = {"statistic": statistic} | ({"percentile": 90} if statistic == "percentile" else {})
        made = run_over([*matrix.BASE, *bands, ("out", "raster.summarize.statistic", [source], params)], matrix.UTM)
        if made is None:  # temperatures do not add up
            assert (of, statistic) == ("lst", "sum")
            continue
        if found := blamed(made):
            bad[statistic] = found, made.observation.result.value, made.observation.result.unit
    assert bad == {}


def ndvi_statistic(statistic: str) -> Sample:
    made = run_over([*matrix.BASE, ("out", "raster.summarize.statistic", ["i0"], {"statistic": statistic})], matrix.UTM)
    assert made is not None
    return made


@pytest.mark.parametrize("statistic", ["mean", "min", "max", "sum", "range", "variance", "iqr"])
def test_statistics_of_an_index_that_was_scaled_wrongly_are_blocked(statistic: str) -> None:
    """Ten thousand times what it is, as where one band of two was scaled."""
    made = ndvi_statistic(statistic)
    value = float(str(made.observation.result.value))
    assert CHECKS["radiometry.index_in_range"].look(made.case()).outcome == "passed"
    assert "radiometry.index_in_range" in blamed(made.but({"/result/value": value * 1e4}))


def test_units_that_no_source_and_no_table_has() -> None:
    """Sen's slope over the dates of a series, the square of a variance, what a retrieval gives and what the file says are units;
    a morgen is none."""
    name = "contract.unit_known"
    sen = run_over([*matrix.BASE, *matrix.out("raster.summarize.series_analysis", matrix.NDVIS, analysis="sen")], matrix.UTM)
    assert sen is not None and sen.observation.result.unit == "1/date"
    assert sen.observation.result.value == pytest.approx(
        stats.theilslopes([float(str(i["value"])) for i in sen.observation.result.items])[0]
    )
    for unit in ("1/date", "K2", "DN2", "FNU", "1/K", "MW/km2", "g/cm2", "FNU/year"):
        assert CHECKS[name].look(sen.but({"/result/unit": unit}).case()).outcome == "passed", unit
    for unit in ("1/fortnight", "morgen", "furlong2", "", "mol/m2"):
        assert CHECKS[name].look(sen.but({"/result/unit": unit}).case()).outcome == "failed", unit
    # a file that says mol/m2 is taken at its word
    assert sen.question is not None
    scenes = tuple(
        i.model_copy(update={"bands": tuple(b.model_copy(update={"unit": "mol/m2"}) for b in i.bands)})
        for i in sen.question.scenes
    )
    own = sen.but({"/result/unit": "mol/m2/year"}, question=sen.question.model_copy(update={"scenes": scenes}))
    assert CHECKS[name].look(own.case()).outcome == "passed"


def test_a_centre_counts_the_pixels_that_it_could_see() -> None:
    nodes = [*matrix.BASE, *matrix.MASKS, *matrix.out("raster.summarize.centroid", ["m0"])]
    made = run_over(nodes, matrix.UTM)
    assert made is not None
    planes, hole = matrix.stored_of(0)
    told = made.observation.evidence.intermediate
    assert told["valid_px"] == (~hole).sum()
    with np.errstate(invalid="ignore"):
        ndvi = (planes[1] - planes[0]) / (planes[1] + planes[0])
    rows, columns = np.nonzero((ndvi > 0.4) & ~hole)
    assert made.observation.result.items[0]["column"] == pytest.approx(columns.mean() + 0.5)
    assert made.observation.result.items[0]["row"] == pytest.approx(rows.mean() + 0.5)
    assert "consistency.valid_count_recomputes" in blamed(made.but({"/evidence/intermediate/valid_px": matrix.H * matrix.W}))
    plain = run_over(nodes, matrix.PLAIN)
    assert plain is not None
    assert plain.observation.result.value == f"column {columns.mean() + 0.5:.1f}, row {rows.mean() + 0.5:.1f}"


# --- nothing changed, nothing written ----------------------------------------------------------------------------------------
def compared(*days: int) -> Sample:
    """perceive change of these dates of the matrix; a day that stands twice is one file under two names."""
    scenes = []
    for name, day in zip(("before", "after"), days, strict=True):
        info, planes = clear_dates(matrix.UTM, {f"s{day}"})[0]
        scenes.append((info.model_copy(update={"scene_id": name}), planes))
    call = {"image_paths": ["before", "after"], "objective": "change", "mode": "change"}
    return s.ask(Bench(*scenes), "What has changed?", "layer", "perceive", call)


def difference(*days: int) -> Sample:
    info = [clear_dates(matrix.UTM, {f"s{day}"})[0] for day in days]
    scenes = [(i.model_copy(update={"scene_id": n}), p) for n, (i, p) in zip(("a", "b"), info, strict=True)]
    nodes = [
        *((f"s{n}", "asset.scene", (), {"scene": n}) for n in "ab"),
        *((f"i{n}", "raster.product.index", [f"s{n}"], {"index": "ndvi"}) for n in "ab"),
        ("d", "raster.product.difference", ["ia", "ib"], {}),
        ("v", "raster.summarize.statistic", ["d"], {"statistic": "mean"}),
    ]
    bench = Bench(*scenes)
    return Sample(bench.execute(nodes, "v"), bench, question=bench.question)


def test_one_image_twice_shows_no_change() -> None:
    name = "plausibility.no_change_between_equals"
    same = compared(0, 0)
    mask, _ = same.bench.layers.read_mask(same.observation.result.layers[0])
    assert not mask.any()
    assert blamed(same) == []
    assert CHECKS[name].look(same.case()).outcome == "passed"
    assert difference(0, 0).observation.result.value == 0
    assert blamed(difference(0, 0)) == []
    # a change that is told of one and the same image
    ref = same.observation.result.layers[0]
    assert ref.grid is not None
    square = np.zeros_like(mask)
    square[5:15, 5:15] = True
    drawn = same.bench.layers.put_mask(square, np.ones_like(mask), ref.grid, label="change", scene_id="before")
    assert name in blamed(same.but({"/result/layers/0": drawn.model_dump(mode="json"), "/evidence/intermediate/mask_px": 100}))
    assert name in blamed(same.but({"/evidence/intermediate/mask_px": 100}))
    assert name in blamed(difference(0, 0).but({"/result/value": 0.05}))


def test_one_date_for_two_is_no_right_zero() -> None:
    """Two dates are asked about and the call compares the first with itself: its zero is not the question's."""
    asked = difference(0, 1)
    assert blamed(asked) == []
    made = difference(0, 0)
    assert asked.question is not None
    scenes = (*made.bench.question.scenes, asked.question.scenes[1].model_copy(update={"scene_id": "c"}))
    both = made.but(question=asked.question.model_copy(update={"scenes": scenes}))
    assert "plausibility.no_change_between_equals" in blamed(both)


def test_no_text_is_a_finding_where_something_was_seen() -> None:
    pytest.importorskip("rapidocr", reason="rapidocr is not installed (./rsure setup --ml)")
    call = {"image_paths": ["s"], "objective": "what is written", "mode": "document"}
    made = s.ask(s.photo(), "What is written here?", "text", "perceive", call)
    assert made.observation.result.value == ""
    assert blamed(made) == []
    name = "contract.value_fits_kind"
    for wrong, value in (("valid_px", 0), ("kept", 2), ("kept", ...)):
        found = CHECKS[name].look(made.but({f"/evidence/intermediate/{wrong}": value}).case())
        assert found.outcome == "failed", wrong
        assert "call the tool again" not in found.message
    # a picture of fill alone is not looked at
    info, stored = s.cut(s.CROWNS, s.RGB)
    info = info.model_copy(update={"bands": tuple(b.model_copy(update={"nodata": 0.0}) for b in info.bands)})
    unseen = Bench((info, np.zeros_like(stored))).call("perceive", call)
    assert unseen.status.state == "failed" and unseen.result.value is None, unseen.status
    assert "valid" in unseen.status.reason or "seen" in unseen.status.reason


@pytest.mark.parametrize(("over", "faulty"), [("count_above", False), ("sum", False), ("mean_above", True), ("max", True)])
def test_a_number_of_dates_is_no_index(over: str, faulty: bool) -> None:
    """The items of a series are in the range of the index; what the dates became together need not be."""
    params = {"over": over} | ({"limit": 0.1} if over.endswith("above") else {})
    made = run_over([*matrix.BASE, *matrix.out("raster.summarize.series", matrix.NDVIS, **params)], matrix.UTM)
    assert made is not None and float(str(made.observation.result.value)) <= 6
    name = "radiometry.index_in_range"
    assert blamed(made) == []
    assert (CHECKS[name].look(made.but({"/result/value": 4.5}).case()).outcome == "failed") is faulty
    assert CHECKS[name].look(made.but({"/result/items/2/value": 4.5}).case()).outcome == "failed"


def test_more_of_one_thing_than_of_another_is_no_share() -> None:
    """Six boxes to three, and no denominator named: a ratio of 2. Of the scene, a share of 2 there is none."""
    bench = s.photo()
    put = bench.layers.put_features
    corners = s.crowns()
    layers = {
        n: put([s.box(*c, n) for c in held], kind="boxes", crs="image", label=n, scene_id="s")
        for n, held in (("tree", corners[:6]), ("bush", corners[6:9]))
    }
    first = s.objects([s.box(*c) for c in corners[:9]], bench).observation
    parent = first.model_copy(update={"result": first.result.model_copy(update={"layers": tuple(layers.values())})})
    call = {
        "sources": [{"name": n, "mode": "objects", "layer": {"observation": parent.id, "label": n}} for n in layers],
        "spec": {"metric": "ratio", "subject": "tree", "reference": "bush"},
    }
    made = s.ask(bench, "What is the ratio of trees to bushes?", "number", "measure", call, [parent])
    assert made.observation.result.value == 2
    names = ("radiometry.fraction_in_range", "consistency.numerator_within_denominator")
    assert not set(names) & set(blamed(made))
    of_scene = {"/arguments/spec/denominator": "scene"}
    assert set(names) <= set(blamed(made.but(of_scene)))


def test_a_gsd_that_the_grid_contradicts_and_that_was_not_used_is_no_fault() -> None:
    name = "geometry.gsd_matches_crs"
    first = s.water()
    source = {"name": "water", "mode": "regions", "layer": {"observation": first.observation.id}, "gsd_m": 1.0}
    call = {"sources": [source], "spec": {"metric": "area", "subject": "water", "unit": "ha"}}
    made = s.ask(first.bench, "How many hectares of water are there?", "area", "measure", call, [first.observation])
    assert made.observation.result.value == s.measured("area").observation.result.value
    assert made.observation.inputs[0].gsd_m == pytest.approx(10)
    assert name not in blamed(made)
    assert name in blamed(made.but({"/inputs/0/gsd_m": 1.0}))


def test_the_statistic_of_a_mask_is_not_that_of_the_raster_under_it() -> None:
    nodes = [*matrix.BASE, *matrix.MASKS, *matrix.out("raster.summarize.statistic", ["m0"], statistic="max")]
    made = run_over(nodes, matrix.UTM)
    assert made is not None and made.observation.result.value == 1
    assert "consistency.statistic_recomputes" not in blamed(made)
    plain = run_over([*matrix.BASE, *matrix.out("raster.summarize.statistic", ["i0"], statistic="max")], matrix.UTM)
    assert plain is not None
    assert "consistency.statistic_recomputes" in blamed(plain.but({"/result/value": 1.0}))


@pytest.mark.parametrize(("neighbours", "alone"), [("queen", 2), ("rook", 4)])
def test_pixels_without_neighbour_take_no_part_in_morans_i(neighbours: str, alone: int) -> None:
    """Two pixels stand alone, two more touch each other at a corner."""
    stored = np.random.default_rng(2).uniform(0, 1, (1, 20, 20))
    stored[:, 10:] = -9.0
    for row, column in ((13, 3), (17, 17), (14, 8), (15, 9)):
        stored[0, row, column] = 0.5
    bench = Bench(scene(stored, ["ndvi"], unit="1", nodata=-9.0))
    nodes = [
        ("a", "asset.scene", (), {"scene": "s"}),
        ("b", "raster.product.band", ["a"], {"role": "ndvi"}),
        ("m", "raster.summarize.moran", ["b"], {"neighbours": neighbours}),
    ]
    made = Sample(bench.execute(nodes, "m"), bench, question=bench.question)
    assert made.observation.evidence.intermediate["valid_px"] == 204 - alone
    name = "consistency.valid_count_recomputes"
    assert name not in blamed(made)
    for wrong in (204, 400, 100):
        assert name in blamed(made.but({"/evidence/intermediate/valid_px": wrong})), wrong


@pytest.mark.parametrize(
    ("text", "unit", "metric"),
    [("how many trees per hectare are there?", "1/ha", "density"), ("number of cars per square kilometre", "1/km2", "density"),
     ("what is the density of trees?", "", "density"), ("how many hectares of water are there?", "ha", "area"),
     ("how many m2 of water are there per ha?", "m2", "area"), ("how many trees are there?", "", "count"),
     ("what share of each hectare is water?", "", "ratio")],
)  # fmt: skip
def test_words_of_a_density(text: str, unit: str, metric: str) -> None:
    assert (words.unit_named(text), words.metric_named(text)) == (unit, metric)
