"""What a person would have instead of an observation: another value, or its layer without some boxes, polygons or pieces.

A correction is a verdict (wrong, with a reason) that carries the observation as the person would have it. While the verdict
stands the person's observation takes the place of the machine's and what rests on it is computed again; the machine's value, its
decision and its evidence stay on record beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import numpy as np
from scipy import ndimage
from shapely.geometry import shape

from apps.agent.units import convert, dimension
from apps.core.errors import UserError
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import (
    ASIDE,
    Configuration,
    Evidence,
    LayerRef,
    LogLine,
    Observation,
    Provenance,
    Result,
    Status,
)
from apps.core.geo.grid import transformer
from apps.core.ids import new_id
from apps.core.ports import LayerStore
from apps.runs.headline import value_text

NUMBERS = ("area", "distance", "length", "ratio", "statistic", "trend")
# Units that a person may write an area or a length in; other dimensions keep the machine's.
_UNITS_OF = {"area": ("m2", "ha", "km2"), "length": ("m", "km")}
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
# What differs by less is the same value (as the loop tells whether two observations say the same).
SAME = 1e-4
MOST_COUNT = 10**9
# Parts that are listed one by one, the largest or best first; a mask larger than this is not taken apart.
MOST_PARTS = 200
MOST_MASK_PX = 40_000_000


@dataclass(frozen=True, slots=True)
class Part:
    """One box, polygon or piece of a mask. ``key`` names it; ``box`` (x0, y0, x1, y1) in pixels of the scene."""

    key: str
    name: str
    box: tuple[float, float, float, float]

    @property
    def x(self) -> str:
        return f"{self.box[0]:.1f}"

    @property
    def y(self) -> str:
        return f"{self.box[1]:.1f}"

    @property
    def w(self) -> str:
        return f"{max(1.0, self.box[2] - self.box[0]):.1f}"

    @property
    def h(self) -> str:
        return f"{max(1.0, self.box[3] - self.box[1]):.1f}"


@dataclass(frozen=True, slots=True)
class Correctable:
    """What can be changed of an observation. ``kind``: ``count``, ``number``, ``boolean``, ``class``, ``text``, ``date`` or
    ``parts``, '' where ``why_not`` says why nothing can."""

    kind: str
    why_not: str = ""
    value: str = ""
    unit: str = ""
    units: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    n_parts: int = 0
    size_px: tuple[int, int] = (0, 0)
    scene_id: str = ""
    parents: tuple[str, ...] = field(default=())


def _nothing(why: str) -> Correctable:
    return Correctable("", why)


def correctable(state: RunState, held: ObservationState, store: LayerStore) -> Correctable:
    """What a person may change of this observation, or why nothing can be."""
    o = held.observation
    if held.corrects:
        return _nothing(f"It is the value of a person; change it on observation {o.step}, which the machine made.")
    if held.decision is None:
        return _nothing("It is not judged yet; its checks are still running.")
    if o.status.state == "failed":
        return _nothing("The tool failed, so there is no value to change; ask the question again, or otherwise.")
    first = next((x for x in state.observations.values() if any(r.supporting_id == held.id for r in x.requests)), None)
    if first is not None:
        return _nothing(f"It was made to answer a request on observation {first.observation.step}; change that one.")
    if not all(state.is_in_history(p) for p in o.parents):
        return _nothing("An observation that it was made from is not accepted; settle that one first.")
    r = o.result
    shown = "" if r.value is None else str(r.value)
    match r.kind:
        case "count" if _is_number(r.value):
            return Correctable("count", value=shown, unit=r.unit, parents=o.parents)
        case kind if kind in NUMBERS and _is_number(r.value):
            units = _UNITS_OF.get(dimension(r.unit), ())
            return Correctable(
                "number", value=shown, unit=r.unit, units=units if r.unit in units else (r.unit,), parents=o.parents
            )
        case "boolean" if isinstance(r.value, bool):
            return Correctable("boolean", value="yes" if r.value else "no", choices=("yes", "no"), parents=o.parents)
        case "class" if isinstance(r.value, str):
            space = o.arguments.get("label_space")
            choices = tuple(str(x) for x in space) if isinstance(space, list) else ()
            return Correctable("class", value=shown, choices=choices)
        case "date" if isinstance(r.value, str):
            return Correctable("date", value=shown[:10])
        case "text" if isinstance(r.value, str):
            return Correctable("text", value=shown)
        case "layer":
            return _parts(state, o, store)
    what = {"series": "a series", "table": "a table", "catalog": "a list of inputs"}.get(r.kind, f"a {r.kind} without a value")
    return _nothing(f"It is {what}; single figures of it cannot be changed here. Say that it is wrong, with a note.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- parts of a layer -----------------------------------------------------------------------------------------------------
def _outlines(o: Observation) -> list[tuple[int, LayerRef]]:
    """(place in the result, layer) of boxes and polygons that are what was found."""
    other = (*ASIDE, "reference", "landmarks")
    return [(i, ref) for i, ref in enumerate(o.result.layers) if ref.kind in ("boxes", "polygons") and ref.label not in other]


def _mask_of(o: Observation) -> tuple[int, LayerRef] | None:
    found = [(i, ref) for i, ref in enumerate(o.result.layers) if ref.kind == "mask"]
    return found[0] if len(found) == 1 else None


def _parts(state: RunState, o: Observation, store: LayerStore) -> Correctable:
    scenes = {s.scene_id: s for s in (state.question.scenes if state.question else ())}
    try:
        if outlines := _outlines(o):
            scene = scenes.get(outlines[0][1].source_scene_id or "")
            if scene is None:
                return _nothing("The scene of its outlines is not among those of the question.")
            found = []
            for i, ref in outlines:
                to = None if ref.crs in ("image", scene.grid.crs or "image") else transformer(ref.crs, scene.grid.crs or "")
                for k, feature in enumerate(store.read_features(ref)):
                    x0, y0, x1, y1 = shape(feature["geometry"]).bounds
                    if to is not None:
                        (x0, x1), (y0, y1) = to.transform([x0, x1], [y0, y1])
                    if ref.crs != "image":
                        corners = [_pixel(scene.grid.transform, x, y) for x in (x0, x1) for y in (y0, y1)]
                        x0, y0 = (min(c[axis] for c in corners) for axis in (0, 1))
                        x1, y1 = (max(c[axis] for c in corners) for axis in (0, 1))
                    score = feature.get("properties", {}).get("score")
                    name = ref.label + (f", score {score:.2f}" if isinstance(score, float) else "")
                    found.append((float(score or 0), Part(f"{i}:{k}", name, (x0, y0, x1, y1))))
            found.sort(key=lambda x: -x[0])
        elif (mask_at := _mask_of(o)) is not None and mask_at[1].grid is not None:
            i, ref = mask_at
            grid = ref.grid
            scene = scenes.get(ref.source_scene_id or "")
            if grid is None or scene is None or grid.shape != scene.grid.shape or grid.width * grid.height > MOST_MASK_PX:
                return _nothing("The mask is too large to be taken apart here, or lies on another grid than its scene.")
            labels, n = _pieces(store, ref)
            sizes = np.bincount(labels.ravel(), minlength=n + 1)
            found = []
            for k, window in enumerate(ndimage.find_objects(labels), start=1):
                rows, cols = window
                place = (float(cols.start), float(rows.start), float(cols.stop), float(rows.stop))
                found.append((float(sizes[k]), Part(f"{i}:{k}", f"{int(sizes[k]):,} px", place)))
            found.sort(key=lambda x: -x[0])
        else:
            return _nothing("It is a layer of values, not of single things; say that it is wrong, with a note.")
    except (KeyError, FileNotFoundError, OSError, ValueError):
        return _nothing("Its layer cannot be read any more.")
    if not found:
        return _nothing("Its layer is empty: there is nothing to take away. What it missed is said with a verdict.")
    return Correctable(
        "parts",
        parts=tuple(p for _, p in found[:MOST_PARTS]),
        n_parts=len(found),
        size_px=(scene.grid.width, scene.grid.height),
        scene_id=scene.scene_id,
    )


def _pixel(transform: tuple[float, ...], x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = transform
    det = a * e - b * d
    return (e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det


def _pieces(store: LayerStore, ref: LayerRef) -> tuple[Any, int]:
    """(8-connected pieces numbered from 1, how many)."""
    mask, valid = store.read_mask(ref)
    labels, n = ndimage.label(mask & valid, structure=np.ones((3, 3), dtype=int))
    return labels, int(n)


# --- the person's observation -----------------------------------------------------------------------------------------------
def corrected_value(held: ObservationState, can: Correctable, text: str, unit: str, *, author: str, at: datetime) -> Observation:
    """The observation with a person's value. UserError BAD_ARGUMENT where the value is none of its kind, lies outside what the
    quantity can be, or is the machine's own."""
    r = held.observation.result
    value, unit = _parsed(held.observation, can, text.strip(), unit.strip())
    if _is_same(r, value, unit):
        raise UserError(
            "BAD_ARGUMENT",
            "That is the machine’s value.",
            f"It says {value_text(r.value, r.unit)} already.",
            "If it is right, say Right; else give the value that it should be.",
        )
    told = f"{author} changed {value_text(r.value, r.unit)} to {value_text(value, unit)}."
    result = Result(kind=r.kind, value=value, unit=unit, quantity=r.quantity)
    return _by_person(held, result, {"person_value": value, "machine_value": r.value, "machine_unit": r.unit}, told, author, at)


def _parsed(o: Observation, can: Correctable, text: str, unit: str) -> tuple[float | int | bool | str, str]:
    r = o.result

    def refuse(what: str, why: str, fix: str) -> UserError:
        return UserError("BAD_ARGUMENT", what, why, fix)

    if not text or len(text) > 500 or "\x00" in text:
        raise refuse("No value was given.", "It is empty, or longer than 500 characters.", "Write the value that it should be.")
    if can.kind == "boolean":
        if text not in ("yes", "no"):
            raise refuse(f"“{text[:40]}” is neither yes nor no.", "The observation is a yes or a no.", "Choose one of them.")
        return text == "yes", r.unit
    if can.kind in ("class", "text"):
        if can.choices and text not in can.choices:
            raise refuse(f"“{text[:40]}” is none of the classes.", f"They are {', '.join(can.choices)[:300]}.", "Choose one.")
        return text, r.unit
    if can.kind == "date":
        try:
            return date.fromisoformat(text).isoformat(), r.unit
        except ValueError:
            raise refuse(f"“{text[:40]}” is no date.", "Dates are written year-month-day.", "Write 2024-05-31.") from None
    if not _NUMBER.fullmatch(text):
        raise refuse(f"“{text[:40]}” is no number.", "A number has digits and at most one point.", "Write 12 or 3.5.")
    number = float(text)
    unit = unit or can.unit
    if unit not in (can.units or (can.unit,)):
        raise refuse(
            f"“{unit[:20]}” is no unit of it.", f"Known are {', '.join(can.units or (can.unit,))}.", "Choose one of them."
        )
    if can.kind == "count":
        if not number.is_integer() or not 0 <= number <= MOST_COUNT:
            raise refuse(f"“{text[:40]}” is no count.", "A count is a whole number from 0 on.", "Write how many there are.")
        return int(number), r.unit
    if not math.isfinite(number) or (r.kind in ("area", "distance", "length", "ratio") and number < 0):
        raise refuse(
            f"{text[:40]} cannot be.", f"A {r.kind} is not below 0 and not without end.", "Write the value that it should be."
        )
    low, high = _range(o)
    if (low is not None and number < low) or (high is not None and number > high):
        raise refuse(
            f"{text[:40]} cannot be.", f"It lies outside of {low} to {high}, which the quantity can be.", "Write another value."
        )
    return number, unit


def _range(o: Observation) -> tuple[float | None, float | None]:
    """What the quantity can be: of a share 0 to 1, else what the tool declared of its output."""
    r = o.result
    if r.kind == "ratio" and r.unit in ("1", "%"):
        return 0.0, 1.0 if r.unit == "1" else 100.0
    ranges = o.evidence.source.get("ranges")
    told = ranges.get(str(o.arguments.get("output"))) if isinstance(ranges, dict) else None
    if r.kind != "statistic" or not isinstance(told, dict) or told.get("unit") not in (None, r.unit):
        return None, None
    low, high = told.get("low"), told.get("high")
    return (float(low) if isinstance(low, int | float) else None), (float(high) if isinstance(high, int | float) else None)


def _is_same(r: Result, value: float | int | bool | str, unit: str) -> bool:
    if isinstance(value, bool | str) or not _is_number(r.value):
        return value == r.value
    assert isinstance(r.value, int | float)
    said = convert(value, unit, r.unit)
    if r.kind == "count":
        return said == r.value
    return abs(said - r.value) <= SAME * max(abs(said), abs(r.value))


def corrected_layer(
    held: ObservationState, can: Correctable, remove: Sequence[str], store: LayerStore, *, author: str, at: datetime
) -> Observation:
    """The observation without some of its parts. UserError BAD_ARGUMENT where none, or one that it does not have, is named."""
    known, o = {p.key for p in can.parts}, held.observation
    gone = set(remove)
    if not gone or not gone <= known:
        raise UserError(
            "BAD_ARGUMENT",
            "Nothing can be taken away so.",
            "No part was chosen." if not gone else "A part that it does not have was named.",
            "Choose parts of the list.",
        )
    layers = list(o.result.layers)
    middle: dict[str, Any] = dict(o.evidence.intermediate)
    if outlines := _outlines(o):
        kept, scores = 0, []
        for i, ref in outlines:
            features = [f for k, f in enumerate(store.read_features(ref)) if f"{i}:{k}" not in gone]
            layers[i] = store.put_features(features, kind=ref.kind, crs=ref.crs, label=ref.label, scene_id=ref.source_scene_id)
            kept += len(features)
            scores += [f["properties"]["score"] for f in features if isinstance(f.get("properties", {}).get("score"), float)]
        # what the detector said of the whole layer is not said of what is left
        middle = {k: v for k, v in middle.items() if k not in ("counts", "score_quantiles", "boxes")}
        middle |= {"kept": kept} | ({"scores": sorted(scores, reverse=True)[:1000]} if "scores" in middle else {})
        noun = "box" if len(gone) == 1 else "boxes"
    else:
        mask_at = _mask_of(o)
        assert mask_at is not None and mask_at[1].grid is not None
        i, ref = mask_at
        grid = mask_at[1].grid
        labels, _ = _pieces(store, ref)
        mask, valid = store.read_mask(ref)
        left = mask & ~np.isin(labels, [int(k.split(":")[1]) for k in gone])
        layers[i] = store.put_mask(left, valid, grid, label=ref.label, scene_id=ref.source_scene_id)
        n = int((left & valid).sum())
        middle |= {k: n for k in ("mask_px", "kept") if k in middle}
        noun = "piece" if len(gone) == 1 else "pieces"
    r = o.result
    result = Result(kind=r.kind, value=None, unit=r.unit, quantity=r.quantity, layers=tuple(layers))
    told = f"{author} took {len(gone)} {noun} of {can.n_parts} away."
    return _by_person(held, result, middle | {"taken_away": len(gone)}, told, author, at)


def _by_person(
    held: ObservationState, result: Result, middle: dict[str, Any], told: str, author: str, at: datetime
) -> Observation:
    o = held.observation
    log = (LogLine(at_s=0.0, level="info", message=told),)
    return Observation(
        id=new_id(),
        run_id=o.run_id,
        step=o.step,
        attempt=o.attempt,
        parents=o.parents,
        task=o.task,
        tool=o.tool,
        configuration=Configuration(coarse=o.configuration.coarse, fine=f"{o.configuration.fine[:232]}/person"),
        arguments=o.arguments,
        arguments_passed=o.arguments_passed,
        inputs=o.inputs,
        status=Status(state="ok", started_at=at, elapsed_s=0.0, log=log),
        result=result,
        evidence=Evidence(
            source={**o.evidence.source, "said_by": author, "corrects": o.id}
            if result.layers
            else {"said_by": author, "corrects": o.id},
            intermediate=middle,
            validity=o.evidence.validity if result.layers else {},
        ),
        provenance=Provenance(tool_version="a person"),
    )
