"""Consistency of a kind of place with the source's own pixels and with what the model itself said."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import geod_of
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.checks.veils import unveiled
from apps.verification.kinds import KindLook, kind_looks, view_of
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError

_ROLES = ("red", "green", "blue")
# Windows of a large scene that are looked at, spread over those that show the kind.
MOST_WINDOWS = 9
# A view this many times odder than what the look takes for odd is like nothing that any kind of it shows.
FAR_ODD = 3.0
# A window may be so many times larger or smaller on the ground than the views that the look knows.
ROOM = 1.3
# As many labels stand on record at most.
MOST_LABELS = 100
# Probabilities on record are rounded to four digits.
_ROUNDING = 2e-4


def _plain(word: object) -> str:
    return "".join(c for c in str(word).lower() if c.isalnum())


def _top(case: Case) -> dict[str, float]:
    """The model's own likeliest classes with their probabilities, as on record."""
    told = case.evidence("intermediate", "top_of_the_model")
    held = {str(t.get("class")): number_of(t.get("p")) for t in told if isinstance(t, dict)} if isinstance(told, list) else {}
    return {k: v for k, v in held.items() if v is not None}


@check(
    "probabilities_are_the_models",
    family="consistency",
    catches=("probabilities squared", "stale artifact"),
    reads=("/result/items", "/evidence/intermediate/top_of_the_model"),
)
def probabilities_are_the_models(case: Case) -> Finding:
    """Probabilities of kinds of place are those that the model itself gave to these classes; a word that covers several classes
    is at least as probable as each of them."""
    top = _top(case)
    if case.observation.tool != "perceive" or case.kind != "class" or not top:
        return not_applicable("no kind of place with the model's own classes")
    at = ("/result/items", "/evidence/intermediate/top_of_the_model")
    items = {str(i.get("class")): number_of(i.get("p")) for i in case.items()}
    own = not case.arguments.get("label_space")
    for name, p in top.items():
        told = items.get(name)
        if told is None:
            if own and len(items) < 100:
                return failed("One of the model's likeliest classes is no label.", measured=None, expected=name, at=at)
            continue
        if told < p - _ROUNDING or (own and told > p + _ROUNDING):
            return failed(f"{name} is told with another probability than the model gave it.", measured=told, expected=p, at=at)
    return passed("The probabilities are the model's.", measured=len(top), at=at)


@check(
    "kind_matches_look",
    family="consistency",
    catches=("swapped labels", "out of scope told", "band swap"),
    reads=("/result/value", "/evidence/intermediate/window_px", "/result/layers"),
)
def kind_matches_look(case: Case) -> Finding:
    """Colours and textures of the source's own pixels bear the kind of place that is told, by a small look of the verifier's own
    that was fitted on labelled pictures. It passes what it finds likely itself, contradicts what it finds next to impossible, and
    of what lies between it says nothing."""
    if case.observation.tool != "perceive" or case.kind != "class" or not isinstance(case.observation.result.value, str):
        return not_applicable("no kind of place")
    look = _look_for(case)
    if look is None:
        return not_applicable("a kind of place that the second look does not know")
    value = case.observation.result.value
    try:
        views = [_view(case, look, w) for w in _windows(case, value)]
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    p, odd = look.seen(views)
    known = {_plain(c): k for k, c in enumerate(look.classes)}
    borne, oddness = float(p[:, known[_plain(value)]].mean()), float(np.median(odd)) / look.odd_at
    likeliest = look.classes[int(p.mean(axis=0).argmax())]
    at = ("/result/value",)
    if oddness > FAR_ODD:
        return failed(
            "By their colours and textures the pixels are like no picture of any kind of place that the second look knows.",
            measured=round(oddness, 2), expected=f"≤ {FAR_ODD:g}", at=at,
        )  # fmt: skip
    if oddness > 1:
        return inconclusive("The pixels are too unlike what the second look knows; it says nothing.", at=at, severity="warn")
    if borne < look.contradict_at:
        return failed(
            f"Colours and textures of the pixels do not bear {value}; the second look finds {likeliest} likeliest.",
            measured=round(borne, 5), expected=f"≥ {look.contradict_at:.2g}", at=at,
        )  # fmt: skip
    if borne < look.agree_at:
        return inconclusive(
            f"The second look neither bears nor contradicts {value} (probability {borne:.2f}).", at=at, severity="warn"
        )
    return passed(f"The second look bears {value}.", measured=round(borne, 4), at=at)


def _look_for(case: Case) -> KindLook | None:
    """The look that knows the value and all of the model's likeliest classes."""
    named = {_plain(case.observation.result.value), *(_plain(c) for c in _top(case))}
    return next((k for k in kind_looks() if named <= {_plain(c) for c in k.classes}), None) if _top(case) else None


def _windows(case: Case, value: str) -> list[Window]:
    """The windows that the tool says it looked at and that show the value: of one the whole, of many some of the layer's."""
    if case.is_limited:
        raise CannotLookError("a look at a part of the scene")
    n = case.evidence_number("intermediate", "windows")
    if n == 1:
        size = case.evidence("intermediate", "window_px")
        sides = [number_of(v) for v in size] if isinstance(size, list) else []
        if len(sides) != 2 or None in sides:
            raise CannotLookError("the window's size is not on record")
        return [(0, 0, *(max(1, round(v)) for v in sides if v is not None))]  # type: ignore[list-item]
    ref = case.layer("polygons", "windows")
    if ref is None:
        raise CannotLookError("the windows are not at hand")
    held = [f for f in case.features(ref) if str((f.get("properties") or {}).get("class")) == value]
    if not held:
        raise CannotLookError("no window shows the kind")
    step = max(1, math.ceil(len(held) / MOST_WINDOWS))
    out = []
    for feature in held[::step]:
        ring = np.asarray(feature["geometry"]["coordinates"][0], dtype=float)
        x0, y0, x1, y1 = (round(v) for v in (*ring.min(axis=0), *ring.max(axis=0)))
        out.append((x0, y0, max(1, x1 - x0), max(1, y1 - y0)))
    return out


def _view(case: Case, look: KindLook, window: Window) -> NDArray[np.float64]:
    """The window's colours as the look knows them. CannotLookError where they are no colours, or some are missing."""
    scene = _scene(case)
    x, y, w, h = window
    if x < 0 or y < 0 or x + w > scene.grid.width or y + h > scene.grid.height or min(w, h) < 16:
        raise CannotLookError("the window is none of the scene's")
    if any(not look.ground_m / ROOM <= side <= look.ground_m * ROOM for side in _sides_m(scene, window)):
        raise CannotLookError("the window is of another size on the ground than the second look knows")
    planes = look_of(case).bands(scene, _ROLES, window)
    if any(unveiled(case, scene, p, window).valid.mean() < 0.98 for p in planes.values()):
        raise CannotLookError("pixels of the window are missing or hidden")
    return view_of(_colours(scene, look, np.stack([planes[r].data for r in _ROLES], axis=2)), look.side)


def _sides_m(scene: SceneInfo, window: Window) -> tuple[float, float]:
    """Geodesic width and height of a window through its middle; by the GSD where there is no CRS. CannotLookError without one."""
    x, y, w, h = window
    grid, gsd = scene.grid, scene.effective_gsd_m
    if grid.crs is None:
        if gsd is None:
            raise CannotLookError("nobody knows how large the window is on the ground")
        return gsd * w, gsd * h
    at = [grid.xy(*p) for p in ((x, y + h / 2), (x + w, y + h / 2), (x + w / 2, y), (x + w / 2, y + h))]
    lon, lat = grid.lonlat([p[0] for p in at], [p[1] for p in at])
    geod = geod_of(grid.crs)
    return tuple(float(geod.inv(lon[k], lat[k], lon[k + 1], lat[k + 1])[2]) for k in (0, 2))  # type: ignore[return-value]


def _scene(case: Case) -> SceneInfo:
    if len(case.used_scenes) != 1:
        raise CannotLookError("more than one scene, or none")
    return case.used_scenes[0]


def _colours(scene: SceneInfo, look: KindLook, values: NDArray[np.float64]) -> NDArray[np.float64]:
    units: set[Any] = {b.unit for b in scene.bands if b.role in _ROLES}
    if scene.dtype == "uint8":
        return values.clip(0, 255)
    if look.white and units == {"reflectance"}:
        return (values / look.white * 255).clip(0, 255)
    raise CannotLookError("the values are no colours that the second look knows")


@check(
    "class_is_the_likeliest",
    catches=("stale artifact", "dropped tile", "percent as fraction"),
    reads=("/result/value", "/result/items", "/result/layers"),
    family="consistency",
)
def class_is_the_likeliest(case: Case) -> Finding:
    """The kind of place is the label with the greatest probability, at least as probable as was asked for; probabilities are
    shares of one whole, and as many windows show each label as the layer of windows holds."""
    if case.observation.tool != "perceive" or case.kind != "class":
        return not_applicable("no kind of place")
    p = {str(i.get("class")): number_of(i.get("p")) for i in case.items() if "p" in i}
    if not p:
        return not_applicable("no probabilities")
    at = ("/result/value", "/result/items")
    held = {label: v for label, v in p.items() if v is not None}
    if len(held) < len(p) or not all(0 <= v <= 1 for v in held.values()) or sum(held.values()) > 1.01:
        return failed("The probabilities are no shares of one whole.", measured=sum(held.values()), expected="≤ 1", at=at)
    value = case.observation.result.value
    n, outside = (case.evidence_number("intermediate", key) for key in ("windows", "windows_out_of_scope"))
    if value is not None:
        likeliest = max(held, key=lambda label: held[label])
        if held.get(str(value), -1.0) < held[likeliest]:
            return failed(f"{likeliest} is likelier than what is named.", measured=str(value), expected=likeliest, at=at)
        least = case.evidence_number("source", "thresholds", "probability")
        # a window like none of the model's kinds is of none: the probability of the others does not stand for it
        whole = held[likeliest] * (1 - outside / n if n and outside and outside <= n else 1)
        if least is not None and whole < least - 1e-4:
            return failed(
                "The label is less probable than the least that is stated; say that no label is likely enough.",
                measured=whole,
                expected=f"≥ {least:g}",
                at=at,
            )
    ref = case.layer("polygons", "windows")
    if ref is not None and n is not None:
        try:
            names = [str((f.get("properties") or {}).get("class")) for f in case.features(ref)]
        except LayerUnreadableError as error:
            return inconclusive(f"The windows cannot be read: {error}.", at=("/result/layers",), severity="warn")
        if len(names) != n:
            return failed(
                "The layer holds another number of windows than were looked at.",
                measured=len(names),
                expected=n,
                at=("/result/layers", "/evidence/intermediate/windows"),
            )
        for item in case.items() if outside is not None and outside < n else ():
            told = number_of(item.get("windows"))
            if told is not None and told != names.count(str(item.get("class"))):
                return failed(
                    f"Another number of windows shows {item.get('class')} than is stated.",
                    measured=told,
                    expected=names.count(str(item.get("class"))),
                    at=("/result/items", "/result/layers"),
                )
    return passed("The label named is the likeliest.", measured=max(held.values()), at=at)


@check(
    "kind_as_on_record",
    family="consistency",
    catches=("out of scope told", "stale artifact", "swapped labels"),
    reads=("/result/value", "/evidence/intermediate/label_probabilities", "/evidence/validity/in_scope"),
)
def kind_as_on_record(case: Case) -> Finding:
    """The kind of place, the labels' probabilities, the model's own and its scope tell one thing: no kind is named of a picture
    that is like none, labels are those that were asked for, probabilities make one whole, and the likeliest comes first."""
    if case.observation.tool != "perceive" or case.kind != "class":
        return not_applicable("no kind of place")
    value = case.observation.result.value
    items = [(str(i.get("class")), p) for i in case.items() if (p := number_of(i.get("p"))) is not None]
    if not items:
        return not_applicable("no probabilities")
    wrong = _out_of_scope(case) if value is not None else None
    wrong = wrong or _of_other_labels(case, value, items) or _of_other_numbers(case, value, items)
    if wrong is not None:
        return wrong
    return passed("What is told of the kind agrees.", measured=items[0][1], at=("/result/value", "/result/items"))


def _out_of_scope(case: Case) -> Finding | None:
    score, least = case.evidence_number("intermediate", "scope_score"), case.evidence_number("source", "thresholds", "scope")
    n, outside = (case.evidence_number("intermediate", key) for key in ("windows", "windows_out_of_scope"))
    is_mostly_outside = n is not None and outside is not None and n > 0 and outside > n / 2
    if case.evidence("validity", "in_scope") is False or is_mostly_outside:
        return failed(
            "The picture is told to be like none of the model's kinds, yet one is named; say that none fits.",
            measured=False, expected="in the model's scope", at=("/evidence/validity/in_scope", "/result/value"))  # fmt: skip
    # the score on record is rounded to three digits
    if score is not None and least is not None and score < least - 1e-3:
        return failed(
            "The picture lies beyond the model's scope by its own score, yet a kind is named; say that none fits.",
            measured=score, expected=f"≥ {least:g}", at=("/evidence/intermediate/scope_score", "/result/value"))  # fmt: skip
    return None


def _of_other_labels(case: Case, value: object, items: list[tuple[str, float]]) -> Finding | None:
    asked = case.arguments.get("label_space")
    wanted = {_plain(label) for label in asked} if isinstance(asked, (list, tuple)) else set()
    other = [name for name in (*((value,) if value is not None else ()), *(c for c, _ in items)) if _plain(name) not in wanted]
    if wanted and other:
        return failed(
            "A kind is named that was not among the labels that were asked for.",
            measured=str(other[0]), expected=[str(a) for a in asked][:20], at=("/result/value", "/arguments/label_space"))  # type: ignore[union-attr]  # fmt: skip
    return None


def _of_other_numbers(case: Case, value: object, items: list[tuple[str, float]]) -> Finding | None:
    held, at = dict(items), "/evidence/intermediate"
    told = case.evidence("intermediate", "label_probabilities")
    labels = {str(k): v for k, raw in told.items() if (v := number_of(raw)) is not None} if isinstance(told, dict) else {}
    for name, p in labels.items():
        if name in held and abs(held[name] - p) > _ROUNDING:
            return failed(f"{name} has two probabilities on record.", measured=held[name], expected=p,
                          at=(f"{at}/label_probabilities", "/result/items"))  # fmt: skip
    rest = case.evidence_number("intermediate", "probability_of_others")
    whole = sum((labels or held).values()) + (rest or 0.0)
    is_all = rest is not None or (bool(labels) and not case.arguments.get("label_space"))
    if is_all and len(labels or held) < MOST_LABELS and abs(whole - 1) > 0.01 + _ROUNDING * len(labels):
        return failed("The labels' probabilities and that of all else do not add up to one.", measured=whole, expected=1.0,
                      at=(f"{at}/label_probabilities", f"{at}/probability_of_others"))  # fmt: skip
    for pointer, ranked in (("/result/items", [p for _, p in items]), (f"{at}/top_of_the_model", list(_top(case).values()))):
        if any(b > a + _ROUNDING for a, b in pairwise(ranked)):
            return failed("The likeliest does not come first.", measured=ranked[:5], expected="falling", at=(pointer,))
    scores = case.evidence("intermediate", "scores")
    first = number_of(scores[0]) if isinstance(scores, list) and len(scores) == 1 else None
    if value is not None and first is not None and str(value) in held and abs(first - held[str(value)]) > _ROUNDING:
        return failed("The score on record is not the probability of the kind that is named.", measured=first,
                      expected=held[str(value)], at=(f"{at}/scores", "/result/items"))  # fmt: skip
    named = case.evidence("intermediate", "classes")
    if value is not None and isinstance(named, list) and named and str(value) not in [str(c) for c in named]:
        return failed("Another kind stands on record than is named.", measured=str(value), expected=str(named[0]),
                      at=(f"{at}/classes", "/result/value"))  # fmt: skip
    return None
