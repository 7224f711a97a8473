"""Marks of what is to be segmented as people and programs give them: lines of a form, options of the command line, or GeoJSON.

A line is ``in X, Y`` or ``out X, Y`` for a point, with further pairs after ``;`` a stroke, or ``box LEFT, TOP, RIGHT, BOTTOM``
(degrees: WEST, SOUTH, EAST, NORTH). UserError BAD_PROMPTS says what is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from apps.agent.planner.prompts import method_of, scenes_under
from apps.core.errors import ModelError, UserError
from apps.core.evidence.landmark import pixel_on
from apps.core.evidence.plan import Question
from apps.core.evidence.prompt import MAX_PROMPTS, MAX_VERTICES, Prompt
from apps.core.geo.scene import SceneInfo
from apps.imagery.readers import open_scene
from apps.imagery.selectors import scene_paths
from apps.runs.landmarks import Crs, crs_for
from apps.tools.contract import RegionMethod
from apps.tools.perceive.prompts import checked_window

# A form's field and an API's list are cut off here before they are read.
MAX_CHARACTERS = 200_000
_NUMBER = r"[-−+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?"
_PAIR = re.compile(rf"\(?\s*({_NUMBER})\s*[,\s]\s*({_NUMBER})\s*\)?", re.IGNORECASE)
_HOW = "Write “in x, y”, “out x, y”, “in x, y; x, y; …” or “box x, y, x, y”, one mark a line."
# Places of a stroke that are looked at for data before it is refused.
MOST_LOOKED_AT = 32


def prompts_from_text(text: str, scenes: Sequence[SceneInfo]) -> tuple[Prompt, ...]:
    """Of the lines of a form's field."""
    if len(text) > MAX_CHARACTERS:
        raise _bad(f"They are {len(text):,} characters.", f"Give {MAX_CHARACTERS:,} at most: shorter strokes, fewer marks.")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    _refuse_many(len(lines))
    crs = crs_for(scenes)
    return tuple(_from_line(line, crs) for line in lines)


def prompts_from_options(options: Mapping[str, Sequence[str]], scenes: Sequence[SceneInfo]) -> tuple[Prompt, ...]:
    """Of ``point``, ``not_point``, ``box``, ``scribble`` and ``not_scribble`` of the command line, each a list of texts."""
    words = {"point": "in", "not_point": "out", "box": "box", "scribble": "in", "not_scribble": "out"}
    given = [(name, word, text) for name, word in words.items() for text in options.get(name) or ()]
    _refuse_many(len(given))
    crs = crs_for(scenes)
    out = []
    for name, word, text in given:
        mark = _from_line(f"{word} {text.strip()}", crs)
        wanted = {"box": "box", "point": "point", "not_point": "point"}.get(name, "stroke")
        if mark.kind != wanted:
            raise _bad(
                f"“{text[:60]}” of --{name.replace('_', '-')} is no {wanted}.",
                "A point is X,Y; a box X,Y,X,Y; a scribble two or more of X,Y with ; between.",
            )
        out.append(mark)
    return tuple(out)


def prompts_from_geojson(value: Sequence[Any], scenes: Sequence[SceneInfo], crs: str = "") -> tuple[Prompt, ...]:
    """Of a list of features or geometries: points, lines, or a polygon that is an upright box. A feature's property ``inside``
    (true where absent) says whether it marks the thing. ``crs``: '' as ``crs_for``."""
    _refuse_many(len(value))
    known: Crs = "image" if crs == "image" else "EPSG:4326" if crs else crs_for(scenes)
    return tuple(_from_geometry(one, known) for one in value)


def check_prompts(prompts: Sequence[Prompt], scenes: Sequence[SceneInfo]) -> None:
    """UserError where they cannot be segmented on these scenes: nothing inside, two boxes, outside of every scene or of one each,
    contradicting ones, a box of less than two pixels, too far apart, or all on pixels without data."""
    if not prompts:
        return
    _refuse_many(len(prompts))
    if sum(p.kind == "box" for p in prompts) > 1:
        raise _bad("There are two boxes.", "Draw one, and mark the rest by points or strokes.")
    if not any(p.inside for p in prompts):
        raise _bad("All of them mark what is outside.", "Mark the thing itself too: a point or stroke inside, or a box about it.")
    if not scenes:
        raise _bad("There is no imagery to segment.", "Choose at least one scene.")
    if any(p.crs == "image" for p in prompts) and len(scenes) != 1:
        raise _bad(f"They are given in pixels, and {len(scenes)} scenes are chosen.", "Choose the one scene that is meant.")
    able = scenes_under(prompts, scenes)
    if not able:
        _refuse_outside(prompts, scenes)
    scene = able[0]
    method = RegionMethod.model_validate(method_of(prompts, scene))
    try:
        checked_window(method, scene)
    except ModelError as error:
        raise _bad(_sentence(str(error)), "Mark one thing: inside it, outside it, or a box about it.") from None
    _refuse_no_data(method, scene)


def prompt_field(question: Question | None) -> dict[str, Any]:
    """What templates/prompts.html shows: the text as the question has it, an example, and a sentence."""
    held = question.prompts if question is not None else ()
    in_pixels = question is not None and crs_for(question.scenes) == "image"
    return {
        "text": "\n".join(prompt_text(p) for p in held),
        "is_set": bool(held),
        "example": "in 120, 80\nout 200, 90" if in_pixels else "in -1.0210, 50.8420\nout -1.0180, 50.8400",
        "help": "One a line: in x, y is a point inside, out x, y one outside, in x, y; x, y; … a stroke, box "
        + ("left, top, right, bottom." if in_pixels else "west, south, east, north."),
    }


def prompt_text(mark: Prompt) -> str:
    """As it stands in its line."""
    places = 7 if mark.crs == "EPSG:4326" else 2
    pairs = [", ".join(f"{v:.{places}f}".rstrip("0").rstrip(".") for v in place) for place in mark.places]
    return f"box {', '.join(pairs)}" if mark.kind == "box" else f"{'in' if mark.inside else 'out'} {'; '.join(pairs)}"


def prompt_feature(mark: Prompt) -> dict[str, Any]:
    """A GeoJSON feature for the map, in the mark's own coordinates."""
    at = [list(p) for p in mark.corners]
    geometry: dict[str, Any] = {"type": "Point", "coordinates": at[0]}
    if mark.kind != "point":
        is_box = mark.kind == "box"
        geometry = {"type": "Polygon" if is_box else "LineString", "coordinates": [[*at, at[0]]] if is_box else at}
    where = "about the thing" if mark.kind == "box" else "inside" if mark.inside else "outside"
    label = "" if mark.kind == "box" else "+" if mark.inside else "−"
    return {
        "type": "Feature",
        "geometry": geometry,
        "properties": {"label": label, "title": f"Marked {mark.kind}, {where}", "inside": mark.inside},
    }


def prompts_feature(prompts: Sequence[Prompt]) -> dict[str, Any]:
    """All of them for the map; ``title`` of each says what it is."""
    return {"type": "FeatureCollection", "features": [prompt_feature(p) for p in prompts]}


# --- reading ------------------------------------------------------------------------------------------------------------------
def _from_line(line: str, crs: Crs) -> Prompt:
    word, _, rest = line.partition(" ")
    word = word.lower().rstrip(":")
    if word not in ("in", "out", "box") or not rest.strip():
        raise _bad(f"“{line[:60]}” is no mark.", _HOW)
    parts = [p for p in rest.split(";") if p.strip()]
    if word == "box":
        numbers = re.findall(_NUMBER, rest, re.IGNORECASE)
        if len(numbers) != 4 or re.sub(_NUMBER, "", rest, flags=re.IGNORECASE).strip(" ,;()\t"):
            raise _bad(f"“{line[:60]}” is no box.", "A box has four numbers: box x, y, x, y.")
        return _mark("box", [numbers[:2], numbers[2:]], inside=True, crs=crs)
    if len(parts) > MAX_VERTICES:
        raise _bad(f"A stroke has {len(parts):,} places.", f"Draw strokes of {MAX_VERTICES:,} places at most.")
    pairs = [_PAIR.fullmatch(p.strip()) for p in parts]
    if not pairs or any(m is None for m in pairs):
        raise _bad(f"“{line[:60]}” is no mark.", _HOW)
    places = [[m[1], m[2]] for m in pairs if m is not None]
    return _mark("point" if len(places) == 1 else "stroke", places, inside=word == "in", crs=crs)


def _from_geometry(value: Any, crs: Crs) -> Prompt:
    fix = "A mark is a GeoJSON Point, a LineString, or a Polygon that is an upright box."
    is_feature = isinstance(value, dict) and value.get("type") == "Feature"
    geometry = value.get("geometry") if is_feature else value
    properties = (value.get("properties") or {}) if is_feature else {}
    inside = properties.get("inside", True) if isinstance(properties, dict) else True
    if not isinstance(inside, bool):
        raise _bad("The property inside is neither true nor false.", "Leave it out, or say true or false.")
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    at = geometry.get("coordinates") if isinstance(geometry, dict) else None
    if kind == "Polygon" and isinstance(at, list) and len(at) == 1:
        at = at[0]
    elif kind == "Point":
        at = [at]
    elif kind != "LineString":
        raise _bad(f"One is {'a ' + str(kind)[:20] if kind else 'no geometry'}.", fix)
    if not isinstance(at, list) or not at or len(at) > MAX_VERTICES or any(not _is_place(p) for p in at):
        raise _bad(f"One of them has no places, more than {MAX_VERTICES:,}, or one that is no pair of finite numbers.", fix)
    if kind != "Polygon":
        return _mark("point" if kind == "Point" else "stroke", [p[:2] for p in at], inside=inside, crs=crs)
    xs, ys = sorted({p[0] for p in at}), sorted({p[1] for p in at})
    if len(xs) != 2 or len(ys) != 2 or len(at) != 5 or at[0][:2] != at[4][:2] or len({tuple(p[:2]) for p in at}) != 4:
        raise _bad("A polygon is no upright box.", fix)
    return _mark("box", [[xs[0], ys[0]], [xs[1], ys[1]]], inside=inside, crs=crs)


def _is_place(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e12 for v in value[:2])
    )


def _mark(kind: Literal["point", "box", "stroke"], places: Iterable[Sequence[Any]], *, inside: bool, crs: Crs) -> Prompt:
    numbers = [tuple(float(str(v).replace("−", "-")) for v in p) for p in places]
    if not all(math.isfinite(v) for p in numbers for v in p):
        raise _bad("A coordinate is no finite number.", "Give finite coordinates.")
    try:
        return Prompt.model_validate({"kind": kind, "places": numbers, "inside": inside, "crs": crs})
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise _bad(
            f"A {kind} cannot be used: {why[:1].lower()}{why[1:]}.", "Mark it on the image, or mend its numbers."
        ) from None


# --- checking -----------------------------------------------------------------------------------------------------------------
def _refuse_many(n: int) -> None:
    if n > MAX_PROMPTS:
        raise _bad(f"There are {n:,} of them.", f"Give {MAX_PROMPTS} at most.")


def _refuse_outside(prompts: Sequence[Prompt], scenes: Sequence[SceneInfo]) -> None:
    """Says why no scene holds them all."""
    placed = [s for s in scenes if prompts[0].crs == "image" or s.grid.crs is not None]
    if not placed:
        raise _bad("They are given in degrees, and the imagery has no coordinate system.", "Give column and row.")
    for mark in prompts:
        lost = next((p for p in mark.corners if not any(pixel_on(s.grid, *p, mark.crs) for s in placed)), None)
        if lost is not None:
            x, y = lost
            swapped = any(pixel_on(s.grid, y, x, mark.crs) for s in placed)
            hint = " The other way round it would lie on it: longitude (or the column) comes first." if swapped else ""
            raise _bad(f"A {mark.kind} ({x:g}, {y:g}) lies outside the imagery.{hint}", "Mark it on the image.")
    raise _bad("They lie on different images.", "Mark one thing on one image.")


def _refuse_no_data(method: RegionMethod, scene: SceneInfo) -> None:
    """Where a point inside, or the whole of a stroke, marks pixels without data."""
    path = scene_paths([scene.scene_id]).get(scene.scene_id)
    inside = [((x, y),) for x, y, is_in in method.points if is_in] + [s.line for s in method.scribbles if s.inside]
    if path is None or not inside:
        return
    with open_scene(scene, path) as reader:
        for line in inside:
            looked_at = line[:: max(1, math.ceil(len(line) / MOST_LOOKED_AT))]
            for x, y in looked_at:
                at = (min(scene.grid.width - 1, int(x)), min(scene.grid.height - 1, int(y)), 1, 1)
                if np.any(reader.read([b.index for b in scene.bands], at).valid):
                    break
            else:
                x, y = line[0]
                raise _bad(
                    f"The {'point' if len(line) == 1 else 'stroke'} at column {x:.0f}, row {y:.0f} of {scene.name} marks pixels "
                    "without data.",
                    "Mark a place that the image shows.",
                )


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _bad(why: str, fix: str) -> UserError:
    return UserError("BAD_PROMPTS", "The marks of what is to be segmented cannot be used.", why, fix)
