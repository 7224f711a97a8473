"""Marked places as people and programs give them: two fields of a form, or GeoJSON.

UserError BAD_LANDMARKS says what is wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import shapely
from pydantic import ValidationError

from apps.agent.planner.landmarks import names_a_place
from apps.core.errors import UserError
from apps.core.evidence.landmark import Landmark, pixel_on
from apps.core.evidence.plan import Question
from apps.core.geo.scene import SceneInfo

Crs = Literal["EPSG:4326", "image"]
NAMES: tuple[Literal["A"], Literal["B"]] = ("A", "B")
MAX_BYTES = 64 << 10
_NUMBER = r"[-−+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?"
_FIELD = re.compile(rf"\s*\(?\s*{_NUMBER}(?:\s*(?:,|;|\s)\s*{_NUMBER})+\s*\)?\s*", re.IGNORECASE)
_CRS_NAMES = {"EPSG:4326": "EPSG:4326", "4326": "EPSG:4326", "CRS84": "EPSG:4326", "image": "image"}


def crs_for(scenes: Sequence[SceneInfo]) -> Crs:
    """Degrees where all scenes have a CRS, else pixels: as the map and the region have it."""
    return "EPSG:4326" if all(s.grid.is_georeferenced for s in scenes) else "image"


def landmarks_from_fields(fields: Mapping[str, str], scenes: Sequence[SceneInfo]) -> tuple[Landmark, ...]:
    """Of ``landmark_a``, ``landmark_b`` ("x, y" or "least x, least y, greatest x, greatest y") and ``landmark_a_precision``, …"""
    crs = crs_for(scenes)
    out = []
    for name in NAMES:
        text = fields.get(f"landmark_{name.lower()}", "").strip()
        if not text:
            continue
        if len(text) > 200 or not _FIELD.fullmatch(text):
            order = "longitude, latitude" if crs == "EPSG:4326" else "column, row"
            raise _bad(
                f"“{text[:60]}” of {name} is no place.",
                f"Write {order}; for a box west, south, east, north."
                if crs == "EPSG:4326"
                else f"Write {order}; for a box left, top, right, bottom.",
            )
        numbers = [float(v.replace("−", "-")) for v in re.findall(_NUMBER, text, re.IGNORECASE)]
        out.append(_landmark(name, numbers, crs, fields.get(f"landmark_{name.lower()}_precision", "").strip()))
    return tuple(out)


def landmarks_from_geojson(value: Any, scenes: Sequence[SceneInfo], crs: str = "") -> tuple[Landmark, ...]:
    """Of a list or collection of features or geometries: points, or polygons that are upright boxes; the first is A. ``crs``: ''
    as ``crs_for``. A feature's property ``precision`` says how exactly it was pointed at (metres, or pixels)."""
    if isinstance(value, dict) and isinstance(value.get("crs"), dict):  # GeoJSON of before 2016
        properties = value["crs"].get("properties")
        named = str(properties.get("name", "")) if isinstance(properties, dict) else ""
        crs = crs or named.rsplit(":", 1)[-1] or "none"
    wanted = _CRS_NAMES.get(crs) if crs else crs_for(scenes)
    if wanted is None:
        raise _bad(f"Their CRS {crs[:40]!r} is none that is read.", "Give longitude and latitude (EPSG:4326), or pixels (image).")
    known: Crs = "image" if wanted == "image" else "EPSG:4326"
    found = value
    if isinstance(value, dict):
        found = value.get("features", value.get("geometries"))
    if not isinstance(found, (list, tuple)):
        raise _bad("They are no list of two places.", "Give a GeoJSON FeatureCollection of two points or boxes.")
    if not 1 <= len(found) <= 2:
        raise _bad(f"There are {len(found)} of them.", "Mark exactly two places, A and B.")
    return tuple(_from_geometry(NAMES[at], one, known) for at, one in enumerate(found))


def landmarks_from_text(text: str, scenes: Sequence[SceneInfo], *, may_read_files: bool = False) -> tuple[Landmark, ...]:
    """Of GeoJSON as text, or of a file that holds it (the command line alone may read files)."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        path = Path(text)
        try:
            is_file = may_read_files and path.is_file()
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            raise _bad(
                "They are no GeoJSON, and no file has that name.", "Give a GeoJSON FeatureCollection of two points or boxes."
            )
        if path.stat().st_size > MAX_BYTES:
            raise _bad(f"The file is larger than {MAX_BYTES >> 10} KiB.", "Two places need a few lines.")
        text = path.read_text(errors="replace")
    if len(text) > MAX_BYTES:
        raise _bad("The text is too long.", "Two places need a few lines.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("They cannot be read as GeoJSON.", "Give a GeoJSON FeatureCollection of two points or boxes.") from None
    return landmarks_from_geojson(value, scenes)


def check_landmarks(landmarks: Sequence[Landmark], scenes: Sequence[SceneInfo], text: str) -> None:
    """UserError where they cannot be measured on these scenes: one where the words give no coordinates for the other, one place
    twice, outside of every scene, pixels of several scenes, degrees where no scene has a CRS."""
    if not landmarks:
        return
    if len(landmarks) == 1 and not names_a_place(text):
        other = "B" if landmarks[0].name == "A" else "A"
        raise _bad(
            f"Only {landmarks[0].name} is marked.",
            f"Mark {other} too, give its coordinates in the question, or clear {landmarks[0].name}.",
        )
    if len({m.name for m in landmarks}) != len(landmarks):
        raise _bad("Two have one name.", "Call one of them A and the other B.")
    if len(landmarks) == 2 and landmarks[0].crs == landmarks[1].crs and landmarks[0].middle == landmarks[1].middle:
        raise _bad("A and B are one and the same place.", "Mark two places.")
    if not scenes:
        raise _bad("There is no imagery to measure them on.", "Choose at least one scene.")
    for mark in landmarks:
        if mark.crs == "image" and len(scenes) != 1:
            raise _bad(
                f"{mark.name} is given in pixels, and {len(scenes)} scenes are chosen.", "Choose the one scene that is meant."
            )
        placed = [s for s in scenes if mark.crs == "image" or s.grid.is_georeferenced]
        if not placed:
            raise _bad(f"{mark.name} is given in degrees, and the imagery has no coordinate system.", "Give column and row.")
        x0, y0, x1, y1 = mark.bounds
        corners = [(x0, y0), (x1, y1), (x0, y1), (x1, y0), mark.middle]
        if not any(all(pixel_on(s.grid, x, y, mark.crs) for x, y in corners) for s in placed):
            swapped = any(pixel_on(s.grid, mark.middle[1], mark.middle[0], mark.crs) for s in placed)
            hint = " The other way round it would lie on it: longitude (or the column) comes first." if swapped else ""
            raise _bad(f"{mark.name} lies outside the imagery.{hint}", "Mark it on the image.")


def mark_fields(question: Question | None) -> dict[str, Any]:
    """What templates/marks.html shows: rows (name, id, text, example, precision) as the question has them, and a sentence."""
    held = {m.name: m for m in question.landmarks} if question is not None else {}
    in_pixels = question is not None and crs_for(question.scenes) == "image"
    examples = {"A": "120, 80", "B": "340, 210"} if in_pixels else {"A": "-1.021, 50.842", "B": "-1.014, 50.836"}
    rows = [
        {
            "name": name,
            "id": f"landmark_{name.lower()}",
            "text": landmark_text(held[name]) if name in held else "",
            "example": examples[name],
            "precision": f"{held[name].precision:.6g}" if name in held and held[name].precision is not None else "",
        }
        for name in NAMES
    ]
    typed = "longitude, latitude (a box: west, south, east, north)"
    if in_pixels:
        typed = "column, row (a box: left, top, right, bottom)"
    elif question is None:
        typed += "; column, row of a picture without a place"
    return {
        "rows": rows,
        "is_set": bool(held),
        "help": f"Click the map for a point, drag for a box (P); or type {typed}.",
    }


def landmark_text(mark: Landmark) -> str:
    """As it stands in its field."""
    places = 7 if mark.crs == "EPSG:4326" else 2
    return ", ".join(f"{v:.{places}f}".rstrip("0").rstrip(".") for v in (mark.box or mark.point or ()))


def landmark_feature(mark: Landmark) -> dict[str, Any]:
    """A GeoJSON feature for the map, in the mark's own coordinates."""
    x0, y0, x1, y1 = mark.bounds
    geometry: dict[str, Any] = {"type": "Point", "coordinates": [x0, y0]}
    if mark.box is not None:
        geometry = {"type": "Polygon", "coordinates": [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]}
    kind = "box" if mark.box is not None else "point"
    return {"type": "Feature", "geometry": geometry, "properties": {"label": mark.name, "title": f"{mark.name}, marked {kind}"}}


def _from_geometry(name: Literal["A", "B"], value: Any, crs: Crs) -> Landmark:
    properties = value.get("properties") if isinstance(value, dict) else None
    geometry = value.get("geometry", value) if isinstance(value, dict) and value.get("type") == "Feature" else value
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind not in ("Point", "Polygon"):
        raise _bad(f"{name} is {'a ' + str(kind)[:20] if kind else 'no geometry'}.", "A landmark is a point or a box.")
    try:
        found = shapely.from_geojson(json.dumps(geometry))
    except (shapely.errors.GEOSException, ValueError, TypeError, RecursionError):
        raise _bad(f"{name} cannot be read.", "Give a GeoJSON point, or a polygon that is a box.") from None
    if found.is_empty:
        raise _bad(f"{name} is empty.", "Give a GeoJSON point, or a polygon that is a box.")
    numbers = [float(v) for v in (found.coords[0][:2] if kind == "Point" else found.bounds)]
    if kind == "Polygon" and not (found.is_valid and math.isclose(found.area, found.envelope.area, rel_tol=1e-6)):
        raise _bad(f"{name} is a polygon that is no upright box.", "Give a box whose sides run along the axes, or a point.")
    precision = properties.get("precision") if isinstance(properties, dict) else None
    return _landmark(name, numbers, crs, "" if precision is None else str(precision)[:40])


def _landmark(name: Literal["A", "B"], numbers: list[float], crs: Crs, precision: str) -> Landmark:
    if len(numbers) not in (2, 4):
        raise _bad(f"{name} has {len(numbers)} numbers.", "A point has two, a box four.")
    if not all(math.isfinite(v) for v in numbers):
        raise _bad(f"A coordinate of {name} is no finite number.", "Give finite coordinates.")
    try:
        exact = float(precision) if precision else None
        return Landmark.model_validate(
            {"name": name, "point" if len(numbers) == 2 else "box": tuple(numbers), "crs": crs, "precision": exact}
        )
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise _bad(
            f"{name} cannot be a place: {why[:1].lower()}{why[1:]}.", "Mark it on the image, or mend its numbers."
        ) from None
    except ValueError:
        raise _bad(f"How exactly {name} was pointed at is no number.", "Leave the precision out.") from None


def _bad(why: str, fix: str) -> UserError:
    return UserError("BAD_LANDMARKS", "The marked places cannot be used.", why, fix)
