"""Words of the command line and of forms turned into typed arguments, with a clear UserError for what cannot be read."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry import mapping

from apps.core.errors import UserError
from apps.core.geo.bands import BAND_ROLES

# Nobody photographed the ground from above before.
FIRST_IMAGES = datetime(1858, 1, 1, tzinfo=UTC)
MAX_REGION_VERTICES = 100_000
MAX_REGION_BYTES = 8 << 20
# Brackets of WKT: a polygon of a collection has four. GEOS follows them by calls of its own, and deep ones end the process.
MAX_REGION_NESTING = 12


def roles_from_text(text: str) -> dict[str, int]:
    """``red=3,nir=4`` → {'red': 3, 'nir': 4}. UserError BAD_ARGUMENT for other forms, unknown roles and doubles."""
    roles: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"([a-z0-9]+)\s*=\s*(\d{1,4})", part.lower())
        if match is None:
            raise UserError(
                "BAD_ARGUMENT", f"“{part}” is no band role.", "A role reads name=index.", "Write --roles red=3,nir=4."
            )
        role, index = match[1], int(match[2])
        if role not in BAND_ROLES:
            raise UserError(
                "BAD_ARGUMENT",
                f"“{role}” is no known band role.",
                f"Known are {', '.join(sorted(BAND_ROLES))}.",
                "Use one of them.",
            )
        if index < 1 or role in roles or index in roles.values():
            raise UserError(
                "BAD_ARGUMENT",
                f"“{part}” cannot be used.",
                "Bands count from 1, and each band and role stands once.",
                "Mend the list of roles.",
            )
        roles[role] = index
    return roles


def choices_from_text(text: str) -> dict[str, str]:
    """JSON object (or list, keyed A, B, …) of choices. UserError BAD_ARGUMENT where it is neither."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too large or nested too deeply"
        raise UserError(
            "BAD_ARGUMENT",
            "The choices cannot be read.",
            f"They are not JSON: {why}.",
            'Write {"A": "12 ha", "B": "30 ha"}.',
        ) from None
    if isinstance(value, list):
        value = {chr(65 + i): v for i, v in enumerate(value[:26])}
    if (
        not isinstance(value, dict)
        or not 2 <= len(value) <= 26
        or not all(isinstance(v, str | int | float) for v in value.values())
    ):
        raise UserError(
            "BAD_ARGUMENT",
            "The choices cannot be used.",
            "They must be an object of 2 to 26 texts or numbers.",
            'Write {"A": "12 ha", "B": "30 ha"}.',
        )
    if any("\x00" in str(part) for item in value.items() for part in item):
        raise UserError("BAD_ARGUMENT", "The choices cannot be kept.", "They hold a NUL character.", "Take it out.")
    return {str(k)[:8]: str(v)[:500] for k, v in value.items()}


def dates_from_words(words: list[str], n: int) -> list[datetime | None]:
    """ISO dates (or times) as aware UTC, one a file. UserError where there are others than none or ``n``."""
    if not words:
        return [None] * n
    if len(words) != n:
        raise UserError(
            "BAD_ARGUMENT",
            "The dates do not fit the files.",
            f"There are {len(words)} dates and {n} files.",
            "Give one --acquired date for each file, in the same order.",
        )
    out: list[datetime | None] = []
    for word in words:
        try:
            at = (
                datetime.fromisoformat(word)
                if len(word) > 10
                else datetime.combine(date.fromisoformat(word), datetime.min.time())
            )
        except ValueError:
            raise UserError(
                "BAD_ARGUMENT", f"“{word}” is no date.", "Dates read YYYY-MM-DD.", "Write --acquired 2019-06-01."
            ) from None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        if not FIRST_IMAGES <= at <= datetime.now(UTC) + timedelta(days=1):
            raise UserError(
                "BAD_ARGUMENT",
                f"“{word}” cannot be when an image was taken.",
                f"It lies before {FIRST_IMAGES.year} or in the future.",
                "Write the day of the image.",
            )
        out.append(at)
    return out


def region_from_text(text: str, *, may_read_files: bool = False) -> dict[str, Any]:
    """A GeoJSON geometry from WKT, GeoJSON (geometry, feature, or collection of polygons) or a file that holds either.

    ``may_read_files`` is for the command line alone: from elsewhere a path would read what lies on the server.
    Longitude and latitude, x first. UserError BAD_REGION: unreadable, empty, not polygonal, too many vertices, off the globe.
    """
    text = text.strip()
    if not text.startswith(("{", "[")) and not re.match(
        r"(?i)(srid=\d+;)?\s*(multi)?(polygon|point|linestring|geometrycollection)", text
    ):
        if not may_read_files:
            raise _region_error("It is neither WKT nor GeoJSON.")
        path = Path(text)
        if not _is_file(path):
            raise _region_error("It is neither WKT nor GeoJSON, and no file has that name.")
        if path.suffix.lower() in (".gpkg", ".zip", ".kml"):
            text = _region_of_vector(path)
        elif path.stat().st_size > MAX_REGION_BYTES:
            raise _region_error(f"The file is larger than {MAX_REGION_BYTES >> 20} MiB.")
        else:
            text = path.read_text(errors="replace").strip()
    geometry = _geometry(text)
    if geometry.is_empty or geometry.geom_type not in ("Polygon", "MultiPolygon"):
        raise _region_error(f"It is {'empty' if geometry.is_empty else 'a ' + geometry.geom_type}; a region is a polygon.")
    if not all(math.isfinite(v) for v in shapely.get_coordinates(geometry).ravel().tolist()):
        raise _region_error("A coordinate of it is no number.")
    if not geometry.is_valid:
        geometry = shapely.make_valid(geometry)
        parts = [g for g in getattr(geometry, "geoms", [geometry]) if g.geom_type in ("Polygon", "MultiPolygon")]
        geometry = shapely.union_all(parts)
    if shapely.get_num_coordinates(geometry) > MAX_REGION_VERTICES:
        raise _region_error(f"It has more than {MAX_REGION_VERTICES:,} vertices.")
    west, south, east, north = geometry.bounds
    if not (-360 <= west <= east <= 360 and -90 <= south <= north <= 90):
        raise _region_error("Its coordinates are not longitude and latitude in degrees.")
    if geometry.area == 0:
        raise _region_error("It encloses nothing.")
    return dict(json.loads(json.dumps(mapping(geometry))))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # longer than a name may be, or no name at all
        return False


def _region_of_vector(path: Path) -> str:
    """The polygons of a vector file in longitude and latitude, as WKT; edges get points between, so that they stay straight in
    the file's own CRS."""
    import numpy as np

    from apps.core.geo.grid import transformer
    from apps.imagery.vectors import vector_read

    found = vector_read(path, path.name)
    whole = shapely.union_all([shapely.from_geojson(json.dumps(f["geometry"])) for f in found.features])
    west, south, east, north = whole.bounds
    t = transformer(found.crs, "EPSG:4326")
    fine = shapely.segmentize(whole, max(east - west, north - south) / 64 or 1.0)
    return str(shapely.to_wkt(shapely.transform(fine, lambda p: np.stack(t.transform(p[:, 0], p[:, 1]), axis=1)), 9))


def geometry_from_text(text: str) -> Any:
    """A shapely geometry from WKT or GeoJSON (geometry, feature or collection). UserError BAD_REGION for what cannot be read."""
    return _geometry(text)


def _geometry(text: str) -> Any:
    try:
        if not text.startswith("{") and _nesting(text) > MAX_REGION_NESTING:
            raise RecursionError
        if text.startswith("{"):
            value = json.loads(text)
            if value.get("type") == "FeatureCollection":
                return shapely.union_all([shapely.from_geojson(json.dumps(f["geometry"])) for f in value["features"]])
            return shapely.from_geojson(json.dumps(value.get("geometry", value) if value.get("type") == "Feature" else value))
        return shapely.from_wkt(re.sub(r"(?i)^srid=\d+;", "", text))
    except RecursionError:
        raise _region_error("It is nested too deeply.") from None
    except (shapely.errors.GEOSException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _region_error(f"It cannot be read: {str(error)[:200]}.") from None


def _nesting(text: str) -> int:
    """How deeply round brackets lie in each other."""
    import numpy as np

    at = np.frombuffer(text.encode(errors="replace"), dtype=np.uint8)
    return int(np.cumsum((at == ord("(")).astype(np.int32) - (at == ord(")"))).max(initial=0))


def _region_error(why: str) -> UserError:
    return UserError(
        "BAD_REGION",
        "The region cannot be used.",
        why,
        "Draw it again, or give a polygon as WKT or GeoJSON: longitude and latitude, or pixels of images without a place.",
    )
