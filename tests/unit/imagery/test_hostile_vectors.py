"""Vector files that are made to do harm: refused or read as data, in bounded time, without a request to anybody."""

from __future__ import annotations

import json
import sqlite3
import time
import zipfile
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import shapely

from apps.imagery import vectors
from apps.imagery.vectors import MAX_FEATURES, vector_read
from tests.unit.imagery.test_hostile import server as server
from tests.unit.imagery.test_vectors import SQUARE, archive, code, geojson


def package(path: Path) -> Path:
    pyogrio.raw.write(
        path,
        np.array([shapely.to_wkb(shapely.box(10, 50, 10.1, 50.1))]),
        [np.array([7])],
        ["size"],
        layer="fields",
        geometry_type="Polygon",
        crs="EPSG:4326",
        driver="GPKG",
    )
    return path


def test_a_view_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "READ_SECONDS", 8)
    path = package(tmp_path / "a.gpkg")
    with sqlite3.connect(path) as held:
        held.execute("DROP TABLE IF EXISTS gpkg_ogr_contents")
        held.execute(
            "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT fid, geom, (SELECT max(i) FROM n) AS big FROM fields"
        )
        held.execute(
            "INSERT INTO gpkg_contents (table_name, data_type, identifier, srs_id) VALUES "
            "('endless', 'features', 'endless', 4326)"
        )
        held.execute("INSERT INTO gpkg_geometry_columns VALUES ('endless', 'geom', 'POLYGON', 4326, 0, 0)")
    began = time.monotonic()
    assert code(path, layer="endless") == "UNREADABLE"
    assert time.monotonic() - began < 60


def test_triggers_and_functions_of_a_database_do_not_run(tmp_path: Path) -> None:
    path, secret = package(tmp_path / "a.gpkg"), tmp_path / "made.txt"
    with sqlite3.connect(path) as held:
        held.execute(
            "CREATE VIEW evil AS SELECT fid, geom, load_extension('/nowhere.so') AS x, "
            f"writefile('{secret}', 'x') AS y FROM fields"
        )
        held.execute(
            "INSERT INTO gpkg_contents (table_name, data_type, identifier, srs_id) VALUES ('evil', 'features', 'evil', 4326)"
        )
        held.execute("INSERT INTO gpkg_geometry_columns VALUES ('evil', 'geom', 'POLYGON', 4326, 0, 0)")
    before = path.read_bytes()
    assert code(path, layer="evil") in ("UNREADABLE", "BAD_ARGUMENT")
    assert len(vector_read(path, "a.gpkg", layer="fields").features) == 1
    assert not secret.exists() and path.read_bytes() == before


def test_a_network_link_is_not_followed(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    path = tmp_path / "a.kml"
    path.write_text(f"""<?xml version="1.0"?><kml xmlns="http://www.opengis.net/kml/2.2"><Document>
        <NetworkLink><Link><href>{address}/more.kml</href></Link></NetworkLink>
        <Style id="s"><IconStyle><Icon><href>{address}/icon.png</href></Icon></IconStyle></Style>
        <Placemark><name>one</name><styleUrl>{address}/style#s</styleUrl><Point><coordinates>10,50</coordinates></Point></Placemark>
        </Document></kml>""")
    assert vector_read(path, "a.kml").kinds == {"Point": 1}
    assert asked == []


@pytest.mark.parametrize("depth", [40, 400, 100_000])
def test_nested_collections_are_refused(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "a.geojson"
    nested = '{"type":"GeometryCollection","geometries":[' * depth + '{"type":"Point","coordinates":[10,50]}' + "]}" * depth
    path.write_text('{"type":"FeatureCollection","features":[{"type":"Feature","properties":{},"geometry":' + nested + "}]}")
    assert code(path) == "UNREADABLE"
    table = tmp_path / "a.csv"
    table.write_text('name,wkt\nx,"' + "GEOMETRYCOLLECTION(" * depth + "POINT(10 50)" + ")" * depth + '"\n')
    assert code(table, crs="EPSG:4326") == "UNREADABLE"


def test_deep_properties_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.geojson"
    deep = "[" * 100_000 + "]" * 100_000
    path.write_text(
        '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"a":'
        + deep
        + '},"geometry":'
        + json.dumps(SQUARE)
        + "}]}"
    )
    assert code(path) == "UNREADABLE"


def test_a_table_of_a_million_rows_and_one_with_formulas(tmp_path: Path) -> None:
    big = tmp_path / "big.csv"
    big.write_text("lon,lat\n" + "10,50\n" * 1_000_000)
    began = time.monotonic()
    assert code(big) == "TOO_LARGE"
    assert time.monotonic() - began < 60 and MAX_FEATURES < 1_000_000
    formulas = tmp_path / "a.csv"
    formulas.write_text('lon,lat,name\n10,50,=HYPERLINK("http://127.0.0.1")\n11,51,@SUM(1)\n=1+1,51,x\n')
    found = vector_read(formulas, "a.csv")
    assert [f["properties"]["name"][:5] for f in found.features] == ["=HYPE", "@SUM("]  # kept as the words that they are
    assert "1 rows have no readable coordinates" in found.warnings[0]


@pytest.mark.parametrize("name", ["..\\..\\evil.shp", "C:evil.shp", "a/../../evil.shp", "/a.shp", "\\\\host\\share\\a.shp"])
def test_paths_out_of_an_archive(tmp_path: Path, name: str) -> None:
    assert code(archive(tmp_path / "a.zip", {name: b"x"})) == "UNSAFE_FILE"


def test_an_archive_in_an_archive_is_not_unpacked(tmp_path: Path) -> None:
    inner = archive(tmp_path / "inner.zip", {"a.shp": b"\0" * 1000})
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
        z.write(inner, "inner.zip")
    assert code(tmp_path / "a.zip") == "UNREADABLE"


def test_names_are_no_paths(tmp_path: Path) -> None:
    path = geojson(tmp_path / "x", SQUARE)
    assert vector_read(path, "../../etc/passwd.geojson").name == "../../etc/passwd.geojson"
    assert {p.name for p in tmp_path.iterdir()} == {"x"}
