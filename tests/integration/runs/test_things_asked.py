"""Questions in words about polygons, lines and points through the whole stack: planner, tools, checks, answer and page.

Every value from a computation of the test's own: numpy on the shipped images, shapely and pyproj on the vector files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from pyproj import Geod, Transformer
from shapely.geometry import mapping

from apps.accounts.models import Project, User
from apps.core.evidence.plan import Answer
from apps.imagery.models import Scene
from apps.imagery.vector_layers import vector_add_now
from apps.runs import selectors, services
from apps.runs.tables import run_table
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.django_db
GEOD = Geod(ellps="WGS84")
FISH = SAMPLES / "geopandas_s2a_l2a_fishbourne.tif"
LANDSAT = {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir1": 5, "swir2": 6}
DAYS = ("2002-07-20", "2002-11-25")
# columns and rows of the shipped scenes
FIELDS = {
    "North field": shapely.box(20, 20, 80, 60), "Mill field": shapely.box(100, 30, 160, 110),
    "Long field": shapely.box(30, 90, 70, 150), "Hill field": shapely.Polygon([(200, 40), (260, 60), (250, 140), (190, 120)]),
    "Corner plot": shapely.box(180, 150, 200, 165),
}  # fmt: skip
CROPS = {"North field": "wheat", "Mill field": "barley", "Long field": "wheat", "Hill field": "grass", "Corner plot": "barley"}
ROADS = {
    "A3054": shapely.LineString([(0, 75), (120, 70), (300, 20)]), "High Street": shapely.LineString([(90, 0), (95, 200)]),
}  # fmt: skip
STATIONS = {f"S{i}": shapely.Point(x, y) for i, (x, y) in enumerate(
    [(110, 40), (130, 100), (150, 68), (210, 70), (30, 30), (60, 55), (5, 190), (92, 60), (120, 75), (185, 160)], 1)}  # fmt: skip
PLOTS = {"NW": (10, 10, 140, 140), "NE": (160, 10, 290, 140), "SW": (10, 160, 140, 290), "SE": (160, 160, 290, 290)}


def drawn(path: Path, shapes: dict[str, Any]) -> list[Any]:
    """The shapes of an image's pixels in longitude and latitude."""
    with rasterio.open(path) as file:
        t, to_degrees = file.transform, Transformer.from_crs(file.crs, "EPSG:4326", always_xy=True)
    out = []
    for g in shapes.values():
        ground = shapely.transform(g, lambda p: np.column_stack(t * (p[:, 0], p[:, 1])))
        out.append(shapely.transform(ground, lambda p: np.column_stack(to_degrees.transform(p[:, 0], p[:, 1]))))
    return out


def written(path: Path, names: list[str], shapes: list[Any], **values: dict[str, str]) -> Path:
    features = [
        {"type": "Feature", "geometry": mapping(g), "properties": {"name": n, **{k: v[n] for k, v in values.items()}}}
        for n, g in zip(names, shapes, strict=True)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


@pytest.fixture
def files(project: Project, tmp_path: Path) -> dict[str, Any]:
    held = {"fields": FIELDS, "roads": ROADS, "stations": STATIONS}
    made = {}
    for name, shapes in held.items():
        more = {"crop": CROPS} if name == "fields" else {}
        path = written(tmp_path / f"{name}.geojson", list(shapes), drawn(FISH, shapes), **more)
        made[name] = vector_add_now(project=project, path=path, name=path.name).vector_info
    return made


@pytest.fixture
def asked(analyst: User, project: Project) -> Any:
    def answer(text: str, scenes: list[Scene], vectors: list[Any]) -> tuple[Answer, Any]:
        run = services.run_start(user=analyst, project=project, text=text, scenes=scenes, vectors=vectors, enqueue=False)
        services.run_execute_now(run_id=run.pk)
        state = selectors.run_state(run.pk)
        assert state.answer is not None
        return state.answer, state

    return answer


@pytest.fixture
def of_files(asked: Any, files: dict[str, Any]) -> Any:
    def answer(text: str, *names: str) -> Answer:
        found: Answer = asked(text, [], [files[n] for n in names or files])[0]
        assert not found.abstained, found.text
        return found

    return answer


def degrees(shapes: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(shapes, drawn(FISH, shapes), strict=True))


def metres(shapes: dict[str, Any]) -> dict[str, Any]:
    """In UTM 30, which is true to 4 in 10,000 here."""
    t = Transformer.from_crs("EPSG:4326", "EPSG:32630", always_xy=True)
    return {n: shapely.transform(g, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1]))) for n, g in degrees(shapes).items()}


def rim(g: Any) -> float:
    return float(GEOD.geometry_length(shapely.segmentize(g, 1e-4).boundary))


def geodesic_m2(g: Any) -> float:
    return abs(float(GEOD.geometry_area_perimeter(shapely.orient_polygons(shapely.segmentize(g, 1e-4)))[0]))


def test_colours_behind_a_statistic_are_bands(asked: Any, project: Project) -> None:
    scene = scene_of_file(project=project, path=FISH, roles={"blue": 1, "green": 2, "red": 3, "nir": 4})
    with rasterio.open(FISH) as file:
        bands = file.read().astype(float)
    seen = ~(bands == 0).all(axis=0)
    for text, wanted in (
        ("mean red", bands[2][seen].mean()), ("What is the average blue?", bands[0][seen].mean()),
        ("mean of the green channel", bands[1][seen].mean()), ("maximum of red", bands[2][seen].max()),
        ("average nir", bands[3][seen].mean()),
    ):  # fmt: skip
        answer = asked(text, [scene], [])[0]
        assert answer.value == pytest.approx(wanted, rel=1e-6) and answer.unit == "DN", (text, answer.text)
    assert asked("What is the mean green vegetation area?", [scene], [])[0].abstained


def test_a_ratio_of_areas_is_none_of_numbers(of_files: Any) -> None:
    area = {crop: sum(geodesic_m2(g) for n, g in degrees(FIELDS).items() if CROPS[n] == crop) for crop in ("wheat", "barley")}
    found = of_files("ratio of wheat area to barley area", "fields")
    assert found.value == pytest.approx(area["wheat"] / area["barley"], rel=1e-5) and "pixels" not in found.text


def test_limits_of_a_share_and_differences_turned(asked: Any, fish: Scene, files: dict[str, Any]) -> None:
    with rasterio.open(FISH) as file:
        green, red, nir = (file.read(i).astype(float) for i in (2, 3, 4))
        seen = file.read().any(axis=0)
    rows, columns = np.indices(seen.shape) + 0.5
    with np.errstate(all="ignore"):
        water, ndvi = (green - nir) / (green + nir) > 0, (nir - red) / (nir + red)
    inside = {n: shapely.contains_xy(g, columns, rows) & seen for n, g in FIELDS.items()}
    few = [n for n, at in inside.items() if water[at].mean() < 0.1]
    found = asked("How many fields have less than 10% water?", [fish], [files["fields"]])[0]
    assert not found.abstained and found.value == len(few) > 0
    found = asked("By how much is NDVI higher in Long field than in Mill field?", [fish], [files["fields"]])[0]
    wanted = ndvi[inside["Long field"]].mean() - ndvi[inside["Mill field"]].mean()
    assert found.value == pytest.approx(wanted, abs=0.02) and found.value > 0


def test_perimeters_in_words(of_files: Any) -> None:
    rims = {n: rim(g) for n, g in degrees(FIELDS).items()}
    assert of_files("What is the total perimeter of the fields?").value == pytest.approx(sum(rims.values()), rel=1e-5)
    assert of_files("What is the mean perimeter of the fields in km?").value == pytest.approx(sum(rims.values()) / 5e3, rel=1e-5)
    assert of_files("What is the shortest perimeter of the fields?").value == pytest.approx(min(rims.values()), rel=1e-5)
    assert of_files("Which field has the longest perimeter?").value == max(rims, key=lambda n: rims[n])
    listed = of_files("List the perimeter of each field")
    told = {n: float(v) for n, v in (row.split(": ") for row in listed.value.split("; "))}  # type: ignore[union-attr]
    assert told == {n: pytest.approx(v, rel=1e-5) for n, v in rims.items()}


def test_sizes_and_ranks_in_words(of_files: Any) -> None:
    areas = {n: geodesic_m2(g) for n, g in degrees(FIELDS).items()}
    order = sorted(areas, key=lambda n: -areas[n])
    assert of_files("Which field is the second largest?").value == order[1]
    assert of_files("What are the three largest fields?").value == "; ".join(order[:3])
    assert of_files("What is the average size of the fields in ha?").value == pytest.approx(sum(areas.values()) / 5e4, rel=1e-5)
    large = [n for n in areas if areas[n] > 2.2e5]
    assert of_files("How many fields are larger than 22 ha?").value == len(large)
    assert of_files("Which fields are larger than 22 ha?").value == "; ".join(large)
    assert of_files("What share of the fields is larger than 22 ha?").value == pytest.approx(len(large) / 5)
    assert of_files("Which fields are larger than 900 ha?").value == "none"
    less = of_files("How much larger is Mill field than North field in ha?")
    assert less.value == pytest.approx((areas["Mill field"] - areas["North field"]) / 1e4, rel=1e-5)
    assert "Mill" in str(of_files("Is Mill field larger than North field?").value)


def test_two_conditions_and_who_is_nearest(of_files: Any) -> None:
    fields, roads, stations = metres(FIELDS), metres(ROADS), metres(STATIONS)
    road, ground = shapely.union_all(list(roads.values())), shapely.union_all(list(fields.values()))
    inside = {n: bool(ground.contains(p)) for n, p in stations.items()}
    gaps = {n: p.distance(road) for n, p in stations.items()}
    assert min(abs(g - 200) for g in gaps.values()) > 1
    both = [n for n in stations if inside[n] and gaps[n] <= 200]
    assert 0 < len(both) < sum(inside.values())
    assert of_files("How many stations are inside the fields and within 200 m of the roads?").value == len(both)
    assert of_files("Which stations are inside the fields and within 200 m of the roads?").value == "; ".join(both)
    apart = [n for n in stations if gaps[n] <= 200 and not inside[n]]
    assert of_files("How many stations are within 200 m of a road but not in a field?").value == len(apart)
    nearest = {n: p.distance(fields["Long field"]) for n, p in stations.items()}
    assert of_files("Which station is nearest to Long field?").value == min(nearest, key=lambda n: nearest[n])
    assert of_files("Which station is farthest from the roads?").value == max(gaps, key=lambda n: gaps[n])
    counts = {n: sum(bool(g.contains(p)) for p in stations.values()) for n, g in fields.items()}
    more = of_files("How many more stations are in Mill field than in Hill field?")
    assert more.value == counts["Mill field"] - counts["Hill field"] > 0
    assert len(more.claims) == 2


def test_fields_counted_by_a_figure_of_the_image(asked: Any, fish: Scene, files: dict[str, Any]) -> None:
    with rasterio.open(FISH) as file:
        data = file.read().astype(float)
    valid = ~(data == 0).all(axis=0)
    with np.errstate(all="ignore"):
        ndvi = np.where(valid, (data[3] - data[2]) / (data[3] + data[2]), np.nan)
    rows, cols = np.mgrid[0 : ndvi.shape[0], 0 : ndvi.shape[1]]
    inside = {n: shapely.contains_xy(g, cols + 0.5, rows + 0.5) for n, g in FIELDS.items()}
    means = {n: float(np.nanmean(ndvi[m])) for n, m in inside.items()}
    vectors = [files["fields"]]
    for text, value in (
        ("How many fields have a mean NDVI above 0.5?", sum(v > 0.5 for v in means.values())),
        ("Which fields have a mean NDVI below 0.3?", "; ".join(n for n, v in means.items() if v < 0.3)),
        ("Which field has the second highest NDVI?", sorted(means, key=lambda n: -means[n])[1]),
    ):
        found, _ = asked(text, [fish], vectors)
        assert found.value == value, found.text
    grown = {c: np.concatenate([ndvi[inside[n]] for n in FIELDS if CROPS[n] == c]) for c in set(CROPS.values())}
    by_crop = {c: float(np.nanmean(v)) for c, v in grown.items()}
    found, _ = asked("Which crop has the highest mean NDVI?", [fish], vectors)
    assert found.value == max(by_crop, key=lambda c: by_crop[c])


def test_what_is_not_it_is_the_rest_of_the_valid_pixels(asked: Any, fish: Scene, files: dict[str, Any]) -> None:
    with rasterio.open(FISH) as file:
        data = file.read().astype(float)
    with np.errstate(all="ignore"):
        ndwi, ndvi = (data[1] - data[3]) / (data[1] + data[3]), (data[3] - data[2]) / (data[3] + data[2])
    rows, columns = np.indices(ndwi.shape) + 0.5
    mill = shapely.contains_xy(FIELDS["Mill field"], columns, rows)
    dry, bare = ndwi <= 0, ndvi <= 0.4  # what is undefined is neither
    for text, value in (
        ("share that is not water", dry.sum() / np.isfinite(ndwi).sum()),
        ("What percentage of the image is not covered by water?", 100 * dry.sum() / np.isfinite(ndwi).sum()),
        ("How many hectares are not water?", dry.sum() / 100),
        ("What share of Mill field is not vegetation?", (bare & mill).sum() / (np.isfinite(ndvi) & mill).sum()),
    ):
        found = asked(text, [fish], [files["fields"]])[0]
        assert not found.abstained and found.value == pytest.approx(value, rel=1e-3) and " not " in found.text, (text, found.text)
    for text, says in (
        ("What area has NDVI not above 0.4?", "at most"), ("How much is not water or vegetation?", "“not”"),
        ("How much is not lake?", "one surface"), ("water area excluding ponds", "“excluding”"),
        ("Which field has the most area that is not water?", "one surface"), ("Is there not water?", "its area or its share"),
    ):  # fmt: skip
        found = asked(text, [fish], [files["fields"]])[0]
        assert found.abstained and says in found.text, (text, found.text)


@pytest.fixture
def plots(project: Project, tmp_path: Path) -> Any:
    path = SAMPLES / f"landsat7_p15r32_{DAYS[0]}.tif"
    shapes = drawn(path, {n: shapely.box(*b) for n, b in PLOTS.items()})
    made = written(tmp_path / "plots.geojson", list(PLOTS), shapes)
    return vector_add_now(project=project, path=made, name=made.name).vector_info


@pytest.fixture
def pair(project: Project) -> list[Scene]:
    return [scene_of_file(project=project, path=SAMPLES / f"landsat7_p15r32_{d}.tif", roles=LANDSAT) for d in DAYS]


def test_changes_by_plot(asked: Any, pair: list[Scene], plots: Any) -> None:
    ndvi = []
    for day in DAYS:
        with rasterio.open(SAMPLES / f"landsat7_p15r32_{day}.tif") as file:
            red, nir = file.read(3).astype(float), file.read(4).astype(float)
        with np.errstate(all="ignore"):
            ndvi.append(np.where(red + nir > 0, (nir - red) / (nir + red), np.nan))
    cut = {n: (slice(r0, r1), slice(c0, c1)) for n, (c0, r0, c1, r1) in PLOTS.items()}
    green = [{n: int((v[at] > 0.4).sum()) for n, at in cut.items()} for v in ndvi]
    # 900 m² a pixel; on the ellipsoid up to 1 in 1,000 more or less
    lost = {n: (green[1][n] - green[0][n]) * 900 / 1e4 for n in PLOTS}
    text = "How many hectares of vegetation were lost in each plot between 2002-07-20 and 2002-11-25?"
    found, state = asked(text, pair, [plots])
    told = {n: float(v) for n, v in (row.split(": ") for row in str(found.value).split("; "))}
    assert told == {n: pytest.approx(v, rel=2e-3) for n, v in lost.items()} and found.unit == "ha"
    assert len(found.claims) == 2 and all(v < 0 for v in told.values())
    table = run_table(state)
    assert table is not None and table["columns"] == ["Before", "After"] and table["heading"] == "Change"
    assert [r["zone"] for r in table["rows"]] == list(PLOTS)
    # of what there was, and in points of the whole image, are two numbers
    whole = [int((v > 0.4).sum()) for v in ndvi]
    found = asked("What percentage of the vegetation was lost?", pair, [])[0]
    assert found.unit == "%" and found.value == pytest.approx(100 * (whole[1] - whole[0]) / whole[0], rel=1e-6)
    found = asked("By how many percentage points did the share of vegetation fall?", pair, [])[0]
    assert found.value == pytest.approx(100 * (whole[1] - whole[0]) / ndvi[0].size, rel=1e-6)
    assert " percentage points (" in found.text
    worst = min(lost, key=lambda n: lost[n])
    assert next(r["mark"] for r in table["rows"] if r["zone"] == worst) == "least"
    for text, value in (
        ("Which plot lost the most vegetation?", worst),
        ("Which two plots lost the most vegetation?", "; ".join(sorted(lost, key=lambda n: lost[n])[:2])),
        ("Which plot lost the least vegetation?", max(lost, key=lambda n: lost[n])),
    ):
        found, _ = asked(text, pair, [plots])
        assert found.value == value, found.text
    change = {n: float(np.nanmean(ndvi[1][at] - ndvi[0][at])) for n, at in cut.items()}
    found, _ = asked("How did the mean NDVI change in each plot?", pair, [plots])
    told = {n: float(v) for n, v in (row.split(": ") for row in str(found.value).split("; "))}
    assert told == {n: pytest.approx(v, abs=2e-5) for n, v in change.items()}
    fell = {n: float(np.mean((ndvi[0][at] - ndvi[1][at]) > 0.2)) for n, at in cut.items()}
    found, _ = asked("What share of each plot had NDVI drop by more than 0.2?", pair, [plots])
    told = {n: float(v) for n, v in (row.split(": ") for row in str(found.value).split("; "))}
    assert told == {n: pytest.approx(v, abs=1e-4) for n, v in fell.items()}


def test_the_largest_water_body_of_a_real_scene(asked: Any, fish: Scene) -> None:
    from scipy import ndimage

    with rasterio.open(FISH) as file:
        data = file.read().astype(float)
    with np.errstate(all="ignore"):
        water = ~(data == 0).all(axis=0) & ((data[1] - data[3]) / (data[1] + data[3]) > 0)
    labels, _ = ndimage.label(water, structure=np.ones((3, 3)))
    sizes = sorted((int(k) for k in np.bincount(labels.ravel())[1:] if k >= 9), reverse=True)
    found, _ = asked("What is the area of the largest water body in ha?", [fish], [])
    assert found.value == pytest.approx(sizes[0] / 100, rel=1e-3) and found.interval is not None
    assert found.interval[0] < found.value < found.interval[1]  # type: ignore[operator]
    found, state = asked("What is the largest lake?", [fish], [])
    table = run_table(state)
    assert table is not None and table["n"] == len(sizes) and table["columns"][-1] == "Place"
    assert all("° N, " in r["cells"][-1] and r["cells"][-1].endswith("° W") for r in table["rows"])
    at = next(i for o in state.observations.values() for i in o.observation.result.items if i.get("zone") == found.value)
    assert at["value"] == pytest.approx(sizes[0] / 1e4, rel=1e-3)
    with rasterio.open(FISH) as file:
        to_map = Transformer.from_crs("EPSG:4326", file.crs, always_xy=True)
        column, row = ~file.transform * to_map.transform(at["lon"], at["lat"])
    centre = ndimage.center_of_mass(labels == int(np.argmax(np.bincount(labels.ravel())[1:])) + 1)
    assert (row, column) == (pytest.approx(centre[0] + 0.5, abs=0.2), pytest.approx(centre[1] + 0.5, abs=0.2))
    found, _ = asked("How many water bodies are larger than 1 ha?", [fish], [])
    assert found.value == sum(k > 100 for k in sizes)
    vegetation = float((~(data == 0).all(axis=0) & (np.nan_to_num((data[3] - data[2]) / (data[3] + data[2])) > 0.4)).sum())
    found, _ = asked("What is the ratio of vegetation to water?", [fish], [])
    assert found.value == pytest.approx(vegetation / water.sum(), rel=1e-3)


@pytest.mark.shared_data
def test_plain_questions_of_counties_and_countries(asked: Any, project: Project, shared_data: Path) -> None:
    """Borders, several by name, all but one, how many times larger, and the continent with the most: by shapely and pyproj."""
    counties, world = (
        vector_add_now(project=project, path=shared_data / "vector" / path, name=name).vector_info
        for path, name in (("colorado-counties.geojson", "counties.geojson"), ("spData_world.gpkg", "countries.gpkg"))
    )
    held = json.loads((shared_data / "vector/colorado-counties.geojson").read_text())["features"]
    shapes = {f["properties"]["name"]: shapely.make_valid(shapely.geometry.shape(f["geometry"])) for f in held}
    km2 = {n: abs(GEOD.geometry_area_perimeter(shapely.segmentize(g, 0.01))[0]) / 1e6 for n, g in shapes.items()}
    beside = {n for n, g in shapes.items() for o in ("Denver", "Mesa") if n not in ("Denver", "Mesa") and g.touches(shapes[o])}
    for text, value in (
        ("How many counties touch Denver or Mesa?", len(beside)),
        ("What is the area of Denver and Mesa together, in km2?", km2["Denver"] + km2["Mesa"]),
        ("What is the total area of all counties except Denver, in km2?", sum(km2.values()) - km2["Denver"]),
        ("How many counties other than Denver are larger than 1000 km2?",
         sum(v > 1000 for n, v in km2.items() if n != "Denver")),
        ("How many counties does Denver border?", sum(g.touches(shapes["Denver"]) for g in shapes.values())),
    ):  # fmt: skip
        found, _ = asked(text, [], [counties])
        assert found.value == pytest.approx(value, rel=2e-4), (text, found.text)
    found, _ = asked("Which is larger, Denver or Mesa", [], [counties])
    told = [float(n.replace(",", "")) for n in re.findall(r"(?:Denver|Mesa): ([\d,.]+) km²", found.text)]
    assert found.value == "Mesa" and told == [pytest.approx(km2[n], rel=2e-3) for n in ("Denver", "Mesa")], found.text
    # UTM zone 13: true to 1 in 1,000 of lengths up to 3° from its middle
    flat = Transformer.from_crs("EPSG:4326", "EPSG:32613", always_xy=True)
    plane = {n: shapely.transform(shapely.segmentize(g, 0.01), lambda p: np.column_stack(flat.transform(p[:, 0], p[:, 1])))
             for n, g in shapes.items()}  # fmt: skip
    near = [n for n, g in plane.items() if n != "Denver" and g.distance(plane["Denver"]) <= 50_000]
    whole = sum(km2[n] for n in near)
    round_it = plane["Denver"].buffer(50_000, quad_segs=64)
    part = shapely.union_all(list(plane.values())).intersection(round_it).area / 1e6
    found, _ = asked("What is the area of the counties that come within 50 km of Denver, in km2?", [], [counties])
    assert found.value == pytest.approx(whole, rel=2e-4) and 0 < len(near) < len(shapes) - 1, found.text
    found, _ = asked("What area of the counties lies within 50 km of Denver, in km2?", [], [counties])
    assert found.value == pytest.approx(part, rel=2e-3) and part < whole, found.text
    for text, says in (
        ("Area of the counties within 50 km of Denver", "only the part that lies there?"),
        ("area within 50 km of Denver", "The area of what within 50 km of Denver?"),
    ):
        found, _ = asked(text, [], [counties])
        assert found.abstained and says in found.text, found.text
    _, _, outlines, (names, continents) = pyogrio.raw.read(
        shared_data / "vector/spData_world.gpkg", columns=["name_long", "continent"]
    )
    m2 = {
        n: abs(GEOD.geometry_area_perimeter(shapely.segmentize(shapely.from_wkb(g), 0.05))[0])
        for n, g in zip(names, outlines, strict=True) if n in ("Brazil", "Peru")
    }  # fmt: skip
    found, _ = asked("How many times larger is Brazil than Peru?", [], [world])
    assert found.value == pytest.approx(m2["Brazil"] / m2["Peru"], rel=2e-3), found.text
    every = [abs(GEOD.geometry_area_perimeter(shapely.segmentize(shapely.from_wkb(g), 0.05))[0]) / 1e6 for g in outlines]
    rest = {n: v for n, v in zip(names, every, strict=True) if n not in ("Antarctica", "Brazil")}
    assert len(rest) > 100  # more than a call takes by name
    for text, value in (
        ("How many countries are there except Antarctica and Brazil?", len(rest)),
        ("What is the total area of all countries except Antarctica and Brazil, in km2?", sum(rest.values())),
        ("How many countries other than Antarctica and Brazil are larger than 1000000 km2?", sum(v > 1e6 for v in rest.values())),
    ):
        found, _ = asked(text, [], [world])
        assert found.value == pytest.approx(value, rel=2e-3), (text, found.text)
    found, _ = asked("How many countries overlap the countries except Antarctica and Brazil?", [], [world])
    assert found.abstained and "by an attribute" in found.text, found.text
    found, _ = asked("Which continent has the most countries?", [], [world])
    assert found.value == Counter(continents).most_common(1)[0][0] == "Africa"
    most = Counter(continents)["Africa"]
    assert f"Africa has the largest number of polygons, {most}, among {len(set(continents))} values of continent" in found.text


def test_the_perimeter_of_the_largest(of_files: Any) -> None:
    held = [GEOD.geometry_area_perimeter(shapely.segmentize(g, 1e-4)) for g in degrees(FIELDS).values()]
    wanted = max((abs(area), perimeter) for area, perimeter in held)[1]
    assert of_files("What is the perimeter of the largest field?").value == pytest.approx(wanted, rel=1e-4)


def test_what_is_not_told_is_asked_back(asked: Any, files: dict[str, Any], fish: Scene) -> None:
    for text, scenes, says in (
        ("How many stations are inside the fields or within 200 m of the roads?", [], "“or”"),
        ("How many stations inside the fields that are near the roads are there?", [], ""),
        ("What is the perimeter of the fields inside Mill field?", [], "part of their outlines"),
        ("Are the fields larger than 10 ha?", [], "all together"),
        ("What is the smallest lake?", [fish], "noise"),
        ("Which ship is the largest?", [fish], "sharper picture"),  # 10 m a pixel
    ):
        found, _ = asked(text, scenes, list(files.values()))
        assert found.abstained and says in found.text, (text, found.text)
