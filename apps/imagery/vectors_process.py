"""The process that opens a vector file: ``python -m apps.imagery.vectors_process FOLDER``, started by ``vectors.vector_read``. It
limits itself, reads ``FOLDER/job.json`` and leaves ``result.json``. No Django here."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from apps.imagery.ingest_process import serve


def run(folder: Path) -> dict[str, Any]:
    """What ``result.json`` holds: the fields of VectorFile. UserError is for the person."""
    from apps.core.errors import UserError

    job = json.loads((folder / "job.json").read_text())
    try:
        return _read(folder / job["file"], job)
    except MemoryError:
        raise UserError(
            "TOO_LARGE",
            f"“{job['name']}” is too large.",
            "It needs more memory than may be used.",
            "Cut it to the area in question.",
            status=413,
        ) from None


def _read(path: Path, job: dict[str, Any]) -> dict[str, Any]:
    from apps.imagery.vectors import csv_features

    name, told = job["name"], job["crs"]
    layer, source, warnings = "", "", list[str]()
    if job["kind"] == "CSV":
        features, crs, source, warnings = csv_features(path.read_text(errors="replace"), name, told)
        crs = _crs(crs, name)
    else:
        features, crs, source, layer, warnings = _ogr(path, job)
    return _checked(features, name, crs) | {
        "name": name,
        "format": job["kind"],
        "crs": crs,
        "crs_source": source,
        "layer": layer,
        "warnings": [*warnings, *_checked_warnings(features)],
    }


def _crs(text: str, name: str) -> str:
    """EPSG:n, or WKT where no code fits."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    from apps.core.errors import UserError

    try:
        crs = CRS.from_user_input(text)
    except CRSError as error:
        raise UserError(
            "BAD_ARGUMENT", "This CRS is not known.", f"“{text[:80]}” is no EPSG code and no WKT.", "Write it like EPSG:32630."
        ) from error
    if crs.is_bound and crs.source_crs is not None:
        crs = crs.source_crs
    if crs.is_compound:
        crs = crs.sub_crs_list[0]
    if not (crs.is_projected or crs.is_geographic):
        raise UserError("NEEDS_CRS", f"“{name}” has no place on the globe.", f"Its CRS is {crs.name}.", "Say the CRS.")
    code = crs.to_epsg(min_confidence=90)  # a datum that is only alike is another one
    return f"EPSG:{code}" if code else str(crs.to_wkt())


def _is_known(text: str) -> bool:
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    try:
        CRS.from_user_input(text)
    except CRSError:
        return False
    return True


# How much of either end of a GeoJSON file is looked at for its crs member.
_ENDS_BYTES = 65_536
_CRS_MEMBER = re.compile(rb'"crs"\s*:\s*\{[^{}]*"properties"\s*:\s*\{[^{}]*?"name"\s*:\s*"([^"]{1,400})"')


def _named_crs(path: Path) -> str:
    """The name in a GeoJSON file's crs member, which stands before or after its features; '' where it has none."""
    with path.open("rb") as file:
        head = file.read(_ENDS_BYTES)
        file.seek(max(0, path.stat().st_size - _ENDS_BYTES))
        tail = file.read()
    found = _CRS_MEMBER.search(head) or _CRS_MEMBER.search(tail)
    return found[1].decode(errors="replace") if found else ""


def _ogr(path: Path, job: dict[str, Any]) -> tuple[list[dict[str, Any]], str, str, str, list[str]]:
    import pyogrio
    import shapely

    from apps.core.errors import UserError
    from apps.imagery.vectors import MAX_FEATURES, MAX_FIELDS, MAX_TEXT

    name = job["name"]
    pyogrio.set_gdal_config_options(
        {"OGR_SQLITE_LOAD_EXTENSIONS": "NO", "SHAPE_RESTORE_SHX": "YES", "OGR_GEOJSON_MAX_OBJ_SIZE": 200}
    )
    try:
        layers = [str(row[0]) for row in pyogrio.list_layers(path) if row[1] is not None]
        if not layers:
            raise UserError(
                "UNREADABLE", f"“{name}” has no layer with geometries.", "Tables alone have no place.", "Export a layer."
            )
        layer = job["layer"] or (layers[0] if len(layers) == 1 or job["kind"] == "KML" else "")
        if layer not in layers:
            raise UserError(
                "BAD_ARGUMENT",
                f"“{name}” has {len(layers)} layers.",
                f"They are {', '.join(layers[:12])}.",
                "Name the one that is meant.",
            )
        wanted = layers if job["kind"] == "KML" and not job["layer"] else [layer]
        features: list[dict[str, Any]] = []
        crs_text: str | None = None
        for one in wanted:
            meta, _, blobs, columns = pyogrio.raw.read(
                path, layer=one, force_2d=True, max_features=MAX_FEATURES + 1, datetime_as_string=True
            )
            crs_text = crs_text or meta["crs"]
            names = [str(f)[:60] for f in meta["fields"]][:MAX_FIELDS]
            shapes = shapely.from_wkb(blobs, on_invalid="ignore")
            for i, shape in enumerate(shapes):
                values = {n: _plain(columns[k][i], MAX_TEXT) for k, n in enumerate(names)}
                geometry, more = None, {}
                if shape is not None and not shape.is_empty:
                    if all(math.isfinite(float(v)) for v in shapely.get_coordinates(shape).ravel()):
                        geometry = json.loads(shapely.to_geojson(shape))
                    else:
                        more = {"_not_finite": True}
                features.append({"type": "Feature", "geometry": geometry, "properties": values, **more})
            if len(features) > MAX_FEATURES:
                raise UserError(
                    "TOO_LARGE",
                    f"“{name}” has more than {MAX_FEATURES:,} features.",
                    "That is more than is measured.",
                    "Cut it to the area in question.",
                    status=413,
                )
    except (
        pyogrio.errors.DataSourceError,
        pyogrio.errors.DataLayerError,
        pyogrio.errors.FeatureError,
        pyogrio.errors.FieldError,
        ValueError,
        UnicodeDecodeError,
    ) as error:
        raise UserError(
            "UNREADABLE", f"“{name}” cannot be read.", f"It is no sound {job['kind']} file.", "Export it again."
        ) from error
    named = _named_crs(path) if job["kind"] == "GeoJSON" else ""
    if named and not _is_known(named):
        # the driver takes such a file for degrees
        if not job["crs"]:
            raise UserError(
                "NEEDS_CRS",
                f"The CRS of “{name}” is not known.",
                f"The file calls it “{named[:80]}”, which is no EPSG code and no WKT.",
                "Say which one it is, like EPSG:32630.",
            )
        crs_text = None
    if crs_text:
        warnings = (
            [f"The file's own CRS is used, not {job['crs']}."]
            if job["crs"] and _crs(job["crs"], name) != _crs(crs_text, name)
            else []
        )
        source = "format" if job["kind"] in ("GeoJSON", "KML") else "declared"
        return features, _crs(crs_text, name), source, layer, warnings
    if job["crs"]:
        return features, _crs(job["crs"], name), "person", layer, []
    raise UserError(
        "NEEDS_CRS",
        f"The CRS of “{name}” is not known.",
        "The file declares none (a Shapefile needs its .prj).",
        "Say it, like EPSG:32630.",
    )


def _plain(value: Any, most: int) -> Any:
    """A JSON value of a column's entry."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)[:most]


def _nesting(geometry: Any) -> int:
    """How many collections lie in each other."""
    depth, level = 0, [geometry]
    while level:
        level = [g for one in level if isinstance(one, dict) for g in one.get("geometries") or ()]
        depth += 1
    return depth


def _checked(features: list[dict[str, Any]], name: str, crs: str) -> dict[str, Any]:
    """Features that have a place, mended where rings cross themselves; their kinds and bounds."""
    import shapely
    from pyproj import CRS

    from apps.core.errors import UserError
    from apps.core.geo.shapes import most_extended
    from apps.imagery.vectors import MAX_VERTICES

    kept, kinds, boxes, n_vertices = [], Counter[str](), [], 0
    seen: set[tuple[bytes, str]] = set()
    known = CRS.from_user_input(crs)
    is_degrees = bool(known.is_geographic)
    for f in features:
        if f["geometry"] is None:
            continue
        if _nesting(f["geometry"]) > 3:
            raise UserError(
                "UNREADABLE",
                f"“{name}” cannot be read.",
                "Its geometries are collections of collections.",
                "Export plain points, lines or polygons.",
            )
        geometry = shapely.from_geojson(json.dumps(f["geometry"]))
        xy = shapely.get_coordinates(geometry)
        n_vertices += len(xy)
        if n_vertices > MAX_VERTICES:
            raise UserError(
                "TOO_LARGE",
                f"“{name}” has more than {MAX_VERTICES:,} vertices.",
                "That is more than is measured.",
                "Simplify it, or cut it to the area in question.",
                status=413,
            )
        if geometry.is_empty:
            f["geometry"] = None
            continue
        if not all(math.isfinite(float(v)) for v in xy.ravel()):
            f["_not_finite"] = True
            continue
        if is_degrees and _wraps(xy, geometry):
            if _rounds_a_pole(geometry):
                raise UserError(
                    "UNREADABLE",
                    f"“{name}” holds a polygon around a pole.",
                    "In degrees such a ring has no inside on a plane.",
                    "Export it in a polar CRS (EPSG:3995 in the north, EPSG:3031 in the south), or run its edge to the pole.",
                )
            f["_wrapped"] = True
            geometry = _cut_at_meridian(geometry)
        if not geometry.is_valid:
            f["_mended"] = True
            geometry = shapely.make_valid(geometry)
        if geometry.geom_type == "GeometryCollection":
            held = {g.geom_type.removeprefix("Multi") for g in shapely.get_parts(geometry)}
            f["_mixed"] = not f.get("_mended") and len(held) > 1
            geometry = most_extended(geometry)
        # points of one place are often many things; the same shape twice is one thing twice
        told = "" if geometry.geom_type.startswith("Poly") or "Line" in geometry.geom_type else repr(f["properties"])
        mark = (shapely.to_wkb(shapely.normalize(geometry)), told)
        f["_twin"] = mark in seen
        seen.add(mark)
        kinds[geometry.geom_type] += 1
        boxes.append(geometry.bounds)
        kept.append({"type": "Feature", "geometry": json.loads(shapely.to_geojson(geometry)), "properties": f["properties"]})
    if not kept:
        raise UserError(
            "UNREADABLE",
            f"“{name}” holds no geometry.",
            "It has no feature." if not features else "Every feature is empty or has coordinates that are no numbers.",
            "Export it again.",
        )
    bounds = (min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))
    is_on_globe = -361 <= bounds[0] <= bounds[2] <= 361 and -90.5 <= bounds[1] <= bounds[3] <= 90.5
    looks_like_degrees = -180 <= bounds[0] <= bounds[2] <= 180 and -90 <= bounds[1] <= bounds[3] <= 90
    if not is_degrees and looks_like_degrees and not _is_used_there(known, bounds):
        raise UserError(
            "NEEDS_CRS",
            f"The CRS of “{name}” does not fit.",
            f"It says metres ({known.name}), but its coordinates reach from {bounds[0]:g}, {bounds[1]:g} to {bounds[2]:g}, "
            f"{bounds[3]:g}, like degrees.",
            "Export it with its true CRS, or say EPSG:4326.",
        )
    if not is_degrees and _is_used_exchanged(known, bounds):
        raise UserError(
            "NEEDS_CRS",
            f"The CRS of “{name}” does not fit.",
            f"In {known.name} its coordinates lie far from where that is used; with northing and easting exchanged they would "
            "lie there.",
            "Export it with the easting (x) first.",
        )
    if is_degrees and not is_on_globe:
        raise UserError(
            "NEEDS_CRS",
            f"The CRS of “{name}” does not fit.",
            f"It says degrees, but its coordinates reach from {bounds[0]:g}, {bounds[1]:g} to {bounds[2]:g}, {bounds[3]:g}.",
            "Export it with its true CRS.",
        )
    return {"features": kept, "kinds": dict(kinds), "bounds": bounds}


def _wraps(xy: Any, geometry: Any) -> bool:
    """Whether an edge goes from one side of the 180° meridian to the other, away from the poles."""
    import numpy as np
    import shapely

    for part in shapely.get_parts(geometry):
        for ring in [part.exterior, *part.interiors] if part.geom_type == "Polygon" else [part]:
            at = shapely.get_coordinates(ring)
            far = np.abs(np.diff(at[:, 0])) > 180
            if (far & (np.abs(at[:-1, 1]) < 89.9)).any():
                return True
    return False


def _cut_at_meridian(geometry: Any) -> Any:
    """The geometry with longitudes made continuous, cut at 180° and brought back."""
    import numpy as np
    import shapely
    from shapely.affinity import translate

    def east(p: Any) -> Any:
        return np.column_stack([np.where(p[:, 0] < 0, p[:, 0] + 360, p[:, 0]), p[:, 1]])

    whole = shapely.make_valid(shapely.transform(geometry, east))
    here = whole.intersection(shapely.box(0, -90, 180, 90))
    there = translate(whole.intersection(shapely.box(180, -90, 360, 90)), xoff=-360)
    parts = [p for g in (here, there) for p in shapely.get_parts(g) if p.geom_type.removeprefix("Multi") in geometry.geom_type]
    return shapely.union_all(parts)


def _is_used_there(crs: Any, bounds: tuple[float, float, float, float]) -> bool:
    """Whether a projected CRS is made for the place where these coordinates lie in it."""
    from pyproj import Transformer

    area = crs.area_of_use
    if area is None:
        return True
    lon, lat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(bounds[0], bounds[1])
    return bool(area.west <= lon <= area.east and area.south <= lat <= area.north)


# Degrees by which coordinates in a projected CRS may lie beyond where it is used: neighbours of a zone are often kept in it.
_BEYOND_USE = 10.0


def _is_used_exchanged(crs: Any, bounds: tuple[float, float, float, float]) -> bool:
    """Whether coordinates lie far from where a projected CRS is used, and would lie there with their axes exchanged."""
    from pyproj import Transformer

    area = crs.area_of_use
    if area is None or area.west > area.east:
        return False
    to_degrees = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)

    def lies(x: float, y: float, beyond: float) -> bool:
        lon, lat = to_degrees.transform(x, y)
        if not (math.isfinite(lon) and math.isfinite(lat)):
            return False
        return bool(area.west - beyond <= lon <= area.east + beyond and area.south - beyond <= lat <= area.north + beyond)

    x, y = (bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2
    return not lies(x, y, _BEYOND_USE) and lies(y, x, 0.0)


def _rounds_a_pole(geometry: Any) -> bool:
    """Whether a ring runs once around the globe."""
    import numpy as np
    import shapely

    for part in shapely.get_parts(geometry):
        if part.geom_type != "Polygon":
            continue
        lon = shapely.get_coordinates(part.exterior)[:, 0]
        if abs(float(((np.diff(lon) + 180) % 360 - 180).sum())) > 180:
            return True
    return False


def _checked_warnings(features: list[dict[str, Any]]) -> list[str]:
    out = []
    empty = sum(f["geometry"] is None and not f.get("_not_finite") for f in features)
    mended = sum(bool(f.get("_mended")) for f in features)
    if empty:
        out.append(f"{empty} features have no geometry and are left out.")
    odd = sum(bool(f.get("_not_finite")) for f in features)
    mixed = sum(bool(f.get("_mixed")) for f in features)
    if mixed:
        out.append(
            f"{mixed} feature{'s hold' if mixed > 1 else ' holds'} several kinds of geometry; polygons were kept, or lines where "
            "there are none."
        )
    wrapped = sum(bool(f.get("_wrapped")) for f in features)
    if odd:
        out.append(f"{odd} features have coordinates that are no numbers (NaN) and are left out.")
    if wrapped:
        out.append(f"{wrapped} features cross the 180° meridian; they were cut there.")
    twins = sum(bool(f.get("_twin")) for f in features)
    if twins:
        out.append(
            f"{twins} feature{'s have' if twins > 1 else ' has'} the same shape as another one; each of them is counted, and "
            "their lengths are added up."
        )
    if mended:
        out.append(f"{mended} features cross themselves; they were mended, which may change their area.")
    return out


if __name__ == "__main__":
    sys.exit(serve(run))
