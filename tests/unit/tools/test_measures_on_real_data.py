"""measure over real things: streets, parks, houses and restaurants of Helsinki, the vehicles that DOTA labels, the trees that
NEON labels, a labelled flood. Against shapely, geopandas and scipy in planes of their own, pyproj's geodesics and rasterio.

Helsinki is OpenStreetMap's (ODbL), read apart from the code under test by pyogrio; the code under test reads files written of it.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyogrio
import pytest
import rasterio
import shapely
from numpy.typing import NDArray
from pyproj import Geod, Proj, Transformer
from rasterio.features import geometry_mask, rasterize
from scipy import ndimage
from scipy.spatial.distance import cdist, pdist, squareform
from shapely.geometry import mapping

from apps.core.evidence.observation import Observation
from apps.imagery.vectors import vector_read
from apps.verification.checks import Case, run_checks
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.tools.test_cuts_on_the_map import perceived, rows
from tests.unit.tools.test_measure import mask_of, measure, seen
from tests.unit.tools.test_measures_on_the_map import bench, call, judged, value

pytestmark = pytest.mark.shared_data

GEOD = Geod(ellps="WGS84")
# Azimuthal planes about the middle of the town: true to a millionth within its two kilometres.
ABOUT = "+lat_0=60.1716 +lon_0=24.9443 +datum=WGS84 +units=m"
FLAT, EQUAL = (Transformer.from_crs("EPSG:4326", f"+proj={p} {ABOUT}", always_xy=True) for p in ("aeqd", "laea"))


def bare(b: Bench, sources: dict[str, Any], **spec: Any) -> Any:
    """The value without asking the verifier, which takes its time over many houses."""
    o = call(b, sources, **spec)
    assert o.status.state == "ok", o.status.reason
    return o.result.value


def moved(g: Any, t: Transformer = FLAT) -> Any:
    return shapely.transform(g, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))


def geodesic(line: Any) -> float:
    """Metres along a line or several, edge by edge."""
    total = 0.0
    for part in getattr(line, "geoms", [line]):
        at = shapely.get_coordinates(part)
        total += float(np.sum(GEOD.inv(at[:-1, 0], at[:-1, 1], at[1:, 0], at[1:, 1])[2]))
    return total


class Town:
    """Layers of Helsinki: tables of geopandas, and as the code under test reads them from files."""

    def __init__(self, folder: Path, source: Path):
        self.folder = folder
        lines = pyogrio.read_dataframe(source, layer="lines")
        areas = pyogrio.read_dataframe(source, layer="multipolygons", on_invalid="ignore")
        areas = areas[areas.geometry.notna() & ~areas.geometry.is_empty]
        self.crossing = areas[~areas.geometry.is_valid][["osm_id", "geometry"]]
        areas = areas[areas.geometry.is_valid]
        points = pyogrio.read_dataframe(source, layer="points")
        amenity = points["other_tags"].str.extract(r'"amenity"=>"([^"]+)"')[0]
        self.tables: dict[str, Any] = {
            "streets": lines[lines["highway"].isin(["residential", "primary", "secondary", "tertiary", "unclassified"])],
            "trams": lines[lines["railway"] == "tram"], "houses": areas[areas["building"].notna()],
            "parks": areas[areas["leisure"] == "park"], "blocks": areas[areas["place"] == "city_block"],
            "shops": areas[areas["landuse"] == "commercial"],
            "restaurants": points[amenity == "restaurant"], "cafes": points[amenity == "cafe"]}  # fmt: skip
        named = self.tables["streets"].dropna(subset=["name"])
        merged = [shapely.line_merge(shapely.union_all(g.to_numpy())) for _, g in named.groupby("name")["geometry"]]
        # whole streets, as far as they are one line
        self.whole_streets = [g for g in merged if g.geom_type == "LineString" and g.is_simple and geodesic(g) > 150]
        for name, table in self.tables.items():
            table = table[["osm_id", "geometry"]].reset_index(drop=True)
            table.insert(0, "name", [f"{name} {k}" for k in range(len(table))])
            self.tables[name] = table

    def shapes(self, name: str, t: Transformer | None = None) -> Any:
        held = self.tables[name].geometry.to_numpy()
        return np.array([moved(g, t) for g in held], dtype=object) if t else held

    def keep(self, b: Bench, name: str, form: str = "gpkg", crs: str = "EPSG:4326") -> str:
        """A layer written to a file of that form and read by the code under test."""
        table = self.tables[name].to_crs(crs)
        path = self.folder / f"{name}-{crs[5:]}.{form}"
        if form == "csv":
            pd.DataFrame({"name": table["name"], "longitude": table.geometry.x, "latitude": table.geometry.y}).to_csv(
                path, index=False
            )
        elif form == "zip":
            inner = self.folder / f"shape-{name}-{crs[5:]}"
            inner.mkdir(exist_ok=True)
            pyogrio.write_dataframe(table, inner / f"{name}.shp")
            with zipfile.ZipFile(path, "w") as z:
                for part in inner.iterdir():
                    z.write(part, part.name)
        else:
            pyogrio.write_dataframe(table, path, driver={"gpkg": "GPKG", "geojson": "GeoJSON", "kml": "KML"}[form])
        found = vector_read(path, path.name)
        assert len(found.features) == len(table)
        return b.layers.put_features(found.features, kind="polygons", crs=found.crs, label=name).artifact


@pytest.fixture(scope="module")
def town(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Town:
    if "OSM" not in pyogrio.list_drivers():
        pytest.skip("this GDAL reads no OpenStreetMap files")
    with pytest.warns(RuntimeWarning, match=r"[Rr]ing|organizePolygons"):
        held = Town(tmp_path_factory.mktemp("town"), shared_data / "vector/Helsinki.osm.pbf")
    return held


# --- vector files ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("form", "crs"),
    [("geojson", "EPSG:4326"), ("gpkg", "EPSG:3879"), ("zip", "EPSG:32635"), ("kml", "EPSG:4326"), ("gpkg", "EPSG:3857")],
)
def test_streets_and_houses_are_as_long_and_as_large_from_any_file(town: Town, form: str, crs: str) -> None:
    """Lengths edge by edge with Geod, areas in an equal-area plane; also from Web Mercator, twice too long at 60° north."""
    b = bench()
    streets, houses = town.keep(b, "streets", form, crs), town.keep(b, "houses", form, crs)
    metres = sum(geodesic(g) for g in town.shapes("streets"))
    assert metres > 20_000
    assert value(b, {"streets": streets}, metric="length", unit="km") == pytest.approx(metres / 1000, rel=1e-5)
    flat = town.shapes("houses", EQUAL)
    together = shapely.union_all(flat).area
    o = call(b, {"houses": houses}, metric="area", unit="ha")
    assert o.result.value == pytest.approx(together / 1e4, rel=1e-5)
    assert o.evidence.intermediate["n_features"] == len(flat) > 300
    if together < sum(g.area for g in flat) * (1 - 1e-9):
        assert o.evidence.intermediate["sum_m2"] == pytest.approx(sum(g.area for g in flat), rel=1e-5)


@pytest.mark.slow
def test_streets_in_parks_and_houses_in_shopping_streets(town: Town) -> None:
    """Cut by shapely in planes of their own: length and share of lines, area and share of polygons, in and out."""
    b = bench()
    held = {
        n: town.keep(b, n, "gpkg", c)
        for n, c in (("streets", "EPSG:4326"), ("parks", "EPSG:3879"), ("houses", "EPSG:4326"), ("shops", "EPSG:32635"))
    }
    parks = shapely.union_all(town.shapes("parks", FLAT))
    inside = sum(float(g.intersection(parks).length) for g in town.shapes("streets", FLAT))
    whole = sum(float(g.length) for g in town.shapes("streets", FLAT))
    assert 50 < inside < whole
    pair = {"streets": held["streets"], "parks": held["parks"]}
    cut: dict[str, Any] = {"reference": "parks", "clip": True}
    assert value(b, pair, metric="length", relation="inside", **cut) == pytest.approx(inside, rel=1e-4)
    assert value(b, pair, metric="length", relation="outside", **cut) == pytest.approx(whole - inside, rel=1e-5)
    share = value(b, pair, metric="ratio", of="length", denominator="subject", relation="inside", **cut)
    assert share == pytest.approx(inside / whole, rel=1e-4)
    shops, houses = shapely.union_all(town.shapes("shops", EQUAL)), shapely.union_all(town.shapes("houses", EQUAL))
    pair = {"houses": held["houses"], "shops": held["shops"]}
    cut["reference"] = "shops"
    assert value(b, pair, metric="area", relation="inside", **cut) == pytest.approx(houses.intersection(shops).area, rel=1e-4)
    assert bare(b, pair, metric="area", relation="outside", **cut) == pytest.approx(houses.difference(shops).area, rel=1e-4)
    share = bare(b, pair, metric="ratio", of="area", denominator="reference", relation="inside", **cut)
    assert share == pytest.approx(houses.intersection(shops).area / shops.area, rel=1e-4)
    # within 30 m of the trams
    near = shapely.union_all([g.buffer(30, quad_segs=32) for g in town.shapes("trams", FLAT)])
    pair = {"houses": held["houses"], "trams": town.keep(b, "trams")}
    found = bare(b, pair, metric="area", relation="within", distance_m=30.0, reference="trams", clip=True)
    assert found == pytest.approx(shapely.union_all(town.shapes("houses", FLAT)).intersection(near).area, rel=1e-3)


def test_each_park_and_each_block(town: Town) -> None:
    """Lengths, numbers and densities by polygon, against geopandas' overlay and join."""
    import geopandas

    b = bench()
    parks, blocks = ({"vector": town.keep(b, n), "name_field": "name"} for n in ("parks", "blocks"))
    streets, food = town.keep(b, "streets"), town.keep(b, "restaurants", "csv")
    local = f"+proj=laea {ABOUT}"
    lines, areas = town.tables["streets"].to_crs(local), town.tables["parks"].to_crs(local)
    pieces = geopandas.overlay(lines[["geometry"]], areas, how="intersection", keep_geom_type=True)
    wanted = pieces.geometry.length.groupby(pieces["name"]).sum()
    o = call(
        b, {"streets": streets, "parks": parks}, metric="length", reference="parks", relation="inside", clip=True, each="parks"
    )
    found = rows(o)
    assert list(found) == list(areas["name"]) and (wanted > 50).sum() == 2
    for name, length in found.items():
        assert length == pytest.approx(float(wanted.get(name, 0.0)), rel=1e-4, abs=0.01), name
    best = call(
        b,
        {"streets": streets, "parks": parks},
        metric="length",
        reference="parks",
        relation="inside",
        clip=True,
        each="parks",
        pick="max",
    )
    assert best.result.value == wanted.idxmax()
    joined = geopandas.sjoin(town.tables["restaurants"], town.tables["blocks"], predicate="within")
    counts = joined["name_right"].value_counts()
    o = call(b, {"food": food, "blocks": blocks}, metric="count", reference="blocks", relation="inside", each="blocks")
    assert rows(o) == {n: int(counts.get(n, 0)) for n in town.tables["blocks"]["name"]} and counts.sum() > 20
    dense = rows(
        call(
            b,
            {"food": food, "blocks": blocks},
            metric="density",
            unit="1/ha",
            reference="blocks",
            relation="inside",
            each="blocks",
        )
    )
    for name, g in zip(town.tables["blocks"]["name"], town.shapes("blocks", EQUAL), strict=True):
        assert dense[name] == pytest.approx(counts.get(name, 0) / (g.area / 1e4), rel=1e-5), name


def test_the_share_of_each_block_that_houses_cover(town: Town) -> None:
    """Area and share by polygon, what overlaps once, by shapely in an equal-area plane."""
    b = bench()
    sources = {"houses": town.keep(b, "houses"), "blocks": {"vector": town.keep(b, "blocks"), "name_field": "name"}}
    cut: dict[str, Any] = {"reference": "blocks", "relation": "inside", "clip": True, "each": "blocks"}
    areas = rows(call(b, sources, metric="area", unit="m2", **cut))
    shares = rows(call(b, sources, metric="ratio", of="area", denominator="reference", **cut))
    houses = shapely.union_all(town.shapes("houses", EQUAL))
    names = list(town.tables["blocks"]["name"])
    assert list(areas) == list(shares) == names
    for name, g in zip(names, town.shapes("blocks", EQUAL), strict=True):
        built = houses.intersection(g).area
        assert areas[name] == pytest.approx(built, rel=1e-4, abs=0.1), name
        # an edge straight in degrees bulges by millimetres: a sliver of 40 m² along a street is 3 in 10,000 smaller
        assert shares[name] == pytest.approx(built / g.area, rel=1e-4 + 0.02 / g.area, abs=1e-6), name
    assert 0.2 < float(np.median(list(shares.values()))) < 1


@pytest.mark.slow
def test_relations_between_real_layers(town: Town) -> None:
    """Every relation, against shapely by brute force."""
    b = bench()
    held = {n: town.keep(b, n) for n in town.tables}
    flat = {n: town.shapes(n, FLAT) for n in town.tables}
    plain = {n: town.shapes(n) for n in town.tables}
    union = {n: shapely.union_all(g) for n, g in plain.items()}
    n_food = len(flat["restaurants"])
    gaps = {
        (a, c): np.array([shapely.union_all(flat[c]).distance(g) for g in flat[a]])
        for a, c in (("restaurants", "trams"), ("houses", "parks"), ("cafes", "restaurants"))
    }
    assert min(np.abs(gaps["restaurants", "trams"] - 50).min(), np.abs(gaps["houses", "parks"] - 25).min()) > 1e-3

    def overlaps(g: Any, other: Any) -> bool:
        return bool(
            g.intersects(other) and (g.intersection(other).area > 1e-12 if g.area and other.area else not g.touches(other))
        )

    parks = union["parks"]
    middle = moved_back(shapely.union_all(flat["parks"]).centroid)
    truth: dict[tuple[str, str, str], int] = {
        ("restaurants", "trams", "within"): int((gaps["restaurants", "trams"] <= 50).sum()),
        ("restaurants", "trams", "beyond"): int((gaps["restaurants", "trams"] > 50).sum()),
        ("houses", "parks", "within"): int((gaps["houses", "parks"] <= 25).sum()),
        ("restaurants", "blocks", "inside"): sum(bool(union["blocks"].covers(g)) for g in plain["restaurants"]),
        ("restaurants", "blocks", "outside"): sum(not union["blocks"].covers(g) for g in plain["restaurants"]),
        ("houses", "blocks", "inside"): sum(bool(union["blocks"].covers(g.centroid)) for g in plain["houses"]),
        ("houses", "blocks", "wholly_inside"): sum(bool(union["blocks"].buffer(1e-9).covers(g)) for g in plain["houses"]),
        ("streets", "parks", "overlaps"): sum(overlaps(g, parks) for g in plain["streets"]),
        ("streets", "parks", "not_overlapping"): sum(not overlaps(g, parks) for g in plain["streets"]),
        ("streets", "parks", "apart"): sum(parks.distance(g) > 1e-9 for g in plain["streets"]),
        ("trams", "streets", "overlaps"): sum(overlaps(g, union["streets"]) for g in plain["trams"]),
        ("trams", "streets", "touches"): sum(union["streets"].distance(g) <= 1e-9 and not overlaps(g, union["streets"])
                                             for g in plain["trams"]),
        ("houses", "shops", "overlaps"): sum(overlaps(g, union["shops"]) for g in plain["houses"]),
        ("restaurants", "parks", "north_of"): sum(g.y > middle.y for g in plain["restaurants"]),
        ("restaurants", "parks", "south_of"): sum(g.y < middle.y for g in plain["restaurants"]),
        ("restaurants", "parks", "east_of"): sum(g.x > middle.x for g in plain["restaurants"]),
        ("restaurants", "parks", "west_of"): sum(g.x < middle.x for g in plain["restaurants"]),
        ("restaurants", "cafes", "nearest"): 7,
    }  # fmt: skip
    for (one, other, relation), n in truth.items():
        limits: dict[str, dict[str, Any]] = {
            "within": {"distance_m": 25.0 if one == "houses" else 50.0},
            "beyond": {"distance_m": 50.0},
            "nearest": {"nearest_k": 7},
        }
        pair = {one: held[one], other: held[other]}
        found = value(b, pair, metric="count", reference=other, relation=relation, **limits.get(relation, {}))
        assert found == n, (one, other, relation)
    # walls stand on the lines of their blocks but for millimetres: the verifier takes either for right, and no other figure
    o = call(
        b, {"houses": held["houses"], "blocks": held["blocks"]}, metric="count", reference="blocks", relation="wholly_inside"
    )
    for off, says in ((-5, "failed"), (0, "passed"), (20, "failed")):
        told = o.model_copy(update={"result": o.result.model_copy(update={"value": o.result.value + off})})
        assert judged(b, told) == says
    assert 0 < truth["restaurants", "trams", "within"] < n_food and truth["houses", "blocks", "wholly_inside"] > 5
    assert truth["streets", "parks", "overlaps"] > 2 and truth["trams", "streets", "overlaps"] > 2
    share = value(
        b,
        {"restaurants": held["restaurants"], "trams": held["trams"]},
        metric="ratio",
        reference="trams",
        relation="within",
        distance_m=50.0,
        denominator="subject",
    )
    assert share == pytest.approx(truth["restaurants", "trams", "within"] / n_food)
    # the seven cafés that lie closest to a restaurant
    order = np.sort(gaps["cafes", "restaurants"])
    assert value(
        b,
        {"cafes": held["cafes"], "restaurants": held["restaurants"]},
        metric="distance",
        reference="restaurants",
        relation="nearest",
        nearest_k=7,
        distance_statistic="mean",
    ) == pytest.approx(float(order[:7].mean()), rel=1e-5)
    # in the hull of two parks, and in neither
    names = [str(n) for n in town.tables["parks"]["name"]]
    apart = int(np.argmax([g.distance(plain["parks"][0]) for g in plain["parks"]]))
    two = [plain["parks"][0], plain["parks"][apart]]
    hull, both = shapely.union_all([flat["parks"][0], flat["parks"][apart]]).convex_hull, shapely.union_all(two)
    between = sum(
        bool(hull.contains(f) and not both.contains(g)) for f, g in zip(flat["restaurants"], plain["restaurants"], strict=True)
    )
    sources = {
        "restaurants": held["restaurants"],
        "one": {"vector": held["parks"], "name_field": "name", "only": [names[0]]},
        "other": {"vector": held["parks"], "name_field": "name", "only": [names[apart]]},
    }
    assert value(b, sources, metric="count", reference="one", others=["other"], relation="between") == between > 5


def moved_back(g: Any) -> Any:
    return shapely.transform(g, lambda p: np.column_stack(FLAT.transform(p[:, 0], p[:, 1], direction="INVERSE")))


def test_distances_between_real_layers(town: Town) -> None:
    """Each restaurant's nearest stop of thought: edges, middles, least, mean and greatest; and among themselves."""
    b = bench()
    food, houses, parks = (town.keep(b, n) for n in ("restaurants", "houses", "parks"))
    at = np.array([(g.x, g.y) for g in town.shapes("restaurants")])
    far = np.array([GEOD.inv(np.full(len(at), x), np.full(len(at), y), at[:, 0], at[:, 1])[2] for x, y in at])
    np.fill_diagonal(far, np.inf)
    nearest = far.min(axis=1)
    for statistic, figure in (("minimum", np.min), ("mean", np.mean), ("maximum", np.max)):
        found = value(b, {"food": food}, metric="distance", distance_statistic=statistic)
        assert found == pytest.approx(float(figure(nearest)), rel=1e-6)
    flat = {n: town.shapes(n, FLAT) for n in ("houses", "parks")}
    gaps = np.array([min(g.distance(p) for p in flat["parks"]) for g in flat["houses"]])
    middles = [
        np.array([shapely.get_coordinates(moved(shapely.centroid(g)))[0] for g in town.shapes(n)]) for n in ("houses", "parks")
    ]
    centres = cdist(*middles).min(axis=1)
    for statistic, figure in (("minimum", np.min), ("mean", np.mean), ("maximum", np.max)):
        pair = {"houses": houses, "parks": parks}
        found = value(b, pair, metric="distance", reference="parks", distance_statistic=statistic)
        assert found == pytest.approx(float(figure(gaps)), rel=1e-5, abs=1e-3)
        found = value(b, pair, metric="distance", reference="parks", distance_statistic=statistic, distance_between="centroids")
        assert found == pytest.approx(float(figure(centres)), rel=1e-5)


# --- labelled vehicles -----------------------------------------------------------------------------------------------------
class Labelled:
    """DOTA's P1888: 64 outlines that people drew, and the metres of a pixel that DOTA gives."""

    def __init__(self, shared_data: Path):
        lines = (shared_data / "objects/dota_P1888_trucks.labelTxt").read_text().splitlines()
        self.gsd = float(next(line for line in lines if line.startswith("gsd:"))[4:])
        held = [line.split() for line in lines if len(line.split()) == 10]
        self.corners = np.array([[float(v) for v in part[:8]] for part in held]).reshape(-1, 4, 2)
        self.kinds = [part[8] for part in held]
        self.shapes = [shapely.Polygon(c) for c in self.corners]
        self.boxes = [shapely.box(*g.bounds) for g in self.shapes]
        info, stored = from_file(shared_data / "objects/dota_P1888_trucks.png", {"red": 1, "green": 2, "blue": 3})
        self.bench = Bench((info.model_copy(update={"gsd_m": self.gsd, "gsd_source": "person"}), stored))
        self.n_found = 0

    def found(self, shapes: Sequence[Any], label: str = "vehicle", kind: str = "polygons") -> Observation:
        features = [
            {"type": "Feature", "geometry": mapping(g), "properties": {"score": 1.0, "p": 1.0, "class": label, "target": label}}
            for g in shapes
        ]
        b = self.bench
        kept = b.layers.put_features(features, kind=kind, crs="image", label=label, scene_id="s")
        weak = b.layers.put_features([], kind=kind, crs="image", label="candidates", scene_id="s")
        self.n_found += 1
        return seen(b, [kept, weak]).model_copy(update={"id": f"found{self.n_found}"})


@pytest.fixture(scope="module")
def labelled(shared_data: Path) -> Labelled:
    return Labelled(shared_data)


def test_the_labelled_vehicles_are_counted_and_measured(labelled: Labelled) -> None:
    b, gsd = labelled.bench, labelled.gsd
    assert gsd == pytest.approx(0.266170468393)
    every = labelled.found(labelled.shapes)
    assert measure(b, {"metric": "count"}, ("vehicle", "objects", every)).result.value == 64  # DOTA's own number
    large = labelled.found([g for g, k in zip(labelled.shapes, labelled.kinds, strict=True) if k == "large-vehicle"], "truck")
    small = labelled.found([g for g, k in zip(labelled.shapes, labelled.kinds, strict=True) if k == "small-vehicle"], "car")
    o = measure(
        b, {"metric": "ratio", "subject": "truck", "reference": "car"}, ("truck", "objects", large), ("car", "objects", small)
    )
    assert o.result.value == pytest.approx(50 / 14)
    for shapes, kind in ((labelled.shapes, "polygons"), (labelled.boxes, "boxes")):
        o = measure(b, {"metric": "area"}, ("vehicle", "objects", labelled.found(shapes, kind=kind)))
        assert o.result.value == pytest.approx(shapely.union_all(shapes).area * gsd**2, rel=1e-9)
        assert o.evidence.intermediate.get("sum_m2", o.result.value) == pytest.approx(
            sum(g.area for g in shapes) * gsd**2, rel=1e-9
        )
    # corner by corner: the peers' area of a box
    boxes = [(c[:, 0].max() - c[:, 0].min()) * (c[:, 1].max() - c[:, 1].min()) * gsd**2 for c in labelled.corners]
    assert [i["area_m2"] for i in o.result.items] == pytest.approx(boxes, rel=1e-9)
    long_sides = [max(math.dist(c[0], c[1]), math.dist(c[1], c[2])) * gsd for c in labelled.corners]
    o = measure(b, {"metric": "length"}, ("vehicle", "objects", every))
    assert o.result.value == pytest.approx(float(np.mean(long_sides)), rel=0.02)  # drawn quadrangles are no exact rectangles
    o = measure(b, {"metric": "density", "unit": "1/ha"}, ("vehicle", "objects", every))
    height, width = b.stored["s"].shape[1:]
    assert o.result.value == pytest.approx(64 / (height * width * gsd**2 / 1e4), rel=1e-9)
    o = measure(b, {"metric": "boolean", "of": "count", "comparison": {"op": ">", "value": 60}}, ("vehicle", "objects", every))
    assert o.result.value is True


def test_long_sides_of_boxes_are_worked_out_again(labelled: Labelled) -> None:
    """Each, their mean and the largest, in a picture whose metres a person told: by numpy from the corners."""
    b = labelled.bench
    every = labelled.found(labelled.boxes, kind="boxes")
    spec = {"metric": "length", "subject": "vehicle", "length_of": "extent"}
    sides = np.ptp(labelled.corners, axis=1).max(axis=1) * labelled.gsd

    def told(o: Observation, check: str) -> str:
        found = run_checks(Case(o, b.question, (every,), (), (), b.layers, None))[0]
        return next(c.outcome for c in found if c.check == f"consistency.{check}")

    for statistic, figure in (("mean", np.mean), ("median", np.median), ("maximum", np.max), ("minimum", np.min)):
        o = measure(b, spec | {"statistic": statistic}, ("vehicle", "objects", every))
        assert o.result.value == pytest.approx(float(figure(sides)), rel=1e-6)
        assert told(o, "instances_recompute") == "passed"
        wrong = o.model_copy(update={"result": o.result.model_copy(update={"value": float(figure(sides)) / labelled.gsd})})
        assert told(wrong, "instances_recompute") == "failed"  # pixels called metres
    o = measure(b, spec | {"each": "vehicle", "pick": "max"}, ("vehicle", "objects", every))
    assert [i["value"] for i in o.result.items] == pytest.approx(sides.tolist(), rel=1e-6)
    assert o.result.value == f"vehicle {int(sides.argmax()) + 1}" and told(o, "rows_recompute") == "passed"
    listed = [dict(i) for i in o.result.items]
    listed[0]["value"], listed[20]["value"] = listed[20]["value"], listed[0]["value"]
    for items in (listed, listed[1:], [*listed[1:], listed[1]]):
        other = o.model_copy(update={"result": o.result.model_copy(update={"items": tuple(items)})})
        assert told(other, "rows_recompute") == "failed"


def test_the_distances_of_labelled_vehicles(labelled: Labelled) -> None:
    """Middles by scipy, edges by shapely: each vehicle's nearest, and those of one kind from the other."""
    b, gsd = labelled.bench, labelled.gsd
    every = labelled.found(labelled.boxes, kind="boxes")
    middles = np.array([((c[:, 0].min() + c[:, 0].max()) / 2, (c[:, 1].min() + c[:, 1].max()) / 2) for c in labelled.corners])
    apart = squareform(pdist(middles)) * gsd
    np.fill_diagonal(apart, np.inf)
    edges = (
        np.array(
            [[g.distance(h) if i != j else np.inf for j, h in enumerate(labelled.boxes)] for i, g in enumerate(labelled.boxes)]
        )
        * gsd
    )
    for between, gaps in (("centroids", apart), ("edges", edges)):
        for statistic, figure in (("minimum", np.min), ("mean", np.mean), ("maximum", np.max)):
            o = measure(
                b,
                {"metric": "distance", "distance_statistic": statistic, "distance_between": between},
                ("vehicle", "objects", every),
            )
            assert o.result.value == pytest.approx(float(figure(gaps.min(axis=1))), rel=1e-9, abs=1e-9)
    # each item names its own nearest
    o = measure(b, {"metric": "distance", "distance_between": "centroids"}, ("vehicle", "objects", every))
    assert [i["distance_m"] for i in o.result.items] == pytest.approx(apart.min(axis=1).tolist(), rel=1e-9)
    is_small = np.array([k == "small-vehicle" for k in labelled.kinds])
    small = labelled.found([g for g, s in zip(labelled.shapes, is_small, strict=True) if s], "car")
    large = labelled.found([g for g, s in zip(labelled.shapes, is_small, strict=True) if not s], "truck")
    gaps = (
        np.array(
            [
                [labelled.shapes[i].distance(labelled.shapes[j]) for j in np.flatnonzero(~is_small)]
                for i in np.flatnonzero(is_small)
            ]
        ).min(axis=1)
        * gsd
    )
    for relation, more, wanted in (
        ("within", {"distance_m": 40.0}, (gaps <= 40).sum()),
        ("beyond", {"distance_m": 40.0}, (gaps > 40).sum()),
        ("overlaps", {}, 0),
    ):
        o = measure(
            b,
            {"metric": "count", "subject": "car", "reference": "truck", "relation": relation, **more},
            ("car", "objects", small),
            ("truck", "objects", large),
        )
        assert o.result.value == wanted, relation


# --- labelled trees in plots -----------------------------------------------------------------------------------------------
def test_trees_are_counted_in_each_quarter(shared_data: Path) -> None:
    """NEON's 61 crowns, in four plots of the picture's CRS, by the middles of their boxes."""
    table = pd.read_csv(shared_data / "trees/OSBS_029.csv")
    b = Bench(from_file(shared_data / "trees/OSBS_029.tif", {"red": 1, "green": 2, "blue": 3}))
    with rasterio.open(shared_data / "trees/OSBS_029.tif") as src:
        transform, bounds, crs = src.transform, src.bounds, src.crs.to_string()
    boxes = [shapely.box(*r) for r in table[["xmin", "ymin", "xmax", "ymax"]].to_numpy(dtype=float)]
    features = [
        {"type": "Feature", "geometry": mapping(g), "properties": {"score": 0.8, "p": 0.8, "class": "tree", "target": "tree"}}
        for g in boxes
    ]
    kept = b.layers.put_features(features, kind="boxes", crs="image", label="vehicle", scene_id="s")
    weak = b.layers.put_features([], kind="boxes", crs="image", label="candidates", scene_id="s")
    parent = seen(b, [kept, weak])
    x, y = (bounds.left + bounds.right) / 2, (bounds.bottom + bounds.top) / 2
    quarters = {
        "NW": shapely.box(bounds.left, y, x, bounds.top),
        "NE": shapely.box(x, y, bounds.right, bounds.top),
        "SW": shapely.box(bounds.left, bounds.bottom, x, y),
    }  # the fourth is left out
    digest = b.layers.put_features(
        [{"type": "Feature", "geometry": mapping(g), "properties": {"name": n}} for n, g in quarters.items()],
        kind="polygons",
        crs=crs,
        label="plots",
    ).artifact
    middles = [transform * ((g.bounds[0] + g.bounds[2]) / 2, (g.bounds[1] + g.bounds[3]) / 2) for g in boxes]
    wanted = {n: sum(bool(g.covers(shapely.Point(m))) for m in middles) for n, g in quarters.items()}
    o = perceived(b, parent, digest, "objects", metric="count", each="fields")
    assert rows(o) == wanted and 30 < sum(wanted.values()) < 61
    assert o.evidence.intermediate["n_in_none"] == 61 - sum(wanted.values())
    for item in o.result.items:
        # probabilities of 0.8 each: their sum and its spread, 90 %
        n = wanted[item["zone"]]
        assert item["low"] <= n <= item["high"] and item["low"] >= math.floor(0.8 * n - 1.6449 * math.sqrt(0.16 * n))
    dense = rows(perceived(b, parent, digest, "objects", metric="density", unit="1/ha", each="fields"))
    for name, g in quarters.items():
        to_globe = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
        ring = np.column_stack(to_globe.transform(*shapely.get_coordinates(g).T))
        ground = abs(GEOD.polygon_area_perimeter(ring[:, 0], ring[:, 1])[0])
        assert dense[name] == pytest.approx(wanted[name] / (ground / 1e4), rel=1e-4)


def test_each_crown_has_its_area_in_a_file_in_degrees(shared_data: Path) -> None:
    """Boxes of a few square metres: UTM's areas over the square of its scale there, which pyproj tells; leaves of a tenth too."""
    table = pd.read_csv(shared_data / "trees/OSBS_029.csv")
    with rasterio.open(shared_data / "trees/OSBS_029.tif") as src:
        transform, crs = src.transform, src.crs.to_string()
    to_globe = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    a, b_, c, d, e, f = tuple(transform)[:6]
    own = [shapely.affinity.affine_transform(shapely.box(*r), (a, b_, d, e, c, f))
           for r in table[["xmin", "ymin", "xmax", "ymax"]].to_numpy(dtype=float)]  # fmt: skip
    own += [shapely.affinity.scale(g, 0.1, 0.1) for g in own]
    factors = Proj(crs).get_factors(*to_globe.transform(own[0].centroid.x, own[0].centroid.y))
    wanted = [g.area / factors.areal_scale for g in own]
    assert min(wanted) < 0.05 < 5 < max(wanted)
    b = bench()
    features = [{"type": "Feature", "geometry": mapping(moved(g, to_globe)), "properties": {"name": str(k)}}
                for k, g in enumerate(own)]  # fmt: skip
    digest = b.layers.put_features(features, kind="polygons", crs="EPSG:4326", label="crowns").artifact
    found = rows(call(b, {"crowns": {"vector": digest, "name_field": "name"}}, metric="area", each="crowns"))
    assert list(found.values()) == pytest.approx(wanted, rel=1e-6)


# --- a labelled flood ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def flood(shared_data: Path) -> tuple[Path, NDArray[np.int16], Any]:
    path = shared_data / "water_flood/Spain_7370579_LabelHand.tif"
    with rasterio.open(path) as src:
        return path, src.read(1), src.transform


def test_labelled_water_is_cut_to_polygons_by_pixel_centres(flood: tuple[Path, NDArray[np.int16], Any]) -> None:
    """A triangle and a turned square over the flood, rasterized by rasterio; pixel areas on the ellipsoid row by row."""
    path, label, transform = flood
    b = Bench(from_file(path, {"gray": 1}))
    water, known = label == 1, label >= 0
    parent = mask_of(b, water, valid=known)
    west, north = transform.c, transform.f
    plots = {
        "F1": shapely.Polygon([(west + 0.004, north - 0.004), (west + 0.04, north - 0.012), (west + 0.01, north - 0.03)]),
        "F2": shapely.affinity.rotate(shapely.box(west + 0.015, north - 0.04, west + 0.035, north - 0.02), 31),
    }
    digest = b.layers.put_features(
        [{"type": "Feature", "geometry": mapping(g), "properties": {"name": n}} for n, g in plots.items()],
        kind="polygons",
        crs="EPSG:4326",
        label="plots",
    ).artifact
    lat = north + transform.e * np.arange(label.shape[0] + 1)
    area = np.array(
        [
            abs(GEOD.polygon_area_perimeter([west, west + transform.a, west + transform.a, west], [a, a, c, c])[0])
            for a, c in pairwise(lat)
        ]
    )[:, None] * np.ones(label.shape[1])

    def inside(*shapes: Any) -> NDArray[np.bool_]:
        return np.asarray(geometry_mask(list(shapes), label.shape, transform, invert=True))

    o = perceived(b, parent, digest, "regions", metric="area", unit="ha", clip=True)
    both = inside(*plots.values())
    assert o.result.value == pytest.approx(area[both & water].sum() / 1e4, rel=1e-5)
    assert o.evidence.intermediate["n_px"] == (both & water).sum() > 10_000
    assert o.evidence.intermediate["whole_m2"] == pytest.approx(area[water].sum(), rel=1e-5)
    # half of the pixels at the shore, on each side of it, where both sides are known
    four = ndimage.generate_binary_structure(2, 1)
    held, seen_there = both & water, both & known
    shore = held & ndimage.binary_dilation(seen_there & ~held, four)
    low, high = o.result.interval
    assert low < o.result.value < high
    assert o.result.value - low >= 0.49 * area[shore].sum() / 1e4
    outside = perceived(b, parent, digest, "regions", metric="area", unit="ha", clip=True, relation="outside")
    assert outside.result.value == pytest.approx(area[water & ~both].sum() / 1e4, rel=1e-5)
    each = rows(perceived(b, parent, digest, "regions", metric="area", unit="ha", clip=True, each="fields"))
    assert each == {n: pytest.approx(area[inside(g) & water].sum() / 1e4, rel=1e-5) for n, g in plots.items()}
    share = rows(
        perceived(b, parent, digest, "regions", metric="ratio", of="area", denominator="reference", clip=True, each="fields")
    )
    for name, g in plots.items():
        ground = abs(GEOD.geometry_area_perimeter(shapely.orient_polygons(g))[0])
        # edges straight in degrees against geodesic ones
        assert share[name] == pytest.approx(area[inside(g) & water].sum() / ground, rel=1e-4)


def test_pieces_of_labelled_water_and_what_lies_near_it(flood: tuple[Path, NDArray[np.int16], Any]) -> None:
    path, label, transform = flood
    b = Bench(from_file(path, {"gray": 1}))
    water = label == 1
    big = ndimage.label(water, np.ones((3, 3)))[0]
    sizes = np.bincount(big.ravel())[1:]
    largest = big == int(np.argmax(sizes)) + 1
    parent = mask_of(b, water, valid=label >= 0)
    o = measure(b, {"metric": "count"}, ("water", "regions", parent))
    assert o.result.value == len(sizes) > 50
    o = measure(b, {"metric": "ratio"}, ("water", "regions", parent))
    lat = transform.f + transform.e * np.arange(513)
    area = np.array(
        [abs(GEOD.polygon_area_perimeter([0, transform.a, transform.a, 0], [a, a, c, c])[0]) for a, c in pairwise(lat)]
    )[:, None] * np.ones(512)
    assert o.result.value == pytest.approx(area[water].sum() / area[label >= 0].sum(), rel=1e-6)
    # other pieces from the largest, corner to corner, in metres of a plane about the middle
    pond = mask_of(b, water & ~largest, label="pond")
    lake = mask_of(b, largest, label="lake")
    o = measure(
        b,
        {"metric": "distance", "subject": "pond", "reference": "lake", "distance_statistic": "maximum"},
        ("pond", "regions", pond),
        ("lake", "regions", lake),
    )
    dx = GEOD.inv(transform.c, lat[256], transform.c + transform.a, lat[256])[2]
    dy = GEOD.inv(transform.c, lat[256], transform.c, lat[257])[2]
    away = ndimage.distance_transform_edt(~largest)
    assert away.max() > 10

    # from each corner of a pond to the nearest corner of the lake
    def corners(m: NDArray[np.bool_]) -> NDArray[np.float64]:
        r, c = np.nonzero(m & ~ndimage.binary_erosion(m))
        at = np.unique(np.concatenate([np.stack([c + i, r + j], axis=1) for i in (0, 1) for j in (0, 1)]), axis=0)
        return np.asarray(at * np.array([dx, dy]))

    from scipy.spatial import cKDTree

    tree = cKDTree(corners(largest))
    rest, n = ndimage.label(water & ~largest, np.ones((3, 3)))
    gaps = [float(tree.query(corners(rest == k + 1))[0].min()) for k in range(n)]
    assert o.result.value == pytest.approx(max(gaps), rel=2e-3)
    assert o.evidence.intermediate["mean_m"] == pytest.approx(float(np.mean(gaps)), rel=5e-3)


# --- lengths of masks ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("crs", "pixel"), [("EPSG:32635", 2.0), ("EPSG:4326", 2e-5), ("EPSG:3857", 4.0)])
def test_masks_of_real_streets_are_as_long_as_the_streets(town: Town, crs: str, pixel: float) -> None:
    """Streets of over 150 m, drawn as wide as they are (8 m) on grids whose pixels are square, oblong and stretched on the
    ground: the length of each mask against Geod along the street."""
    assert len(town.whole_streets) > 12
    errors = []
    for line in town.whole_streets:
        to = Transformer.from_crs("EPSG:4326", crs, always_xy=True)
        wide = moved_back(moved(line).buffer(4, cap_style="flat"))
        placed = moved(wide, to)
        x0, y0, x1, y1 = placed.bounds
        width, height = int((x1 - x0) / pixel) + 20, int((y1 - y0) / pixel) + 20
        if width * height > 4_000_000:
            continue
        grid = rasterio.transform.from_origin(x0 - 10 * pixel, y1 + 10 * pixel, pixel, pixel)
        drawn = rasterize([placed], (height, width), transform=grid).astype(bool)
        info, stored = scene(np.ones((1, height, width), dtype=np.uint8), ["gray"], crs=crs, pixel=pixel, origin=(grid.c, grid.f))
        b = Bench((info, stored))
        o = measure(b, {"metric": "length"}, ("road", "regions", mask_of(b, drawn, label="road")))
        truth = geodesic(line)
        low, high = o.result.interval
        assert low <= truth <= high, (truth, o.result.value)
        errors.append(o.result.value / truth - 1)
    assert len(errors) > 10 and np.abs(errors).max() < 0.08 and abs(float(np.median(errors))) < 0.03


# --- places on real scenes -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("multispectral/geopandas_s2a_l2a_fishbourne.tif", (40.5, 30.5), (250.5, 180.5)),
        ("water_flood/Spain_7370579_S2Hand.tif", (10.5, 500.5), (480.5, 20.5)),
        ("timeseries/mod13q1_sinop/TERRA_MODIS_012010_NDVI_2013-09-14.jp2", (5.5, 5.5), (200.5, 100.5)),
    ],
)
def test_distance_and_bearing_of_two_pixels_of_real_scenes(
    shared_data: Path, name: str, one: tuple[float, float], other: tuple[float, float]
) -> None:
    """UTM, degrees and the sinusoidal grid of MODIS: places by rasterio, distance and bearing by pyproj."""
    path = shared_data / name
    b = Bench(from_file(path, {"gray": 1}))
    with rasterio.open(path) as src:
        to_globe = Transformer.from_crs(src.crs, "EPSG:4326", always_xy=True)
        places = [to_globe.transform(*(src.transform * p)) for p in (one, other)]
    bearing, _, metres = GEOD.inv(places[0][0], places[0][1], places[1][0], places[1][1])
    call_of = {
        "image_paths": ["s"],
        "objective": "x",
        "mode": "measurement",
        "landmarks": [f"px:{one[0]},{one[1]}", f"lonlat:{places[1][0]:.10f},{places[1][1]:.10f}"],
    }
    o = b.call("perceive", call_of)
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == pytest.approx(metres, rel=1e-6)
    o = b.call("perceive", {**call_of, "landmarks_method": {"measure": "azimuth"}})
    assert o.result.value == pytest.approx(bearing % 360, abs=1e-3)


# --- the pair farthest apart -----------------------------------------------------------------------------------------------
def test_the_labelled_vehicles_that_are_farthest_apart(labelled: Labelled) -> None:
    """The peers' closest and farthest pair of middles, by scipy over all pairs; also edge to edge, and of two kinds."""
    b, gsd = labelled.bench, labelled.gsd
    every = labelled.found(labelled.boxes, kind="boxes")
    middles = np.array([shapely.get_coordinates(g.centroid)[0] for g in labelled.boxes])
    apart = squareform(pdist(middles)) * gsd
    spec = {"metric": "distance", "distance_statistic": "farthest", "distance_between": "centroids"}
    o = measure(b, spec, ("vehicle", "objects", every))
    i, j = np.unravel_index(int(apart.argmax()), apart.shape)
    assert o.result.value == pytest.approx(apart.max(), rel=1e-9)
    assert {o.result.items[0]["subject"], o.result.items[0]["reference"]} == {int(i), int(j)}
    # the greatest distance to the nearest neighbour is another, far smaller figure
    nearest = measure(b, {**spec, "distance_statistic": "maximum"}, ("vehicle", "objects", every))
    assert nearest.result.value < 0.5 * o.result.value
    o = measure(b, {**spec, "distance_between": "edges"}, ("vehicle", "objects", every))
    edges = max(g.distance(h) for g in labelled.boxes for h in labelled.boxes) * gsd
    assert o.result.value == pytest.approx(edges, rel=1e-9) and o.configuration.fine == "distance/farthest/objects"
    is_small = [k == "small-vehicle" for k in labelled.kinds]
    cars = [g for g, s in zip(labelled.boxes, is_small, strict=True) if s]
    trucks = [g for g, s in zip(labelled.boxes, is_small, strict=True) if not s]
    o = measure(
        b,
        {"metric": "distance", "distance_statistic": "farthest", "subject": "car", "reference": "truck"},
        ("car", "objects", labelled.found(cars, "car", "boxes")),
        ("truck", "objects", labelled.found(trucks, "truck", "boxes")),
    )
    assert o.result.value == pytest.approx(max(g.distance(h) for g in cars for h in trucks) * gsd, rel=1e-9)


def test_the_restaurants_that_are_farthest_apart(town: Town) -> None:
    """Over all pairs by Geod; houses from parks edge to edge in a plane; the verifier finds them again and no other figure."""
    b = bench()
    at = np.array([(g.x, g.y) for g in town.shapes("restaurants")])
    far = max(float(GEOD.inv(np.full(len(at), x), np.full(len(at), y), at[:, 0], at[:, 1])[2].max()) for x, y in at)
    food = {"food": town.keep(b, "restaurants")}
    assert value(b, food, metric="distance", distance_statistic="farthest") == pytest.approx(far, rel=1e-6)
    pair = {"houses": town.keep(b, "houses"), "parks": town.keep(b, "parks")}
    houses, parks = (town.shapes(n, FLAT) for n in ("houses", "parks"))
    gaps = max(float(shapely.distance(g, parks).max()) for g in houses)
    found = value(b, pair, metric="distance", reference="parks", distance_statistic="farthest")
    assert found == pytest.approx(gaps, rel=1e-5)
    o = call(b, food, metric="distance", distance_statistic="farthest")
    neighbours = call(b, food, metric="distance", distance_statistic="maximum").result.value
    for told, says in ((far, "passed"), (neighbours, "failed"), (far / 2, "failed")):
        assert judged(b, o.model_copy(update={"result": o.result.model_copy(update={"value": told})})) == says


def test_pieces_of_labelled_water_that_are_farthest_apart(flood: tuple[Path, NDArray[np.int16], Any]) -> None:
    """Masks: every pair of pieces, as shapely has them in metres of their middle."""
    path, label, transform = flood
    b = Bench(from_file(path, {"gray": 1}))
    water = label[:160, :160] == 1
    whole = np.zeros_like(label, dtype=bool)
    whole[:160, :160] = water
    parent = mask_of(b, whole)
    o = measure(b, {"metric": "distance", "distance_statistic": "farthest"}, ("water", "regions", parent))
    pieces, n = ndimage.label(water, np.ones((3, 3)))
    lat = transform.f + transform.e * 80
    size = [
        GEOD.inv(transform.c, lat, transform.c + transform.a, lat)[2],
        GEOD.inv(transform.c, lat, transform.c, lat + transform.e)[2],
    ]
    shapes = []
    for k in range(1, n + 1):
        r, c = np.nonzero(pieces == k)
        shapes.append(shapely.union_all(shapely.box(c * size[0], r * size[1], (c + 1) * size[0], (r + 1) * size[1])))
    wanted = max(float(shapely.distance(g, np.array(shapes, dtype=object)).max()) for g in shapes)
    assert n > 5 and o.result.value == pytest.approx(wanted, rel=1e-3)


# --- shapes as they come ---------------------------------------------------------------------------------------------------
def test_outlines_of_a_real_town_that_cross_themselves_are_mended_and_measured(town: Town) -> None:
    """OpenStreetMap's multipolygons that are not valid: their mended polygons, without the lines that mending leaves."""
    path = town.folder / "crossing.geojson"
    pyogrio.write_dataframe(town.crossing, path, driver="GeoJSON")
    found = vector_read(path, path.name)
    assert len(found.features) == len(town.crossing) > 30 and any("mended" in w for w in found.warnings)
    assert "GeometryCollection" not in found.kinds
    b = bench()
    held = {"areas": b.layers.put_features(found.features, kind="polygons", crs=found.crs, label="areas").artifact}
    mended = [moved(shapely.make_valid(g), EQUAL) for g in town.crossing.geometry]
    polygons = [p for g in mended for p in shapely.get_parts(shapely.get_parts(g)) if p.geom_type == "Polygon"]
    ground = shapely.union_all(polygons).area
    o = call(b, held, metric="area")
    assert o.status.state == "ok" and o.result.value == pytest.approx(ground, rel=1e-5)
    assert value(b, held, metric="count") == len(town.crossing)
    # a few collapse to lines, whose outline nobody can ask for
    whole = [f for f in found.features if f["geometry"]["type"] in ("Polygon", "MultiPolygon")]
    rims = sum(float(moved(shapely.geometry.shape(f["geometry"])).length) for f in whole)
    held["areas"] = b.layers.put_features(whole, kind="polygons", crs=found.crs, label="whole").artifact
    assert 15 < len(whole) < len(town.crossing)
    assert call(b, held, metric="length", length_of="outline").result.value == pytest.approx(rims, rel=1e-5)


def test_a_collection_of_a_polygon_and_its_label_is_measured_as_the_polygon(town: Town) -> None:
    """A park with a point in it, as label makers and KML write them."""
    park = town.shapes("parks")[0]
    feature = {"type": "Feature", "properties": {"name": "park"}, "geometry": {
        "type": "GeometryCollection", "geometries": [mapping(park), mapping(park.representative_point())]}}  # fmt: skip
    path = town.folder / "labelled.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    found = vector_read(path, path.name)
    assert len(found.features) == 1 and set(found.kinds) <= {"Polygon", "MultiPolygon"}
    assert any("several kinds" in w for w in found.warnings)
    b = bench()
    held = {"park": b.layers.put_features(found.features, kind="polygons", crs=found.crs, label="park").artifact}
    assert value(b, held, metric="area") == pytest.approx(moved(park, EQUAL).area, rel=1e-5)
    assert value(b, held, metric="length", length_of="outline") == pytest.approx(moved(park).length, rel=1e-4)
