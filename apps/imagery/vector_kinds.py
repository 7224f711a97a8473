"""Vector formats that are known by name or first bytes and not read here: what they are, and how to turn them into one that is.

Pure Python; nothing is opened. What is read is told by ``TAKEN``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from shlex import quote

from apps.core.errors import UserError

TAKEN = "GeoJSON, GeoPackage (.gpkg), a Shapefile in a zip, KML, or CSV with coordinates"
_PARTS = "A Shapefile is several files: zip the .shp with its .shx, .dbf and .prj, and give the zip."
_TABLE = "Save the sheet as CSV with columns longitude and latitude, or a column wkt."
_PICTURE = "Give the image itself, or export the layer of interest as GeoJSON."
# An image may be called so too, or the file gets a page that says what is wrong with it.
_TOLD_BY_BYTES = (".000", ".tab", ".vct", ".shp", ".shx", ".dbf", ".kmz", ".gml", ".gpx")


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A format that is not read. ``convert`` is what to do instead of ogr2ogr or QGIS, '' where those do; ``layers`` are words by
    which ogr2ogr takes one layer."""

    name: str
    convert: str = ""
    layers: str = ""


_OSM = OtherKind("OpenStreetMap data", layers=" multipolygons")
# By the end of the name, longest first where two fit.
BY_SUFFIX: dict[str, OtherKind] = {
    ".osm.pbf": _OSM,
    ".pbf": _OSM,
    ".osm": _OSM,
    ".osm.bz2": _OSM,
    ".osm.gz": _OSM,
    ".shp": OtherKind("one file of a Shapefile", _PARTS),
    ".shx": OtherKind("one file of a Shapefile", _PARTS),
    ".dbf": OtherKind("one file of a Shapefile", _PARTS),
    ".prj": OtherKind("one file of a Shapefile", _PARTS),
    ".cpg": OtherKind("one file of a Shapefile", _PARTS),
    ".kmz": OtherKind("zipped KML", "Unzip it and give the .kml inside."),
    ".gml": OtherKind("GML"),
    ".gpx": OtherKind("GPX", layers=" tracks"),
    ".fgb": OtherKind("FlatGeobuf"),
    ".parquet": OtherKind("GeoParquet"),
    ".geoparquet": OtherKind("GeoParquet"),
    ".feather": OtherKind("GeoArrow"),
    ".arrow": OtherKind("GeoArrow"),
    ".topojson": OtherKind("TopoJSON"),
    ".geojsonl": OtherKind("GeoJSON by lines"),
    ".geojsons": OtherKind("GeoJSON by lines"),
    ".ndjson": OtherKind("GeoJSON by lines"),
    ".tab": OtherKind("MapInfo"),
    ".mif": OtherKind("MapInfo"),
    ".mid": OtherKind("MapInfo"),
    ".gdb": OtherKind("an Esri file geodatabase", layers=" LAYER"),
    ".gdb.zip": OtherKind("an Esri file geodatabase", layers=" LAYER"),
    ".gdbtable": OtherKind("a part of an Esri file geodatabase", layers=" LAYER"),
    ".mdb": OtherKind("an Esri personal geodatabase", layers=" LAYER"),
    ".sqlite": OtherKind("SQLite or SpatiaLite"),
    ".spatialite": OtherKind("SQLite or SpatiaLite"),
    ".mvt": OtherKind("vector tiles"),
    ".mbtiles": OtherKind("tiles in a database", _PICTURE),
    ".pmtiles": OtherKind("tiles in an archive", _PICTURE),
    ".dxf": OtherKind("a CAD drawing (DXF)"),
    ".dwg": OtherKind("a CAD drawing (DWG)", "Save it as DXF in its own program, and convert that to GeoPackage."),
    ".dgn": OtherKind("a CAD drawing (DGN)"),
    ".e00": OtherKind("an ArcInfo exchange file"),
    ".vct": OtherKind("Idrisi vectors"),
    ".000": OtherKind("a nautical chart (S-57)", layers=" LAYER"),
    ".xlsx": OtherKind("a spreadsheet", _TABLE),
    ".xls": OtherKind("a spreadsheet", _TABLE),
    ".ods": OtherKind("a spreadsheet", _TABLE),
    ".wkt": OtherKind("WKT", "Put it into a CSV under a column named wkt, or give it as the region."),
    ".wkb": OtherKind("WKB", "Put it as WKT into a CSV under a column named wkt."),
    ".qgz": OtherKind("a QGIS project", "Export the layer itself as GeoPackage: Export, Save Features As."),
    ".qgs": OtherKind("a QGIS project", "Export the layer itself as GeoPackage: Export, Save Features As."),
    ".lyrx": OtherKind("an ArcGIS layer file", "Export the layer's features themselves as a Shapefile, and zip it."),
    ".lyr": OtherKind("an ArcGIS layer file", "Export the layer's features themselves as a Shapefile, and zip it."),
}


def kind_of_name(name: str) -> OtherKind | None:
    """The format that the end of a name says, where it is one that is not read."""
    suffixes = [s.lower() for s in PurePath(name).suffixes[-2:]]
    return BY_SUFFIX.get("".join(suffixes)) or BY_SUFFIX.get(suffixes[-1] if suffixes else "")


def kind_of_bytes(head: bytes) -> OtherKind | None:
    """The format that the first bytes say (64 and more), where it is one that is not read."""
    if head[6:15] == b"OSMHeader" or b"<osm " in head[:512]:
        return _OSM
    for magic, suffix in ((b"fgb\x03", ".fgb"), (b"PAR1", ".parquet"), (b"ARROW1", ".feather"), (b"\x00\x00\x27\x0a", ".shp"),
                          (b"PMTiles", ".pmtiles"), (b"AC10", ".dwg"), (b"AutoCAD Binary DXF", ".dxf")):  # fmt: skip
        if head.startswith(magic):
            return BY_SUFFIX[suffix]
    if head.startswith(b"SQLite format 3\0"):
        # the application's id in the header (SQLite file format, section 1.3.17)
        is_geopackage = head[68:72] in (b"GPKG", b"GP10", b"GP11")
        return OtherKind("GeoPackage by another name", "Rename it to end in .gpkg.") if is_geopackage else BY_SUFFIX[".sqlite"]
    if head.startswith(b"PK\x03\x04"):
        return OtherKind("an archive", "Name a zipped Shapefile so that it ends in .zip; unpack others and give what is inside.")
    return None


def is_refused_unread(name: str) -> bool:
    """Whether a file is refused by its name alone, before its bytes are there: no image is called so."""
    return kind_of_name(name) is not None and PurePath(name).suffix.lower() not in _TOLD_BY_BYTES


def refusal(kind: OtherKind, name: str, code: str = "UNREADABLE") -> UserError:
    """A UserError (415): what the file is, what is taken, and how to get there."""
    by_tool = f"ogr2ogr -f GPKG out.gpkg {quote(name)}{kind.layers}"
    return UserError(
        code,
        f"“{name}” is not read.",
        f"It is {kind.name}. Vector files are taken as {TAKEN}.",
        kind.convert or f"Convert it to GeoPackage: {by_tool}, or in QGIS by Export, Save Features As.",
        status=415,
    )
