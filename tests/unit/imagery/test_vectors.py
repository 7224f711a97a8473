"""Vector files: what they hold, and hostile ones. Real files are checked against what their publishers say of them."""

from __future__ import annotations

import json
import sqlite3
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import shapely

from apps.core.errors import UserError
from apps.imagery.vectors import VectorFile, csv_features, sniff_vector, unpack_shapefile, vector_read

SQUARE = {"type": "Polygon", "coordinates": [[[10, 50], [10.01, 50], [10.01, 50.01], [10, 50.01], [10, 50]]]}
EPSG_25832 = [(500000.0, 5500000.0), (500100.0, 5500000.0), (500100.0, 5500100.0), (500000.0, 5500100.0), (500000.0, 5500000.0)]


def geojson(path: Path, *geometries: Any, **more: Any) -> Path:
    features = [{"type": "Feature", "geometry": g, "properties": {"name": f"f{i}"}} for i, g in enumerate(geometries)]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}))
    return path


def shapefile(folder: Path, *, with_prj: bool = True) -> Path:
    folder.mkdir()
    pyogrio.raw.write(folder / "a.shp", np.array([shapely.to_wkb(shapely.Polygon(EPSG_25832))]),
                      [np.array([7])], ["size"], geometry_type="Polygon", crs="EPSG:25832", driver="ESRI Shapefile")
    target = folder / "a.zip"
    with zipfile.ZipFile(target, "w") as z:
        for part in folder.glob("a.*"):
            if part.suffix != ".zip" and (with_prj or part.suffix != ".prj"):
                z.write(part, f"data/{part.name}")
    return target


def code(path: Path, name: str = "", **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        vector_read(path, name or path.name, **more)
    return caught.value.code


def test_a_zipped_shapefile_keeps_its_crs_and_needs_one(tmp_path: Path) -> None:
    found = vector_read(shapefile(tmp_path / "a"), "a.zip")
    assert (found.crs, found.kinds, found.features[0]["properties"]) == ("EPSG:25832", {"Polygon": 1}, {"size": 7})
    assert found.bounds == (500000.0, 5500000.0, 500100.0, 5500100.0)
    bare = shapefile(tmp_path / "b", with_prj=False)
    assert code(bare) == "NEEDS_CRS"
    told = vector_read(bare, "b.zip", crs="EPSG:25832")
    assert (told.crs, told.crs_source) == ("EPSG:25832", "person")
    assert code(bare, crs="EPSG:4326") == "NEEDS_CRS"  # metres are no degrees
    assert code(bare, crs="EPSG:99999999") == "BAD_ARGUMENT"


def test_kml_and_tables(tmp_path: Path) -> None:
    kml = tmp_path / "a.kml"
    kml.write_text('<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document><Placemark><name>A</name><Point>'
                   "<coordinates>10,50,3</coordinates></Point></Placemark></Document></kml>")
    found = vector_read(kml, "a.kml")
    assert found.crs == "EPSG:4326" and found.features[0]["geometry"]["coordinates"] == [10, 50]
    table = tmp_path / "a.csv"
    table.write_text("name;Latitude;Longitude\nhere;50.5;10.25\nnowhere;;\n")
    found = vector_read(table, "a.csv")
    assert found.features[0]["geometry"] == {"type": "Point", "coordinates": [10.25, 50.5]} and "1 rows" in found.warnings[0]
    table.write_text("x,y\n500000,5500000\n")
    assert code(table) == "NEEDS_CRS"
    assert vector_read(table, "a.csv", crs="EPSG:25832").crs == "EPSG:25832"
    features, crs, _, _ = csv_features("wkt\n\"POINT (1 2)\"\n", "t", "EPSG:4326")
    assert (features[0]["geometry"]["coordinates"], crs) == ([1.0, 2.0], "EPSG:4326")


def test_a_comma_in_a_number_is_never_taken_for_the_end_of_a_field_or_of_a_thousand() -> None:
    """Decimal commas in a table parted by commas would put a point of Munich at 48° N, 1° E."""
    for text, crs, says in (
        ("name,lat,lon\na,48,1,11,5\nb,48,2,11,6\n", None, "more fields than its heading"),
        ("name,x,y\na,\"500,000\",\"300,000\"\n", "EPSG:27700", "500,000, 300,000"),
        ("name,lat,lon\na,48°06'00N,11°30'00E\n", None, "48°06'00N"),
        ("name,lat,lon\na,33.9S,18.4E\n", None, "33.9S"),
    ):
        with pytest.raises(UserError) as caught:
            csv_features(text, "t.csv", crs)
        assert caught.value.code == "UNREADABLE" and says in caught.value.why
    table, _, _, warnings = csv_features("name,lat,lon\na,48.1,11.5\nb, Inc.,48.2,11.6\nc,48.3,11.7,\n", "t.csv", None)
    assert [f["geometry"]["coordinates"] for f in table] == [[11.5, 48.1], [11.7, 48.3]]
    assert warnings == ["1 rows have more fields than the heading names and are left out."]
    for text, crs in (("name;lat;lon\na;48,100;11,5\n", None), ("name;x;y\na;11,500;48,1\n", "EPSG:4326")):
        table, _, _, warnings = csv_features(text, "t.csv", crs)
        assert (table[0]["geometry"]["coordinates"], warnings) == ([11.5, 48.1], [])
    table, *_ = csv_features("name;x;y\na;500000,25;5300000,5\n", "t.csv", "EPSG:32632")
    assert table[0]["geometry"]["coordinates"] == [500000.25, 5300000.5]


def test_northing_before_easting_is_refused(tmp_path: Path) -> None:
    """A square in UTM 32 near Munich; a zone's neighbours stay readable, and so does a plot whose axes nobody could tell."""
    path = tmp_path / "a.gpkg"

    def written(x: float, y: float, crs: str = "EPSG:32632") -> str:
        shapes = np.array([shapely.to_wkb(shapely.box(x, y, x + 1000, y + 1000))], dtype=object)
        path.unlink(missing_ok=True)
        pyogrio.raw.write(path, shapes, [], [], geometry_type="Polygon", crs=crs, driver="GPKG")
        try:
            return vector_read(path, "a.gpkg").crs
        except UserError as error:
            return error.why

    assert written(690_000, 5_330_000) == "EPSG:32632"
    assert "with northing and easting exchanged" in written(5_330_000, 690_000)
    assert written(1_100_000, 5_330_000) == "EPSG:32632"
    assert written(300_000, 600_000, "EPSG:27700") == "EPSG:27700"


def test_a_ring_around_a_pole_and_shapes_that_are_there_twice_are_told(tmp_path: Path) -> None:
    for lats in ((89, 89, 89, 89), (80, 82, 81, 83)):
        ring = [[lon, lat] for lon, lat in zip((0, 90, 180, -90), lats, strict=True)]
        path = geojson(tmp_path / "p.geojson", {"type": "Polygon", "coordinates": [[*ring, ring[0]]]})
        with pytest.raises(UserError) as caught:
            vector_read(path, "p.geojson")
        assert "around a pole" in caught.value.what
    fiji = [[179.9, -17], [-179.9, -17], [-179.9, -16], [179.9, -16], [179.9, -17]]
    found = vector_read(geojson(tmp_path / "f.geojson", {"type": "Polygon", "coordinates": [fiji]}), "f.geojson")
    assert found.warnings == ("1 features cross the 180° meridian; they were cut there.",)
    turned = {"type": "Polygon", "coordinates": [SQUARE["coordinates"][0][::-1]]}
    found = vector_read(geojson(tmp_path / "t.geojson", SQUARE, turned, turned), "t.geojson")
    assert len(found.features) == 3 and "2 features have the same shape as another" in found.warnings[0]
    table = tmp_path / "t.csv"
    table.write_text("name,lat,lon\na,48,11\na,48,11\nb,48,11\n")
    assert "1 feature has the same shape" in vector_read(table, "t.csv").warnings[0]


def test_empty_and_broken_geometries_are_told(tmp_path: Path) -> None:
    bow = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}
    found = vector_read(geojson(tmp_path / "a.geojson", SQUARE, None, bow), "a.geojson")
    assert len(found.features) == 2 and len(found.warnings) == 2
    assert code(geojson(tmp_path / "b.geojson", None)) == "UNREADABLE"
    metres = {"type": "Point", "coordinates": [500000, 5500000]}
    assert code(geojson(tmp_path / "c.geojson", metres)) == "NEEDS_CRS"


def test_coordinates_that_are_no_numbers_are_left_out_and_told(tmp_path: Path) -> None:
    nan = {"type": "Polygon", "coordinates": [[[10, 50], [float("nan"), 50], [11, 51], [10, 50]]]}
    path = tmp_path / "a.gpkg"
    shapes = [shapely.Point(10, 50), shapely.Point(float("nan"), 50), shapely.from_wkt("POLYGON EMPTY")]
    pyogrio.raw.write(path, np.array([shapely.to_wkb(g) for g in shapes], dtype=object), [], [], geometry_type="Unknown",
                      crs="EPSG:4326", driver="GPKG")
    found = vector_read(path, "a.gpkg")
    assert len(found.features) == 1 and found.kinds == {"Point": 1}
    assert any("empty" in w or "no geometry" in w for w in found.warnings)
    table, _, _, warnings = csv_features("longitude,latitude\n10,50\nnan,50\n,50\n", "a.csv", None)
    assert len(table) == 1 and "2 rows" in warnings[0]
    assert code(geojson(tmp_path / "b.geojson", nan)) == "UNREADABLE"


def test_degrees_and_metres_are_not_mixed_up(tmp_path: Path) -> None:
    shapes = np.array([shapely.to_wkb(shapely.box(10.0, 50.0, 10.1, 50.1))], dtype=object)
    path = tmp_path / "a.gpkg"
    pyogrio.raw.write(path, shapes, [], [], geometry_type="Polygon", crs="EPSG:32632", driver="GPKG")
    with pytest.raises(UserError) as caught:
        vector_read(path, "a.gpkg")
    assert caught.value.code == "NEEDS_CRS" and "like degrees" in caught.value.why
    with pytest.raises(UserError) as caught:
        csv = tmp_path / "a.csv"
        csv.write_text("lon,lat\n500000,5500000\n")
        vector_read(csv, "a.csv")
    assert caught.value.code == "NEEDS_CRS"
    told = tmp_path / "b.csv"
    told.write_text("x,y\n500000,5500000\n")
    assert vector_read(told, "b.csv", crs="EPSG:25832").lonlat_bounds()[:2] == pytest.approx((9.0, 49.65), abs=0.01)
    assert code(told, crs="EPSG:99999") == "BAD_ARGUMENT"


@pytest.mark.parametrize("is_last", [False, True])
def test_a_crs_that_nobody_knows_is_not_taken_for_degrees(tmp_path: Path, is_last: bool) -> None:
    def file(named: str, geometry: Any = SQUARE) -> Path:
        member = {"crs": {"type": "name", "properties": {"name": named}}}
        rest = {"features": [{"type": "Feature", "geometry": geometry, "properties": {"crs": "EPSG:999999"}}]}
        target = tmp_path / "a.geojson"
        target.write_text(json.dumps({"type": "FeatureCollection", **({**rest, **member} if is_last else {**member, **rest})}))
        return target

    with pytest.raises(UserError) as caught:
        vector_read(file("urn:ogc:def:crs:EPSG::999999"), "a.geojson")
    assert caught.value.code == "NEEDS_CRS" and "EPSG::999999" in caught.value.why
    told = vector_read(file("urn:ogc:def:crs:EPSG::999999"), "a.geojson", crs="EPSG:4326")
    assert (told.crs, told.crs_source) == ("EPSG:4326", "person")
    assert vector_read(file("urn:ogc:def:crs:OGC:1.3:CRS84"), "a.geojson").crs == "EPSG:4326"
    metres = {"type": "Polygon", "coordinates": [[list(p) for p in EPSG_25832]]}
    assert vector_read(file("urn:ogc:def:crs:EPSG::25832", metres), "a.geojson").crs == "EPSG:25832"


def test_west_beyond_east_is_cut_at_the_meridian(tmp_path: Path) -> None:
    fiji = {"type": "Polygon", "coordinates": [[[179, -18], [-179, -18], [-179, -16], [179, -16], [179, -18]]]}
    found = vector_read(geojson(tmp_path / "a.geojson", fiji), "a.geojson")
    (cut,) = [shapely.geometry.shape(f["geometry"]) for f in found.features]
    assert any("180° meridian" in w for w in found.warnings) and cut.geom_type == "MultiPolygon"
    assert cut.area == pytest.approx(4.0) and not cut.contains(shapely.Point(0, -17)) and cut.covers(shapely.Point(179.5, -17))


def test_names_of_features_are_taken_where_each_has_its_own(tmp_path: Path) -> None:
    def naming(*values: Any) -> tuple[str, tuple[str, ...]]:
        features = [{"type": "Feature", "geometry": SQUARE, "properties": {"name": v, "kind": "field"}} for v in values]
        path = tmp_path / "a.geojson"
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        return vector_read(path, "a.geojson").naming()

    assert naming("North", "South") == ("name", ("North", "South"))
    assert naming("North", "north") == naming("North", None) == naming("North", "") == ("", ())


def test_mixed_shapes_are_counted_apart(tmp_path: Path) -> None:
    line, place = {"type": "LineString", "coordinates": [[10, 50], [11, 50]]}, {"type": "Point", "coordinates": [10, 50]}
    found = vector_read(geojson(tmp_path / "a.geojson", SQUARE, line, place), "a.geojson")
    assert found.kinds == {"Polygon": 1, "LineString": 1, "Point": 1}


def test_several_layers_are_not_guessed_between(tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    for k, name in enumerate(("roads", "rivers")):
        pyogrio.raw.write(path, np.array([shapely.to_wkb(shapely.Point(k, 1))]), [], [], layer=name, geometry_type="Point",
                          crs="EPSG:4326", driver="GPKG", append=k > 0)
    assert code(path) == "BAD_ARGUMENT"
    assert vector_read(path, "a.gpkg", layer="rivers").features[0]["geometry"]["coordinates"] == [1, 1]


def archive(path: Path, members: dict[str, bytes], **flags: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if flags.get("link"):
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
            z.writestr(info, data)
    return path


@pytest.mark.parametrize(("members", "flags", "wanted"), [
    ({"../../evil.shp": b"x"}, {}, "UNSAFE_FILE"),
    ({"/etc/evil.shp": b"x"}, {}, "UNSAFE_FILE"),
    ({"a.shp": b"/etc/passwd"}, {"link": True}, "UNSAFE_FILE"),
    ({"a.shp": b"\0" * 40_000_000}, {}, "TOO_LARGE"),
    ({f"{i}.shp": b"x" for i in range(300)}, {}, "UNSAFE_FILE"),
    ({"a.shp": b"x", "b.shp": b"x"}, {}, "UNREADABLE"),
    ({"a.txt": b"x"}, {}, "UNREADABLE"),
    ({"a.shp": b"no shape at all", "a.dbf": b"", "a.shx": b""}, {}, "UNREADABLE"),
])  # fmt: skip
def test_hostile_archives(tmp_path: Path, members: dict[str, bytes], flags: dict[str, Any], wanted: str) -> None:
    assert code(archive(tmp_path / "a.zip", members, **flags)) == wanted
    assert {p.name for p in tmp_path.iterdir()} == {"a.zip"}


def test_a_broken_archive_and_only_our_names(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x03\x04" + b"\xff" * 100)
    assert code(path) == "UNREADABLE"
    out = tmp_path / "out"
    out.mkdir()
    unpack_shapefile(archive(path, {"x/a.shp": b"1", "x/a.dbf": b"2", "x/a.exe": b"3", "x/b.prj": b"4"}), out, "a.zip")
    assert {p.name for p in out.iterdir()} == {"file.shp", "file.dbf"}


@pytest.mark.parametrize(("name", "data"), [
    ("a.kml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><kml>&a;</kml>"),
    ("a.kml", b"<OGRVRTDataSource><kml/></OGRVRTDataSource>"),
    ("a.geojson", b"<OGRVRTDataSource/>"),
    ("a.gpkg", b"{}"),
    ("a.shp", b"\0\0\x27\x0a"),
])
def test_other_documents_under_these_names_are_refused(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "upload"
    path.write_bytes(data)
    assert code(path, name) == "UNSAFE_FILE"


def test_a_database_that_is_no_geopackage(tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    with sqlite3.connect(path) as held:
        held.execute("CREATE TABLE t (x INTEGER)")
    assert sniff_vector(path, "a.gpkg") == "GPKG"
    assert code(path) == "UNREADABLE"


@pytest.mark.shared_data
def test_real_files(shared_data: Path) -> None:
    def read(name: str) -> VectorFile:
        return vector_read(shared_data / name, Path(name).name)

    assert len(read("vector/colorado-counties.geojson").features) == 64  # Colorado has 64 counties
    assert len(read("vector/spData_world.gpkg").features) == 177
    zion = read("terrain_landcover/spDataLarge_zion.gpkg")
    assert zion.kinds == {"Polygon": 1} and "UTM Zone 12" in zion.crs
