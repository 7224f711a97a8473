"""Figures that a record tells beside its result: shares and degrees of sureness, counts before and after filters, the share of a
mask, and the bands of a table of bands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.verification.case import Case, Finding, LayerUnreadableError, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.figures import is_one_figure
from apps.verification.checks.radiometry import is_reference_ratio
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError

# Names of parts of a whole, of probabilities, and of how alike two things are; a change of a share is none.
_PART = re.compile(
    r"(?:^|_)(?:share|fraction|probability|sureness|confidence)s?(?:_of_\w+)?$|^(?:p|score|scores)$|^iou(?:_with_\w+)?$"
    r"|^agreement_of_\w+$|^label_probabilities$",
    re.I,
)
_PERCENT = re.compile(r"(?:^|_)(?:percent|pct|percentage)$", re.I)
_CHANGE = re.compile(r"change|differ|growth|gain|loss|trend|anomal|excess|deviation", re.I)
# So far beyond its end a share may lie by rounding.
_ROUNDING = 1e-6
# Entries of one list that are looked at, and how deep.
_MOST, _DEEP = 5000, 6


def _told(value: Any, pointer: str, name: str = "", depth: int = 0) -> Iterator[tuple[str, str, float]]:
    """(pointer, the name that it goes by, number) of what stands below an entry of a record."""
    if depth > _DEEP:
        return
    if isinstance(value, dict):
        for key, held in list(value.items())[:_MOST]:
            of = name if name and _PART.search(name) and not isinstance(held, (dict, list)) else str(key)
            yield from _told(held, f"{pointer}/{key}", of, depth + 1)
    elif isinstance(value, (list, tuple)):
        for k, held in enumerate(value[:_MOST]):
            yield from _told(held, f"{pointer}/{k}", name, depth + 1)
    elif (number := number_of(value)) is not None:
        yield pointer, name, number


@check(
    "shares_on_record_in_range",
    catches=("percent as fraction", "wrong denominator", "stale artifact"),
    reads=("/evidence/intermediate", "/evidence/validity", "/result/items"),
    family="radiometry",
)
def shares_on_record_in_range(case: Case) -> Finding:
    """Each share, probability and degree of sureness on record lies in [0, 1], each percentage in [0, 100]."""
    evidence = case.observation.evidence
    seen = 0
    places = (
        ("/evidence/intermediate", evidence.intermediate),
        ("/evidence/validity", evidence.validity),
        ("/result/items", [dict(i) for i in case.observation.result.items]),
    )
    for pointer, held in places:
        for at, name, number in _told(held, pointer):
            is_part, is_percent = bool(_PART.search(name)), bool(_PERCENT.search(name))
            if not (is_part or is_percent) or _CHANGE.search(name):
                continue
            if is_reference_ratio(case) and at == "/evidence/intermediate/share":
                continue
            seen += 1
            top = 1.0 if is_part else 100.0
            if not -_ROUNDING <= number <= top * (1 + _ROUNDING):
                return failed(
                    f"“{name}” on record is no part of a whole: it lies beyond 0 to {top:g}.",
                    measured=number,
                    expected=[0, top],
                    at=(at,),
                )
    if not seen:
        return not_applicable("no share on record")
    return passed("Shares on record are parts of a whole.", measured=seen, at=("/evidence/intermediate",))


@check(
    "filters_let_fall",
    catches=("merged or duplicated detections", "stale artifact"),
    reads=("/evidence/intermediate/filters",),
    family="consistency",
)
def filters_let_fall(case: Case) -> Finding:
    """A filter leaves no more than went into it."""
    listed = case.evidence("intermediate", "filters")
    told = [f for f in listed if isinstance(f, dict)] if isinstance(listed, (list, tuple)) else []
    seen = 0
    for k, entry in enumerate(told):
        for first, last in (("before", "after"), ("pieces_before", "pieces_after")):
            before, after = number_of(entry.get(first)), number_of(entry.get(last))
            if before is None or after is None:
                continue
            seen += 1
            if not 0 <= after <= before:
                return failed(
                    "A filter left more than went into it.",
                    measured=after,
                    expected=f"≤ {before:g}",
                    at=(f"/evidence/intermediate/filters/{k}",),
                )
    if not seen:
        return not_applicable("no filters with their counts")
    return passed("Filters let counts fall.", measured=seen, at=("/evidence/intermediate/filters",))


@check(
    "mask_share_on_record",
    catches=("wrong denominator", "stale artifact", "fill counted as data"),
    limits=("rel_tolerance",),
    reads=("/evidence/intermediate/share", "/evidence/intermediate/numerator", "/result/layers"),
    family="consistency",
)
def mask_share_on_record(case: Case) -> Finding:
    """The share that is told of a mask that was found is its pixels over the valid ones, and its numerator its pixels."""
    ref = case.layer("mask")
    share, part, of = (case.evidence_number("intermediate", name) for name in ("share", "numerator", "denominator"))
    if case.observation.tool != "perceive" or ref is None or (share is None and part is None):
        return not_applicable("no mask whose share is told")
    try:
        n = whole = size = 0
        for _, mask, valid in case.mask_strips(ref):
            n += int(np.count_nonzero(mask & valid))
            whole, size = whole + int(np.count_nonzero(valid)), size + int(valid.size)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    at = ("/evidence/intermediate/share", "/evidence/intermediate/numerator", "/result/layers")
    # areas are other agents' numerators
    if part is not None and share is None and part == int(part) and of == whole and part != n:
        return failed("The numerator on record is not the mask's pixels.", measured=part, expected=n, unit="px", at=at[1:])
    wholes = [whole]
    if part == n and of in (size, case.evidence_number("intermediate", "n_region_px")):
        wholes.append(int(of or 0))  # of all pixels, as is told
    if share is not None and whole and not any(_is_share(share, n / w) for w in wholes if w):
        return failed("The share on record is not that of the mask.", measured=share, expected=n / whole, at=at)
    if share is not None and part is not None and of and not _is_share(share, part / of):
        return failed("The share on record is not numerator over denominator.", measured=share, expected=part / of, at=at)
    return passed("What is told of the mask is the mask's.", measured=n / whole if whole else 0.0, at=at)


def _is_share(one: float, other: float) -> bool:
    """Whether two shares are one, but for rounding; by pixels and by area they differ a little."""
    return abs(one - other) <= 5e-3 * max(one, other) or is_one_figure(one, other)


@check(
    "every_band_listed",
    catches=("dropped tile", "partial layer", "another scene's result"),
    reads=("/result/items", "/inputs"),
    family="completeness",
)
def every_band_listed(case: Case) -> Finding:
    """A table of bands has a row for each band of the scene that was asked about, and none twice."""
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "evidence" or len(case.used_scenes) != 1:
        return not_applicable("no table of bands")
    listed = [number_of(i.get("band")) for i in case.items()]
    if not listed or None in listed:
        return not_applicable("rows that name no band")
    bands = [float(b.index) for b in case.used_scenes[0].bands]
    at = ("/result/items", "/inputs")
    known = bands[:64]
    lost = sorted(set(known) - set(listed))
    if len(set(listed)) < len(listed) or set(listed) - set(bands):
        return failed("A band is listed twice, or is none of the scene's.", measured=listed, expected=known, at=at)
    if lost:
        is_told = case.observation.status.state == "partial" or case.evidence("validity", "class_complete") is False
        return failed(
            "A band of the scene is missing from the table; look at all that were asked about.",
            measured=listed,
            expected=known,
            at=at,
            severity="warn" if is_told else None,
        )
    return passed("Every band is listed.", measured=len(listed), expected=len(known), at=at)


# Immerkær's mask answers noise of deviation σ with 6σ. Of a large scene windows are looked at, as others may have chosen theirs.
_SECOND = np.array([[1.0, -2.0, 1.0], [-2.0, 4.0, -2.0], [1.0, -2.0, 1.0]])
_WINDOW_PX, _WINDOWS, _LEAST_PX = 256, 3, 400
# By the mean of the answers or by their median, over all pixels or some: so many times one may be the other.
_SAME_NOISE = 3.0


@check(
    "noise_matches_source",
    catches=("another scene's result", "scale or offset twice or never", "stale artifact"),
    limits=("full_look_px",),
    reads=("/result/items", "/inputs"),
    family="consistency",
)
def noise_matches_source(case: Case) -> Finding:
    """The noise told of each band is of the size that its own pixels have by Immerkær's mask: by the mean of its answers, by
    their median, or between and a little beyond."""
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "evidence" or len(case.used_scenes) != 1:
        return not_applicable("no table of bands")
    scene = case.used_scenes[0]
    told = [(k, int(b), v) for k, i in enumerate(case.items()) if (b := number_of(i.get("band"))) is not None
            and (v := number_of(i.get("noise"))) is not None]  # fmt: skip
    reader = case.open(scene.scene_id)
    if not told or reader is None or scene.dtype.startswith("complex"):
        return not_applicable("no noise on record, or no pixels at hand")
    seen = 0
    for k, index, mine in told[:16]:
        try:
            answers = _answers(case, index)
        except CannotLookError as why:
            return not_applicable(str(why))
        if answers.size < _LEAST_PX:
            continue
        by_mean, by_median = float(answers.mean()) * np.sqrt(np.pi / 2) / 6, float(np.median(answers)) / 0.6745 / 6
        low, high = sorted((by_mean, by_median))
        seen += 1
        if not low / _SAME_NOISE <= mine <= high * _SAME_NOISE + 1e-12:
            return failed(
                f"The source's pixels of band {index} have another noise.",
                measured=mine,
                expected=[low, high],
                at=(f"/result/items/{k}/noise", "/inputs"),
            )
    return (
        passed("The bands have noise of this size.", measured=seen, at=("/result/items", "/inputs"))
        if seen
        else not_applicable("too few pixels")
    )


def _answers(case: Case, index: int) -> NDArray[np.float64]:
    """What Immerkær's mask answers at the valid pixels of a band that lie inside the region and beside valid ones."""
    scene = case.used_scenes[0]
    look, reader, grid = look_of(case), case.open(scene.scene_id), scene.grid
    if reader is None:
        raise CannotLookError("the source's pixels are not at hand")
    left, top, width, height = look.spanned(grid)
    windows = [(left, top, width, height)]
    if width * height > case.limits.dense_look_px:
        at = (np.arange(_WINDOWS) + 0.5) / _WINDOWS
        side = min(_WINDOW_PX, width), min(_WINDOW_PX, height)
        places = {(int(left + (width - side[0]) * x), int(top + (height - side[1]) * y)) for x in at for y in at}
        windows = [(x, y, *side) for x, y in sorted(places)]
    out = []
    for window in windows:
        read = reader.read([index], window)
        data, valid = np.asarray(read.data[0], dtype=np.float64), np.asarray(read.valid[0], dtype=bool)
        region = look.region(grid, window)
        inner = ndimage.binary_erosion(valid if region is None else valid & region, structure=np.ones((3, 3)))
        filled = np.where(valid, data, 0.0)
        out.append(np.abs(ndimage.convolve(filled, _SECOND))[inner])
    return np.concatenate(out)
