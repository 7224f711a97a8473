"""Text that was read from a picture: it is what its lines say, each of them sure enough and told once."""

from __future__ import annotations

import itertools

import shapely
from shapely.geometry import shape

from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check

# Longer texts are cut off in the value; the layer holds all.
LONGEST_VALUE, LONGEST_LIST = 20_000, 1000
# Outlines of two lines have no more in common than this share of the smaller one.
MOST_COMMON = 0.5
_AT = ("/result/value", "/result/items", "/result/layers")


@check(
    "text_is_its_lines",
    catches=("text that was not read", "line left out", "line told twice", "unsure line told as text"),
    reads=("/result/value", "/result/items", "/result/layers", "/evidence/source/thresholds", "/evidence/intermediate/kept"),
    family="consistency",
)
def text_is_its_lines(case: Case) -> Finding:
    """Text of a picture is that of the outlined lines, in their order and number; each line reaches the score that the call
    asks for, and no two stand in one place."""
    value = case.observation.result.value
    if case.kind != "text" or case.arguments.get("mode") != "document" or not isinstance(value, str):
        return not_applicable("no text of a picture")
    ref = case.layer("polygons", "text")
    if ref is None:
        return inconclusive("Where the lines of the text stand is not on record.", at=("/result/layers",), severity="warn")
    try:
        features = case.features(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The outlines of the lines cannot be read: {error}.", at=("/result/layers",), severity="warn")
    lines = [str((f.get("properties") or {}).get("text", "")) for f in features]
    due = "\n".join(lines)[:LONGEST_VALUE]
    if value != due:
        return failed("The text is not what its outlined lines say.", measured=value[:200], expected=due[:200], at=_AT)
    listed = [str(item.get("text", "")) for item in itertools.islice(case.items(), LONGEST_LIST)]
    if listed != lines[:LONGEST_LIST]:
        return failed("The list of lines is not that of the outlines.", measured=listed[:10], expected=lines[:10], at=_AT)
    kept = case.evidence_number("intermediate", "kept")
    if kept is not None and kept != len(lines):
        at = ("/evidence/intermediate/kept", "/result/layers")
        return failed("The record names another number of lines than are told.", measured=len(lines), expected=kept, at=at)
    least = case.evidence_number("source", "thresholds", "text") or 0.0
    for feature, line in zip(features, lines, strict=True):
        score = number_of((feature.get("properties") or {}).get("score"))
        if score is None or not least <= score <= 1:
            return failed(
                f"The line “{line[:60]}” has a score of {'none' if score is None else f'{score:g}'}, and at least {least:g} is "
                "asked for.", measured=score, expected=least, at=("/result/layers", "/evidence/source/thresholds"),
            )  # fmt: skip
    try:
        outlines = [shape(f["geometry"]).convex_hull for f in features]
    except Exception:  # whatever cannot be a geometry; polygons_valid says so
        return inconclusive("The outlines of the lines are no geometries.", at=("/result/layers",))
    one, other = shapely.STRtree(outlines).query(outlines) if outlines else ((), ())
    for i, j in zip(one, other, strict=True):
        smaller = min(outlines[i].area, outlines[j].area)
        if i < j and outlines[i].intersection(outlines[j]).area > MOST_COMMON * smaller:
            return failed(
                f"The lines “{lines[i][:60]}” and “{lines[j][:60]}” stand in one place: one line was told twice.",
                measured=2, expected=1, unit="lines", at=("/result/layers",),
            )  # fmt: skip
    return passed("The text is that of its lines, each told once.", measured=len(lines), unit="lines", at=_AT)
