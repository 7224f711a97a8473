"""The bench's own files and their right answers, the faults of vector files and of kinds of place, and runs over them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import Geod
from shapely.geometry import shape

from apps.evaluation.faultbench import command, given
from apps.evaluation.faultbench.cases import NO_ANSWER, bench_cases
from apps.evaluation.faultbench.faults import FAULTS, Call
from apps.imagery.vectors import vector_read
from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples as s
from tests.unit.verification import samples_new

GEOD = Geod(ellps="WGS84")
MEASURE: dict[str, Any] = {
    "sources": [{"name": "f", "mode": "extent", "vector": "sha256:1"}],
    "spec": {"metric": "area", "subject": "f"},
}


def geod_m(path: Any) -> float:
    return float(GEOD.line_length([p[0] for p in path], [p[1] for p in path]))


# --- right answers ------------------------------------------------------------------------------------------------------------
def test_the_right_answers_are_those_of_the_geodesic() -> None:
    for ring in given.FIELDS.values():
        area, _ = GEOD.polygon_area_perimeter([p[0] for p in ring], [p[1] for p in ring])
        assert given.area_m2(ring) == pytest.approx(abs(area), rel=1e-4)
    for path in given.PATHS:
        assert given.length_m(path) == pytest.approx(geod_m(path), rel=1e-6)
    for site, told in zip(given.SITES, given.to_paths_m(), strict=True):
        ways = [shapely.segmentize(shapely.LineString(path), 1e-5) for path in given.PATHS]
        steps = np.concatenate([shapely.get_coordinates(w) for w in ways])
        far = GEOD.inv(np.full(len(steps), site[0]), np.full(len(steps), site[1]), steps[:, 0], steps[:, 1])[2]
        assert told == pytest.approx(float(far.min()), abs=0.5)
        assert abs(told - 150) > 10  # no site lies where the answer would hang on a pixel


def test_pixels_in_the_fields_are_those_of_shapely() -> None:
    lon, lat = np.meshgrid(np.linspace(-1.2255, -1.2075, 200), np.linspace(50.729, 50.741, 150))
    union = shapely.union_all([shapely.Polygon(ring) for ring in given.FIELDS.values()])
    inside = given.in_fields(lon, lat)
    assert 0 < inside.mean() < 0.5
    assert np.array_equal(inside, shapely.contains_xy(union, lon, lat))


def test_the_files_are_read_in_their_own_systems(tmp_path: Path) -> None:
    given.write_files(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == set(given.NAMES)
    fields, paths, sites = (vector_read(tmp_path / n, n) for n in (given.FIELDS_FILE, given.PATHS_FILE, given.SITES_FILE))
    assert (fields.crs, len(fields.features), fields.naming()) == ("EPSG:4326", 6, ("name", tuple(given.FIELDS)))
    assert (paths.crs, len(paths.features)) == ("EPSG:3857", 5)
    assert (sites.crs, len(sites.features)) == ("EPSG:4326", 12)
    # the plane of Web Mercator is wrong by the cosine of the latitude, and the right answer is not of it
    flat = sum(shape(f["geometry"]).length for f in paths.features)
    assert flat / sum(map(given.length_m, given.PATHS)) == pytest.approx(1 / np.cos(np.radians(50.734)), rel=5e-3)


# --- faults of vector files -----------------------------------------------------------------------------------------------------
def read_through(name: str, file: str, folder: Path, arguments: dict[str, Any] | None = None) -> tuple[Any, Any, str]:
    """(honest features, those of the faulty door, the CRS that it tells)."""
    given.write_files(folder)
    bench = Bench(s.optical())
    found = vector_read(folder / file, file)
    kind = "points" if file == given.SITES_FILE else "polygons"
    ref = bench.layers.put_features(found.features, kind=kind, crs=found.crs, label=file)
    fault = FAULTS[name]
    call = Call("measure", arguments or MEASURE, bench.question, 1)
    assert fault.layers is not None and fault.strikes(call)
    features, crs = fault.layers(bench.layers, call).read_vector(ref.artifact)
    assert bench.layers.read_vector(ref.artifact) == (found.features, found.crs)  # what is kept is as it was
    return found.features, features, crs


def area_of(features: Any) -> float:
    return float(sum(abs(GEOD.geometry_area_perimeter(shape(f["geometry"]))[0]) for f in features))


def test_faults_of_a_file_in_degrees(tmp_path: Path) -> None:
    honest, lost, crs = read_through("features_lost", given.FIELDS_FILE, tmp_path)
    assert [f["properties"]["name"] for f in lost] == ["Home", "Marsh", "Mill", "North"] and crs == "EPSG:4326"
    _, turned, _ = read_through("vector_crs_wrong", given.FIELDS_FILE, tmp_path)
    assert shape(turned[0]["geometry"]).bounds == pytest.approx((50.7305, -1.2115, 50.7325, -1.2085))
    _, flat, _ = read_through("planar_lengths", given.FIELDS_FILE, tmp_path)
    assert area_of(flat) / area_of(honest) == pytest.approx(1 / np.cos(np.radians(50.735)), rel=0.01)
    _, older, _ = read_through("vector_stale", given.FIELDS_FILE, tmp_path)
    assert area_of(older) / area_of(honest) == pytest.approx(0.85**2, rel=1e-3) and len(older) == len(honest)
    picked = {**MEASURE, "sources": [{**MEASURE["sources"][0], "only": ["Home"]}]}
    _, late, _ = read_through("names_shifted", given.FIELDS_FILE, tmp_path, picked)
    assert [f["properties"]["name"] for f in late] == ["Quay", "Home", "Marsh", "Copse", "Mill", "North"]
    assert [f["geometry"] for f in late] == [f["geometry"] for f in honest]


def test_faults_of_a_file_in_metres(tmp_path: Path) -> None:
    honest, same, crs = read_through("vector_crs_wrong", given.PATHS_FILE, tmp_path)
    assert crs == "EPSG:32630" and same == honest
    _, flat, crs = read_through("planar_lengths", given.PATHS_FILE, tmp_path)
    y = shapely.get_coordinates([shape(f["geometry"]) for f in flat])[:, 1]
    assert crs == "EPSG:3857" and abs(y.mean()) < 1e-6 and float(np.ptp(y)) > 1000


def test_faults_strike_only_where_they_can() -> None:
    question = s.optical() and Bench(s.optical()).question
    index = Call("execute", {"nodes": [{"id": "a", "op": "raster.product.index", "inputs": [], "params": {}}]}, question, 1)
    zones = Call("execute", {"nodes": [{"id": "z", "op": "vector.zones", "params": {"vector": "sha256:1"}}]}, question, 1)
    count = Call("measure", {**MEASURE, "spec": {"metric": "count", "subject": "f"}}, question, 1)
    place = Call("perceive", {"mode": "scene"}, question, 1)
    struck = {f.name: {n for n, c in (("index", index), ("zones", zones), ("count", count), ("place", place)) if f.strikes(c)}
              for _, f in FAULTS.items() if f.family in ("vector", "class")}  # fmt: skip
    both = {"zones", "count"}
    assert struck == {
        "features_lost": both, "vector_crs_wrong": both, "vector_stale": both, "planar_lengths": set(), "names_shifted": set(),
        "label_swapped": {"place"}, "probabilities_off": {"place"}, "out_of_scope_told": {"place"},
        "colours_exchanged": {"place"},
    }  # fmt: skip


# --- faults of kinds of place ---------------------------------------------------------------------------------------------------
def told(name: str, sample: s.Sample) -> Any:
    report = FAULTS[name].report
    assert report is not None
    return report(sample.observation, Call("perceive", {"mode": "scene"}, sample.bench.question, 1))


def test_labels_are_exchanged_wherever_they_stand() -> None:
    place = samples_new.place()
    wrong = told("label_swapped", place)
    assert (place.observation.result.value, wrong.result.value) == ("road", "field")
    assert [(i["class"], i["p"]) for i in wrong.result.items] == [("field", 0.72), ("road", 0.25)]
    assert wrong.evidence.intermediate["label_probabilities"] == {"field": 0.72, "road": 0.25}
    assert wrong.status == place.observation.status


def test_probabilities_are_sharper_and_still_sum_to_one() -> None:
    sure = told("probabilities_off", samples_new.place())
    total = 0.72**2 + 0.25**2
    assert [i["p"] for i in sure.result.items] == [round(0.72**2 / total, 4), round(0.25**2 / total, 4)]
    assert sure.result.value == "road" and sure.evidence.intermediate["scores"] == [round(0.72**2 / total, 4)]


def test_what_shows_no_place_is_told_as_the_likeliest() -> None:
    none = samples_new.place().but({"/result/value": None, "/status/state": "partial", "/status/reason": "like none"})
    assert told("out_of_scope_told", samples_new.place()) == samples_new.place().observation
    wrong = told("out_of_scope_told", none)
    assert (wrong.result.value, wrong.status.state, wrong.status.reason) == ("road", "ok", "")
    assert wrong.evidence.intermediate["windows_out_of_scope"] == 0 and wrong.evidence.validity["in_scope"] is True
    assert told("label_swapped", none) == none.observation == told("probabilities_off", none)


# --- runs -----------------------------------------------------------------------------------------------------------------------
def report_of(options: dict[str, Any], home: Path) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    out, err = io.StringIO(), io.StringIO()
    assert command.run({"json": True, "rows": str(home / "rows.jsonl"), **options}, out=out, err=err) == 0
    rows = [json.loads(line) for line in (home / "rows.jsonl").read_text().splitlines()]
    return json.loads(out.getvalue()), rows, err.getvalue()


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.RSURE_HOME = tmp_path
    return tmp_path


def test_vector_files_with_their_faults(home: Path) -> None:
    names = "given-area,given-copse,given-count,given-length,given-near,given-ndvi"
    report, rows, _ = report_of({"cases": names, "faults": "vector"}, home)
    none, full = report["configurations"]["none"], report["configurations"]["verification_prior"]
    assert report["cases"] == 6 and report["honest_not_right"] == []
    assert none["R_prop"] == 1.0 and none["runs_with_incorrect"] >= 14
    assert full["R_prop"] == full["incorrect_accepted"] == full["right_rejected"] == 0.0
    wrong = {(r["case"], r["fault"]) for r in rows if r["configuration"] == "none" and r["is_wrong"]}
    assert {f for _, f in wrong} == {"features_lost", "vector_crs_wrong", "planar_lengths", "vector_stale", "names_shifted"}
    assert ("given-near", "features_lost") in wrong and ("given-ndvi", "features_lost") in wrong


@pytest.mark.ml
@pytest.mark.slow
def test_a_picture_of_nothing_and_a_place_told_wrong(home: Path) -> None:
    pytest.importorskip("torch")
    report, rows, _ = report_of(
        {"cases": "place-nothing", "faults": "out_of_scope_told", "configurations": "none,verification"}, home
    )
    assert report["cases"] == 1 and report["honest_not_right"] == []
    by = {(r["fault"], r["configuration"]): r for r in rows}
    honest, wrong = by["", "none"], by["out_of_scope_told", "none"]
    # to say that there is no answer is the right answer, and what says nothing is on neither side
    assert honest["right"] == NO_ANSWER and honest["is_right"] and not honest["is_abstained"]
    assert [o["is_right"] for o in honest["observations"]] == [None]
    assert wrong["is_wrong"] and [o["is_right"] for o in wrong["observations"]] == [False]
    assert by["out_of_scope_told", "verification"]["is_right"]


def test_kinds_of_place_are_left_out_with_a_message_where_torch_is_off(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RSURE_NO_ML", "1")
    report, _, said = report_of({"cases": "place-nothing,given-count", "faults": "features_lost,out_of_scope_told"}, home)
    assert report["cases"] == 1 and report["cases_missing"] == ["place-nothing"]
    assert "1 cases are left out, torch is not installed or is off: place-nothing" in said


def test_the_slow_case_is_asked_for_by_name_and_the_quick_ones_are_not() -> None:
    assert [c.name for c in bench_cases() if c.is_slow] == ["vehicles-count"]
    cases, faults, _ = command._chosen({})
    assert {"place-nothing", "given-area"} <= {c.name for c in cases} and "vehicles-count" not in {c.name for c in cases}
    assert {"vector", "class"} <= {f.family for f in faults}
