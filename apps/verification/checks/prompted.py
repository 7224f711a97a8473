"""Masks that grew from a person's marks: the marks are those that were set, and the mask comes out alike when it is grown again
a little otherwise. One that does not is a person's to accept.
"""

from __future__ import annotations

from typing import Any

from apps.core.evidence.landmark import pixel_on
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check

# Fewer ways to grow it again tell little.
LEAST_VARIANTS = 5
# A mark's place in pixels as the planner hands it over is rounded to a thousandth.
_ROUNDED_PX = 0.01
_VARIANTS = "/evidence/intermediate/variants"
_SURENESS = "/evidence/intermediate/mean_sureness"
# Why a person is asked: points in and out, strokes and boxes on 14 labelled water bodies and 14 buildings, docs/coverage.md.
_RECORD = "Of 84 masks grown from marks on labelled water bodies and buildings 26 had the label's area within 20 %"
_ASK = f"{_RECORD}: see it on the map and accept or reject it, or set more marks."


@check(
    "mask_grows_alike",
    catches=("mask that hangs on a setting", "mask that leaks", "mask that stops short", "mask cut by its window"),
    limits=("prompt_agreement", "prompt_sureness"),
    reads=(
        "/evidence/intermediate/variants",
        "/evidence/intermediate/mean_sureness",
        "/evidence/validity/geometry_valid",
        "/arguments/regions_method",
    ),
    family="geometry",
)
def mask_grows_alike(case: Case) -> Finding:
    """A mask from a person's marks comes out alike when it is grown again by other settings and from marks a little aside,
    ends inside its window, and the walker was sure of its pixels. Where it does not, a person looks at it, or sets more marks."""
    if not _is_prompted(case) or not any(r.kind == "mask" for r in case.observation.result.layers):
        return not_applicable("no mask from prompts")
    if case.evidence("validity", "geometry_valid") is not True:
        return inconclusive(
            f"The mask reaches the edge of the window that was looked at and may go on beyond it. {_ASK}",
            at=("/evidence/validity/geometry_valid",),
        )
    told = case.evidence("intermediate", "variants")
    grown = [_variant(v) for v in told] if isinstance(told, (list, tuple)) else []
    n_px = case.evidence_number("intermediate", "mask_px")
    if len(grown) < LEAST_VARIANTS or any(v is None for v in grown) or not n_px:
        return inconclusive(
            "Whether the mask comes out alike from marks a little aside and by other settings is not known. See it on the map "
            "and accept or reject it, or set more marks.",
            at=(_VARIANTS,),
        )
    pairs = [v for v in grown if v is not None]
    for overlap, px in pairs:
        # two sets of so many pixels overlap by no more
        most = min(px, n_px) / max(px, n_px)
        if not 0 <= overlap <= most + 1e-3:
            return failed(
                "A mask that was grown again is said to overlap the first by more than their sizes allow.",
                measured=overlap,
                expected=f"≤ {most:.4f}",
                at=(_VARIANTS,),
            )
    least, limit = min(o for o, _ in pairs), case.limits.prompt_agreement
    if least < limit:
        low, high = min(n_px, *(p for _, p in pairs)), max(n_px, *(p for _, p in pairs))
        return inconclusive(
            f"Grown again by other settings or from marks a little aside the mask has {low:,.0f} to {high:,.0f} pixels instead "
            f"of {n_px:,.0f}, and overlaps the first by {least:.2f} at the least (IoU): the picture does not tell where it "
            f"ends. {_ASK}",
            at=(_VARIANTS,),
            expected=f"≥ {limit:g}",
        )
    sure = case.evidence_number("intermediate", "mean_sureness")
    if sure is None or sure < case.limits.prompt_sureness:
        return inconclusive(
            f"Little in the picture parts the mask from what is about it. {_ASK}",
            at=(_SURENESS,),
            expected=f"≥ {case.limits.prompt_sureness:g}",
        )
    return passed("The mask comes out alike by other settings and from marks a little aside.", measured=least, at=(_VARIANTS,))


def _variant(value: Any) -> tuple[float, float] | None:
    """(IoU with the mask, pixels) of one that was grown again; None where it tells none."""
    if not isinstance(value, dict):
        return None
    overlap, px = number_of(value.get("iou")), number_of(value.get("mask_px"))
    return None if overlap is None or px is None or px < 0 else (overlap, px)


def _is_prompted(case: Case) -> bool:
    method = case.observation.arguments.get("regions_method")
    return isinstance(method, dict) and method.get("kind") == "prompt"


@check(
    "prompts_as_marked",
    catches=("another place than marked", "a mark left out", "inside taken for outside"),
    reads=("/arguments/regions_method", "/task/question"),
    family="geometry",
)
def prompts_as_marked(case: Case) -> Finding:
    """The points, strokes and box that the mask grew from are the ones that the person set: all of them, where they were set, and
    each on its side."""
    marks = case.question.prompts if case.question is not None else ()
    if not marks or not _is_prompted(case):
        return not_applicable("nobody marked what is to be segmented")
    if len(case.used_scenes) != 1:
        return not_applicable("no single scene was looked at")
    at = ("/arguments/regions_method", "/task/question")
    method = case.observation.arguments["regions_method"]
    given = _given(method) if isinstance(method, dict) else []
    wanted = [_wanted(m, case.used_scenes[0]) for m in marks]
    if any(w is None for w in wanted):
        return failed("A mark does not lie on the scene that was looked at.", measured=len(given), expected=len(marks), at=at)
    left = list(given)
    for one in wanted:
        found = next((g for g in left if one is not None and _is_same(g, one)), None)
        if found is None:
            return failed(
                "What the mask grew from is not what was marked.",
                measured=_told(given),
                expected=_told([w for w in wanted if w is not None]),
                at=at,
            )
        left.remove(found)
    if left:
        return failed("The mask grew from more than what was marked.", measured=_told(given), expected=len(marks), at=at)
    return passed("The mask grew from the marks that were set.", measured=len(marks), unit="marks", at=at)


# (kind, whether inside, its places in pixels of the scene)
_Mark = tuple[str, bool, tuple[tuple[float, float], ...]]


def _wanted(mark: Any, scene: SceneInfo) -> _Mark | None:
    """A person's mark in pixels of the scene; None where it does not lie on it."""
    if mark.crs != "image" and scene.grid.crs is None:
        return None
    at = [pixel_on(scene.grid, x, y, mark.crs) for x, y in mark.corners]
    here = tuple(p for p in at if p is not None)
    if len(here) != len(at):
        return None
    if mark.kind == "box":
        xs, ys = zip(*here, strict=True)
        here = ((min(xs), min(ys)), (max(xs), max(ys)))
    return mark.kind, mark.inside, here


def _given(method: dict[str, Any]) -> list[_Mark]:
    """The marks of the call; what is malformed has no places, and is nobody's."""
    out: list[_Mark] = []
    for point in method.get("points") or ():
        numbers = _numbers(point)
        out.append(("point", bool(numbers[2:] and numbers[2]), ((numbers[0], numbers[1]),) if len(numbers) == 3 else ()))
    for stroke in method.get("scribbles") or ():
        is_map = isinstance(stroke, dict)
        places = [_numbers(p) for p in (stroke.get("line") or ())] if is_map else []
        out.append(("stroke", bool(is_map and stroke.get("inside", True)), tuple((p[0], p[1]) for p in places if len(p) == 2)))
    if method.get("box"):
        numbers = _numbers(method["box"])
        out.append(("box", True, ((numbers[0], numbers[1]), (numbers[2], numbers[3])) if len(numbers) == 4 else ()))
    return out


def _numbers(value: Any) -> list[float]:
    held = [number_of(v) for v in value] if isinstance(value, (list, tuple)) else []
    return [] if any(v is None for v in held) else [v for v in held if v is not None]


def _is_same(one: _Mark, other: _Mark) -> bool:
    if one[:2] != other[:2] or len(one[2]) != len(other[2]):
        return False
    return all(abs(a - b) <= _ROUNDED_PX for p, q in zip(one[2], other[2], strict=True) for a, b in zip(p, q, strict=True))


def _told(marks: list[_Mark]) -> list[Any]:
    return [[kind, "inside" if inside else "outside", [list(p) for p in places[:4]]] for kind, inside, places in marks[:6]]
