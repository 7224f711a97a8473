"""Vector files of a person: GeoJSON, GeoPackage, zipped Shapefile, KML and CSV with coordinates, as features in one CRS.

The bytes are opened as those of rasters are: sniffed here, then read in a limited process without a network, of which only a
result file is used. A file without a CRS is not guessed at; archives are unpacked member by member under names of ours.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from apps.core.errors import UserError
from apps.imagery import ingest
from apps.imagery.vector_kinds import TAKEN, kind_of_bytes, kind_of_name, refusal

# The largest file is read in a fraction of it; a database may hold a view without end, and the API waits for the answer.
READ_SECONDS = 240
MAX_FILE_BYTES = 200 * 2**20
MAX_UNPACKED_BYTES = 500 * 2**20
MAX_MEMBERS = 200
# Deflate of text reaches 1/20 or so; an archive beyond this ratio is made to be large.
BOMB_RATIO = 200
BOMB_BYTES = 10 * 2**20
MAX_FEATURES = 100_000
MAX_VERTICES = 2_000_000
MAX_FIELDS = 40
MAX_TEXT = 200
# Names of features are held with the file's description up to so many.
MAX_NAMES = 1000
_RESULT_BYTES = 400 * 2**20
# By the end of its name a file is taken for a vector file; the bytes decide then whether it is one.
SUFFIXES = (".geojson", ".json", ".gpkg", ".zip", ".kml", ".csv", ".tsv", ".shp", ".shx", ".dbf", ".kmz", ".gml", ".gpx")
_SHAPE_PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
_LON = ("longitude", "lon", "lng", "long")
_LAT = ("latitude", "lat")
_X, _Y = ("x", "easting", "east"), ("y", "northing", "north")
_WKT = ("wkt", "geometry", "geom", "the_geom")
Kind = Literal["GeoJSON", "GPKG", "ESRI Shapefile", "KML", "CSV"]
# Drivers that follow paths, addresses or queries; switched off in the reading process.
_SKIPPED = (
    "OGR_VRT,VRT,GTI,DERIVED,WFS,OAPIF,CSW,HTTP,OGCAPI,DAAS,EEDA,Elastic,Carto,AmigoCloud,PostgreSQL,MySQL,ODBC,MSSQLSpatial,"
    "GMLAS,NAS,PDF,OSM,PGDUMP,MapML,PLSCENES,NGW,WMS,STACIT,STACTA,LIBKML,GTiff,PDS4,TIGER,Selafin,DXF,GML"
)


class VectorFile(BaseModel):
    """What a vector file holds: ``features`` are GeoJSON features in ``crs``; ``warnings`` tell what was left out or mended."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    format: str
    crs: str
    crs_source: Literal["declared", "format", "name", "person"]
    layer: str = ""
    features: list[dict[str, Any]]
    kinds: dict[str, int] = Field(description="geometry type → number")
    bounds: tuple[float, float, float, float]
    warnings: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the attributes, in the order of the first feature that has them."""
        return tuple(dict.fromkeys(str(k) for f in self.features for k in (f.get("properties") or {})))[:MAX_FIELDS]

    def naming(self) -> tuple[str, tuple[str, ...]]:
        """(attribute that names every feature once, its values as text); ('', ()) where none does, or of more than MAX_NAMES."""
        if len(self.features) > MAX_NAMES:
            return "", ()
        words = ("name", "namn", "nom", "nombre", "title", "label", "code", "id")
        order = sorted(
            (field for field in self.fields if any(w in field.lower() for w in words)),
            key=lambda f: (next(i for i, w in enumerate(words) if w in f.lower()), len(f)),
        )
        for field in order:
            values = [(f.get("properties") or {}).get(field) for f in self.features]
            texts = tuple(str(v).strip()[:120] if isinstance(v, (str, int)) and not isinstance(v, bool) else "" for v in values)
            if all(texts) and len({t.casefold() for t in texts}) == len(texts):
                return field, texts
        return "", ()

    def lonlat_bounds(self) -> tuple[float, float, float, float]:
        """West, south, east, north in degrees. UserError NEEDS_CRS where the coordinates have no place in their CRS."""
        from apps.core.geo.grid import transformer

        west, south, east, north = self.bounds
        if self.crs != "EPSG:4326":
            west, south, east, north = transformer(self.crs, "EPSG:4326").transform_bounds(west, south, east, north)
        if not all(math.isfinite(v) for v in (west, south, east, north)):
            raise _refuse(
                "NEEDS_CRS",
                f"The CRS of “{self.name}” does not fit.",
                "Its coordinates have no place on the globe in that CRS.",
                "Say its true CRS, like EPSG:32630.",
                400,
            )
        return west, south, east, north


@dataclass(frozen=True, slots=True)
class _Sniffed:
    kind: Kind
    suffix: str


def is_vector_name(name: str) -> bool:
    """Whether a file of this name is taken for a vector file, rather than for a raster."""
    return name.lower().endswith(SUFFIXES)


def _refuse(code: str, what: str, why: str, fix: str, status: int = 415) -> UserError:
    return UserError(code, what, why, fix, status=status)


def sniff_vector(path: Path, name: str) -> Kind:
    """The format by the first bytes and the extension. UserError UNSAFE_FILE, UNREADABLE, TOO_LARGE."""
    n = path.stat().st_size
    if n == 0:
        raise _refuse("UNREADABLE", f"“{name}” is empty.", "It holds 0 bytes.", "Upload it again.")
    if n > MAX_FILE_BYTES:
        raise _refuse(
            "TOO_LARGE",
            f"“{name}” is too large.",
            f"It has {n:,} bytes; the limit is {MAX_FILE_BYTES:,}.",
            "Cut it to the area in question.",
            413,
        )
    with path.open("rb") as f:
        head = f.read(4096)
    suffix, text = Path(name).suffix.lower(), head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"SQLite format 3\0") and suffix == ".gpkg":
        return "GPKG"
    if head.startswith(b"PK\x03\x04") and suffix == ".zip":
        return "ESRI Shapefile"
    if text[:1] in (b"{", b"[") and suffix in (".geojson", ".json"):
        return "GeoJSON"
    if text[:1] == b"<" and suffix == ".kml":
        _check_xml(path, name)
        return "KML"
    if suffix in (".csv", ".tsv", ".txt") and b"\0" not in head and text[:1] not in (b"<", b"{"):
        return "CSV"
    other = kind_of_name(name) or kind_of_bytes(head)
    if other is not None:
        raise refusal(other, name, "UNSAFE_FILE")
    raise _refuse(
        "UNSAFE_FILE",
        f"“{name}” was refused.",
        "Its bytes and its extension are not those of one vector format known here.",
        f"Give {TAKEN}.",
    )


def _check_xml(path: Path, name: str) -> None:
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"<!DOCTYPE" in data or b"<!ENTITY" in data or b"OGRVRT" in data:
        raise _refuse(
            "UNSAFE_FILE",
            f"“{name}” was refused.",
            "It declares entities or another kind of document.",
            "Export it as plain KML, UTF-8.",
        )
    if b"<kml" not in data[:65536]:
        raise _refuse("UNREADABLE", f"“{name}” is no KML.", "It has no kml element.", "Export it again.")


def unpack_shapefile(archive: Path, folder: Path, name: str) -> Path:
    """The one Shapefile of an archive, unpacked as ``file.shp`` and its parts; nothing else is written.

    UserError UNSAFE_FILE (paths, links, bombs, encryption), UNREADABLE (broken, no or several Shapefiles).
    """
    try:
        with zipfile.ZipFile(archive) as z:
            members = z.infolist()
            if len(members) > MAX_MEMBERS:
                raise _refuse(
                    "UNSAFE_FILE", f"“{name}” was refused.", f"It has {len(members)} members.", "Zip the Shapefile alone."
                )
            total = sum(m.file_size for m in members)
            packed = max(1, sum(m.compress_size for m in members))
            if total > MAX_UNPACKED_BYTES or (total > BOMB_BYTES and total > BOMB_RATIO * packed):
                raise _refuse(
                    "TOO_LARGE",
                    f"“{name}” would unpack to {total:,} bytes.",
                    "That is more than is read.",
                    "Cut the layer to the area in question.",
                    413,
                )
            for m in members:
                parts = Path(m.filename.replace("\\", "/")).parts
                if m.filename.startswith(("/", "\\")) or ".." in parts or ":" in m.filename:
                    raise _refuse(
                        "UNSAFE_FILE",
                        f"“{name}” was refused.",
                        "A member's path leads out of the archive.",
                        "Zip the files again.",
                    )
                if stat.S_ISLNK(m.external_attr >> 16) or m.flag_bits & 1:
                    raise _refuse(
                        "UNSAFE_FILE", f"“{name}” was refused.", "A member is a link or encrypted.", "Zip the files again."
                    )
            plain = [m for m in members if not m.is_dir() and not m.filename.startswith("__MACOSX")]
            shapes = [m for m in plain if m.filename.lower().endswith(".shp")]
            if len(shapes) != 1:
                inside = sorted({Path(m.filename).suffix.lower()[:12] for m in plain} - {""})
                other = next((k for m in plain for part in Path(m.filename).parts if (k := kind_of_name(part))), None)
                if not shapes and other is not None:
                    raise refusal(other, name)
                raise _refuse(
                    "UNREADABLE",
                    f"“{name}” holds {len(shapes)} Shapefiles.",
                    "One is read at a time." if shapes else f"It holds {', '.join(inside[:8]) or 'no file with an extension'}.",
                    "Zip one .shp with its .shx, .dbf and .prj." if shapes else "Give other files as they are, not in a zip.",
                )
            stem = shapes[0].filename[:-4].lower()
            left = MAX_UNPACKED_BYTES
            for m in plain:
                suffix = Path(m.filename).suffix.lower()
                if suffix in _SHAPE_PARTS and m.filename[: -len(suffix)].lower() == stem:
                    with z.open(m) as source, (folder / f"file{suffix}").open("wb") as target:
                        while chunk := source.read(1 << 20):
                            left -= len(chunk)  # what the directory says is not trusted
                            if left < 0:
                                raise _refuse(
                                    "TOO_LARGE",
                                    f"“{name}” unpacks to more than it says.",
                                    "It was not read further.",
                                    "Zip the files again.",
                                    413,
                                )
                            target.write(chunk)
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise _refuse("UNREADABLE", f"“{name}” cannot be unpacked.", "The archive is broken.", "Zip the files again.") from error
    return folder / "file.shp"


def vector_read(source: Path, name: str, *, crs: str | None = None, layer: str = "") -> VectorFile:
    """The features of a vector file. ``crs`` (EPSG:n or WKT) is the person's word where the file tells none.

    UserError: NEEDS_CRS where no CRS is known, BAD_ARGUMENT for a CRS or layer that is none, UNSAFE_FILE, UNREADABLE, TOO_LARGE.
    """
    kind = sniff_vector(source, name)
    with tempfile.TemporaryDirectory(prefix="rsure-vector-") as work:
        folder = Path(work)
        suffix = {"GPKG": ".gpkg", "GeoJSON": ".geojson", "KML": ".kml", "CSV": ".csv", "ESRI Shapefile": ".shp"}[kind]
        inside = folder / f"file{suffix}"
        if kind == "ESRI Shapefile":
            unpack_shapefile(source, folder, name)
        else:
            shutil.copyfile(source, inside)
        (folder / "job.json").write_text(
            json.dumps({"file": inside.name, "name": name, "kind": kind, "crs": crs, "layer": layer})
        )
        # the copy lies in the job's folder already: nothing of the store is bound into the process
        command = [*ingest.walled(folder), sys.executable, "-s", "-m", "apps.imagery.vectors_process", str(folder)]
        code = ingest.run_limited(command, folder, skipped=_SKIPPED, seconds=READ_SECONDS)
        result = folder / "result.json"
        if code != 0 or not result.exists():
            raise _refuse(
                "UNREADABLE",
                f"“{name}” cannot be read.",
                "The process that opened it ended: the file is broken or needs too much memory or time.",
                "Export it again, or cut it into parts.",
            )
        return ingest.result_of(result, VectorFile, "vector", _RESULT_BYTES)


# --- CSV --------------------------------------------------------------------------------------------------------------------
def csv_features(text: str, name: str, crs: str | None) -> tuple[list[dict[str, Any]], str, Literal["name", "person"], list[str]]:
    """(features, CRS, where it is known from, warnings) of a table with longitude and latitude, x and y, or WKT.

    Longitude and latitude are what they say (EPSG:4326); x and y need ``crs``. UserError NEEDS_CRS, UNREADABLE.
    """
    import shapely

    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    rows = csv.DictReader(io.StringIO(text), dialect=dialect)
    fields = {(f or "").strip().lower(): f for f in rows.fieldnames or []}

    def column(names: tuple[str, ...]) -> str | None:
        return next((fields[n] for n in names if n in fields), None)

    lon, lat, x, y, wkt = (column(n) for n in (_LON, _LAT, _X, _Y, _WKT))
    source: Literal["name", "person"] = "person" if crs else "name"
    if lon and lat:
        crs, source = "EPSG:4326", "name"
    elif not ((x and y) or wkt):
        raise _refuse(
            "UNREADABLE",
            f"“{name}” has no coordinates.",
            f"Its columns are {', '.join(list(fields)[:12]) or 'none'}.",
            "Name two columns longitude and latitude, or x and y, or one wkt.",
        )
    if crs is None:
        raise _refuse(
            "NEEDS_CRS",
            f"The CRS of “{name}” is not known.",
            "A table of x and y does not tell it.",
            "Say it, like EPSG:32630.",
            400,
        )
    out: list[dict[str, Any]] = []
    n_bad, n_long = 0, 0
    bad = ""
    is_grouping = bool(x and y and not (lon and lat)) and not _is_geographic(crs)
    for row in rows:
        if any(str(v or "").strip() for v in row.get(None) or ()):
            # which of its fields is which is not known
            n_long += 1
            continue
        try:
            if (lon and lat) or (x and y):
                at = [_number(str(row[c]), is_grouping=is_grouping) for c in ((lon, lat) if lon and lat else (x, y)) if c]
                if len(at) != 2 or not all(math.isfinite(v) for v in at):
                    raise ValueError("not finite")
                geometry: Any = {"type": "Point", "coordinates": at}
            else:
                geometry = json.loads(shapely.to_geojson(shapely.from_wkt(row[str(wkt)])))
        except (ValueError, TypeError, KeyError, shapely.errors.GEOSException):
            n_bad += 1
            bad = bad or ", ".join(str(row[c]) for c in ((lon, lat) if lon and lat else (x, y) if x and y else (wkt,)) if c)[:60]
            continue
        held = {
            str(k)[:60]: str(v)[:MAX_TEXT]
            for k, v in list(row.items())[:MAX_FIELDS]
            if k is not None and k not in (lon, lat, x, y, wkt) and v is not None
        }
        out.append({"type": "Feature", "geometry": geometry, "properties": held})
        if len(out) > MAX_FEATURES:
            raise _refuse(
                "TOO_LARGE",
                f"“{name}” has more than {MAX_FEATURES:,} rows.",
                "That is more than is measured.",
                "Cut it to the area in question.",
                413,
            )
    if n_long and not out:
        raise _refuse(
            "UNREADABLE",
            f"“{name}” cannot be read.",
            f"{n_long} of its rows have more fields than its heading names; it is not known which is which.",
            "Where a comma stands in a number, part the columns by semicolons or put the number in quotation marks.",
        )
    if n_bad and not out:
        raise _refuse(
            "UNREADABLE",
            f"“{name}” has no readable coordinates.",
            f"None of its {n_bad} rows has plain numbers in its columns of coordinates; the first has “{bad}”.",
            "Write decimal degrees or metres without signs of thousands (48.1, not 48°06'N; 500000, not 500,000).",
        )
    warnings = [f"{n_bad} rows have no readable coordinates and are left out."] if n_bad else []
    if n_long:
        warnings.append(f"{n_long} rows have more fields than the heading names and are left out.")
    return out, crs, source, warnings


_GROUPED = re.compile(r"\s*[+-]?\d{1,3},\d{3}\s*")


def _number(text: str, *, is_grouping: bool) -> float:
    """A number with a point or a comma before its decimals. ValueError where it is none, or where the comma may as well part
    thousands (``is_grouping``)."""
    if is_grouping and _GROUPED.fullmatch(text):
        raise ValueError("the comma may part thousands or decimals")
    return float(text.replace(",", "."))


def _is_geographic(crs: str) -> bool:
    """Whether coordinates in it are degrees; a CRS that is not known is refused later."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        return bool(CRS.from_user_input(crs).is_geographic)
    except CRSError:
        return False
