"""Vector files that GDAL knows and that are not read here: what they are and how to convert them, never "make it a raster"."""

from pathlib import Path
from typing import Any

import geopandas
import pytest
import shapely

from apps.core.errors import UserError
from apps.imagery.formats import format_of
from apps.imagery.services import check_file
from apps.imagery.vector_kinds import BY_SUFFIX, TAKEN, is_refused_unread
from apps.imagery.vectors import SUFFIXES, is_vector_name, sniff_vector, unpack_shapefile, vector_read

# The first bytes of a file of OpenStreetMap: four of length, then a blob header that names its kind (wiki, PBF Format).
PBF = b"\x00\x00\x00\x0d\x0a\x09OSMHeader\x18\x7c" + bytes(124)


def refused(path: Path, name: str) -> UserError:
    """What the door says to which the name leads."""
    with pytest.raises(UserError) as caught:
        (sniff_vector if is_vector_name(name) else format_of)(path, name)
    return caught.value


@pytest.fixture(scope="module")
def lake() -> Any:
    return geopandas.GeoDataFrame({"name": ["Lake"]}, geometry=[shapely.box(7.0, 50.0, 7.1, 50.1)], crs="EPSG:4326")


@pytest.mark.parametrize(
    ("driver", "file", "kind"),
    [("FlatGeobuf", "a.fgb", "FlatGeobuf"), ("GML", "a.gml", "GML"), ("MapInfo File", "a.tab", "MapInfo"),
     ("MapInfo File", "a.mif", "MapInfo"), ("SQLite", "a.sqlite", "SQLite or SpatiaLite"),
     ("DGN", "a.dgn", "a CAD drawing (DGN)"), ("GeoJSONSeq", "a.geojsonl", "GeoJSON by lines")],
)  # fmt: skip
def test_files_that_gdal_writes_are_known_and_the_advice_works(
    tmp_path: Path, lake: Any, driver: str, file: str, kind: str
) -> None:
    from pyogrio.errors import DataSourceError

    path = tmp_path / file
    try:
        (lake if driver != "DGN" else lake[["geometry"]]).to_file(path, driver=driver)
    except DataSourceError:
        pytest.skip(f"this GDAL writes no {driver}")
    error = refused(path, file)
    assert error.what == f"“{file}” is not read."
    assert error.why == f"It is {kind}. Vector files are taken as {TAKEN}."
    assert error.fix.startswith(f"Convert it to GeoPackage: ogr2ogr -f GPKG out.gpkg {file}, or in QGIS")
    assert error.status == 415
    # what the advice makes is taken
    geopandas.read_file(path).set_crs("EPSG:4326", allow_override=True).to_file(tmp_path / "out.gpkg", driver="GPKG")
    assert sniff_vector(tmp_path / "out.gpkg", "out.gpkg") == "GPKG"


@pytest.mark.parametrize("name", ["city.osm.pbf", "CITY.OSM.PBF", "city.pbf", "city", "city.tif", "city.dat"])
def test_openstreetmap_is_known_by_name_and_by_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "upload"
    path.write_bytes(PBF)
    error = refused(path, name)
    assert error.why.startswith("It is OpenStreetMap data.")
    assert f"ogr2ogr -f GPKG out.gpkg {name} multipolygons" in error.fix
    path.write_bytes(b"no such file" * 9)
    if name.lower().endswith(".pbf"):
        assert "OpenStreetMap" in refused(path, name).why
    else:
        assert refused(path, name).fix.endswith(f"Vector files are taken as {TAKEN}.")


def test_a_geopackage_by_another_name_is_renamed(tmp_path: Path, lake: Any) -> None:
    path = tmp_path / "lake.gpkg"
    lake.to_file(path, driver="GPKG")
    error = refused(path.rename(tmp_path / "lake.db"), "lake.db")
    assert (error.why.split(".")[0], error.fix) == ("It is GeoPackage by another name", "Rename it to end in .gpkg.")
    assert len(vector_read(tmp_path / "lake.db", "lake.gpkg").features) == 1


def test_what_a_zip_holds_in_place_of_a_shapefile_is_told(tmp_path: Path) -> None:
    import zipfile

    for inside, told in (("city.gdb/a0001.gdbtable", "It is an Esri file geodatabase."), ("roads.fgb", "It is FlatGeobuf."),
                         ("scene.tif", "It holds .tif.")):  # fmt: skip
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr(inside, b"x" * 40)
        with pytest.raises(UserError) as caught:
            unpack_shapefile(path, tmp_path, "a.zip")
        assert caught.value.why.startswith(told)


def test_every_kind_says_what_to_do_and_a_name_never_becomes_a_command(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    path.write_bytes(b"\x01\x02" * 50)
    for suffix in BY_SUFFIX:
        error = refused(path, f"a{suffix}")
        assert TAKEN in error.why
        assert "raster" not in error.fix
        assert "GeoTIFF" not in error.fix
    assert "out.gpkg 'a; $(reboot) b.fgb', or" in refused(path, "a; $(reboot) b.fgb").fix
    assert not any(is_refused_unread(f"a{suffix}") for suffix in SUFFIXES), "these get a page that says what is wrong"
    assert not any(is_refused_unread(f"a{s}") for s in (".tif", ".jp2", ".png", ".nc", ".000", ""))
    assert is_refused_unread("x.osm.pbf")


def test_a_folder_is_told_from_nothing(tmp_path: Path) -> None:
    for name, told in (("city.gdb", "It is an Esri file geodatabase."), ("scenes", "It is a folder.")):
        (tmp_path / name).mkdir()
        with pytest.raises(UserError) as caught:
            check_file(tmp_path / name)
        assert caught.value.why.startswith(told)
    with pytest.raises(UserError, match=r"There is no file “absent.gdb”. The path leads to none."):
        check_file(tmp_path / "absent.gdb")
