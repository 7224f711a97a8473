"""Faults of vector files and of kinds of place: what a person's file is read as, and what a classifier says of a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import shapely
from shapely.affinity import scale
from shapely.geometry import mapping, shape

from apps.core.evidence.observation import Observation
from apps.core.ports import LayerStore
from apps.evaluation.faultbench.doors import ChangedLayers
from apps.evaluation.faultbench.faults import Call, Fault, register, swapped_roles

Features = list[dict[str, Any]]


# --- vector files -------------------------------------------------------------------------------------------------------------
def _vectors(call: Call) -> list[str]:
    """Digests of the vector files that a call reads, once for every time that it does."""
    named = [s.get("vector") for s in call.arguments.get("sources", ())]
    zones = [n["params"].get("vector") for n in call.arguments.get("nodes", ()) if n.get("op") == "vector.zones"]
    return [str(digest) for digest in (*named, *zones) if digest]


def _reads_vector(call: Call) -> bool:
    return bool(_vectors(call))


def _measures_in_plane(call: Call) -> bool:
    metric = call.arguments.get("spec", {}).get("metric")
    return metric in ("area", "length", "distance") and len(set(_vectors(call))) == 1


def _picks_by_name(call: Call) -> bool:
    return any(s.get("only") for s in call.arguments.get("sources", ()))


def _moved(features: Features, change: Callable[[Any], Any]) -> Features:
    """The same features with other geometries."""
    return [{**f, "geometry": json.loads(json.dumps(mapping(change(shape(f["geometry"])))))} for f in features]


def _lost(features: Features, crs: str) -> tuple[Features, str]:
    """Every third feature did not come through a conversion."""
    return [f for k, f in enumerate(features) if k % 3 != 2], crs


def _axes_or_zone(features: Features, crs: str) -> tuple[Features, str]:
    """Degrees with latitude first are read as longitude first; metres of one system as those of another."""
    if crs in ("EPSG:4326", "OGC:CRS84"):
        return _moved(features, lambda g: shapely.transform(g, lambda p: p[:, ::-1])), crs
    return features, "EPSG:32630" if crs != "EPSG:32630" else "EPSG:3857"


def _flat(features: Features, crs: str) -> tuple[Features, str]:
    """Coordinates are measured as they stand, as if they lay at the equator: no cosine of the latitude, no scale of Mercator."""
    middle = float(np.mean(np.concatenate([shapely.get_coordinates(shape(f["geometry"])) for f in features])[:, 1]))
    return _moved(features, lambda g: shapely.transform(g, lambda p: p - [0, middle])), crs


def _older(features: Features, crs: str) -> tuple[Features, str]:
    """A former edition of the file, kept under its new name: everything lies 15 % nearer to the middle."""
    x, y = np.concatenate([shapely.get_coordinates(shape(f["geometry"])) for f in features]).mean(axis=0)
    return _moved(features, lambda g: scale(g, 0.85, 0.85, origin=(float(x), float(y)))), crs


def _next_name(features: Features, crs: str) -> tuple[Features, str]:
    """Attributes are one row late: a join by position after a sort."""
    return [{**f, "properties": features[k - 1]["properties"]} for k, f in enumerate(features)], crs


def _vector_door(change: Callable[[Features, str], tuple[Features, str]]) -> Callable[[LayerStore, Call], LayerStore]:
    return lambda real, call: ChangedLayers(real, vector=change)


for name, meaning, change, where in (
    ("features_lost", "every third feature of the file is missing", _lost, _reads_vector),
    ("vector_crs_wrong", "the file's coordinates are read in another system, or latitude first", _axes_or_zone, _reads_vector),
    ("planar_lengths", "lengths and areas are those of the map's plane", _flat, _measures_in_plane),
    ("vector_stale", "a former edition of the file is measured", _older, _reads_vector),
    ("names_shifted", "every feature bears the name of the one before it", _next_name, _picks_by_name),
):
    register(Fault(name, "vector", meaning, where, layers=_vector_door(change)))


# --- kinds of place -------------------------------------------------------------------------------------------------------------
def _names_place(call: Call) -> bool:
    return call.tool == "perceive" and call.arguments.get("mode") == "scene"


def _told(o: Observation, label: str | None, items: list[dict[str, Any]]) -> Observation:
    """The observation with another label and these probabilities, on its record too."""
    held = [float(i["p"]) for i in items if i["class"] == label]
    middle = {
        **o.evidence.intermediate,
        "label_probabilities": {str(i["class"]): i["p"] for i in items},
        "classes": [label] if held else [],
        "scores": held,
        "kept": len(held),
    }
    return o.model_copy(
        update={
            "result": o.result.model_copy(update={"value": label, "items": tuple(items)}),
            "evidence": o.evidence.model_copy(update={"intermediate": middle}),
        }
    )


def _ranked(o: Observation) -> list[dict[str, Any]]:
    """Labels with their probabilities, the likeliest first."""
    return [dict(i) for i in o.result.items]


def _label_swapped(o: Observation, call: Call) -> Observation:
    """The two likeliest labels are exchanged wherever they stand, as after a list of classes in another order."""
    items = _ranked(o)
    if o.result.value is None or len(items) < 2:
        return o
    first, second = str(items[0]["class"]), str(items[1]["class"])
    other = {first: second, second: first}
    for i in items:
        i["class"] = other.get(str(i["class"]), i["class"])
    told = _told(o, second, items)
    top: Any = o.evidence.intermediate.get("top_of_the_model", [])
    middle = {**told.evidence.intermediate, "top_of_the_model": [{**t, "class": other.get(t["class"], t["class"])} for t in top]}
    return told.model_copy(update={"evidence": told.evidence.model_copy(update={"intermediate": middle})})


def _overconfident(o: Observation, call: Call) -> Observation:
    """The temperature was applied the wrong way round: probabilities squared and made to sum to one."""
    items = _ranked(o)
    total = sum(float(i["p"]) ** 2 for i in items)
    if o.result.value is None or not total:
        return o
    for i in items:
        i["p"] = round(float(i["p"]) ** 2 / total, 4)
    return _told(o, str(o.result.value), items)


def _scope_never_asked(o: Observation, call: Call) -> Observation:
    """The likeliest label is told of a picture that is like none of the model's: nobody asked whether it is."""
    items = _ranked(o)
    if o.result.value is not None or not items:
        return o
    told = _told(o, str(items[0]["class"]), items)
    middle = {**told.evidence.intermediate, "windows_out_of_scope": 0, "scope_score": None}
    validity: dict[str, Any] = {**o.evidence.validity, "in_scope": True, "applicability": {"ok": True, "problems": []}}
    return told.model_copy(
        update={
            "status": o.status.model_copy(update={"state": "ok", "reason": "", "log": ()}),
            "evidence": told.evidence.model_copy(update={"intermediate": middle, "validity": validity}),
        }
    )


for name, meaning, report in (
    ("label_swapped", "the second label is told for the first", _label_swapped),
    ("probabilities_off", "the label is right and surer than it should be", _overconfident),
    ("out_of_scope_told", "a kind of place is told of a picture that shows none that the model knows", _scope_never_asked),
):
    register(Fault(name, "class", meaning, _names_place, report=report))
register(
    Fault("colours_exchanged", "class", "red and blue are exchanged", _names_place, reader=swapped_roles("red", "blue"))
)
