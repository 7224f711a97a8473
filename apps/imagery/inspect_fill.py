"""Which pixels hold nothing: declared nodata, values out of range, and undeclared fill. Pure."""

from __future__ import annotations

from typing import Literal

from apps.core.geo.bands import Band, FillRule
from apps.imagery.facts import MISSING, FillCandidate
from apps.imagery.findings import Check, Fix, begun, share_text, shown_bands

# Undeclared fill of 8-bit colours is believed only where it covers this share and hangs together with the
# edge: black shadow and white roofs are real.
COLOR_FILL_SHARE = 0.005
COLOR_FILL_BORDER = 0.9
# Elsewhere a value in *all* of several bands at once is no accident from this share on.
FILL_SHARE = 1e-4
# Whole numbers that span less than this are taken for classes: 0 is one of them.
CLASS_SPAN = 20


def filled(check: Check, bands: list[Band]) -> tuple[list[Band], list[FillRule]]:
    """The bands with their nodata, and the rules of what else is fill; the finding is added."""
    hints, counts = check.hints, check.counts
    n = counts.n_px
    ask = Fix(label="Set nodata", field="nodata")
    real = Fix(label="They are real values", hints={"fill": "is_real", "fill_value": None})
    rules: list[FillRule] = []
    words: list[str] = []
    own: tuple[Fix, ...] = ()
    if hints.nodata is not None:
        bands = [b if b.role == "alpha" else b.model_copy(update={"nodata": hints.nodata}) for b in bands]
        words.append(f"nodata {hints.nodata:g} given by a person")
    elif hints.nodata_is_real:
        bands = [b.model_copy(update={"nodata": None}) for b in bands]
        words.append("declared nodata taken as real values by a person")
    else:
        of_file = {f.nodata for f in check.facts.bands if f.nodata is not None}
        of_bands = {b.nodata for b in bands if b.nodata is not None}
        if declared := sorted(of_bands & of_file, key=str):
            hit = max((c.n_nodata for c in counts.bands), default=0)
            words.append(f"{', '.join(f'{v:g}' for v in declared)} declared" + (f", {share_text(hit, n)}" if hit else ""))
        for value in sorted(of_bands - of_file, key=str):
            # what stands in all bands was counted, what stands in one of several was not
            seen = next((c.n_px for c in counts.fill if c.value == value), 0) if len(bands) == 1 else 0
            words.append(f"{value:g} is nodata by the product's guide" + (f", {share_text(seen, n)}" if seen else ""))
            own = (Fix(label="They are real values", hints={"nodata_is_real": True}),)
    if counts.n_masked:
        words.append(f"mask or alpha of the file hides {share_text(counts.n_masked, n)}")
    not_finite = max((c.n_not_finite for c in counts.bands), default=0)
    if not_finite:
        words.append(f"{share_text(not_finite, n)} are not numbers")
    ranged = [b for b in bands if b.valid_range is not None]
    if ranged:
        outside = max((c.n_outside_range for c in counts.bands), default=0)
        low, high = ranged[0].valid_range or (0.0, 0.0)
        rules.append(FillRule(kind="outside_range", source="profile", share=outside / n if n else None))
        words.append(f"values outside {low:g} to {high:g} are fill: {share_text(outside, n)}")
    for i, band in enumerate(bands):
        held = counts.bands[i] if i < len(counts.bands) else None
        if (
            band.nodata == 255 and check.facts.dtype == "uint8" and band.role in ("red", "green", "blue", "gray")
            and held and held.n_nodata and hints.nodata is None
        ):  # fmt: skip
            most = max(c.n_nodata for c in counts.bands)
            check.add(
                "saturation", "255 = nodata?", "warn", f"up to {share_text(most, n)} a band",
                "255 is declared as nodata, but bright pixels of an 8-bit picture reach 255 too: both are left out.",
                Fix(label="They are real values", hints={"nodata_is_real": True}),
            )  # fmt: skip
            break
    said = "; ".join(words)
    if hints.fill == "is_fill" and hints.fill_value is not None:
        if _is_missing(hints.fill_value):
            bands = _without(bands, hints.fill_value)
        told = next((c.n_px for c in counts.fill if c.value == hints.fill_value), None)
        rules.append(
            FillRule(kind="all_bands_equal", value=hints.fill_value, source="person", share=None if told is None else told / n)
        )
        more = _more_missing(check, bands, hints.fill_value)
        rules += more
        size = share_text(told, n) if told is not None else "pixels"
        also = f" {begun(said)}." if said else ""
        check.add(
            "nodata", "Nodata", "ok", f"{hints.fill_value:g} in all bands",
            f"{size} with {hints.fill_value:g} in every band are fill, as a person said.{_told_more(more)}{also}", ask, real,
        )  # fmt: skip
        return bands, rules
    if hints.fill == "is_real":
        also = f" {begun(said)}." if said else ""
        check.add("nodata", "Nodata", "ok", said or "none", f"No other fill, as a person said.{also}", ask)
        return bands, rules
    suspect = _suspect(check, bands)
    if suspect is None:
        possible = _possible(check, bands)
        if possible is not None:
            check.add(
                "nodata", "Nodata", "warn", said or "none declared",
                f"{share_text(possible.n_px, n)} are {possible.value:g}, far from the other values and along the edge. "
                "They count as real values unless you say that they are fill.",
                Fix(label=f"Set nodata = {possible.value:g}", hints={"fill": "is_fill", "fill_value": possible.value}),
                ask,
            )  # fmt: skip
        else:
            check.add("nodata", "Nodata", "ok", said or "none", "Nothing looks like undeclared fill." if not said
                     else f"{begun(said)}.", *own, ask)  # fmt: skip
        return bands, rules
    rules.append(FillRule(kind="all_bands_equal", value=suspect.value, source="suspected", share=suspect.n_px / n))
    more = _more_missing(check, bands, suspect.value)
    rules += more
    count = "every band" if len(bands) > 1 else "the band"
    masked = suspect.n_px
    if _is_missing(suspect.value):
        # no sensor measures it: a band that holds it is empty there, whatever the others hold
        bands = _without(bands, suspect.value)
        if suspect.n_any_px > suspect.n_px:
            masked, count = suspect.n_any_px, "a band or more"
    effect = _effect(check, suspect)
    check.add(
        "nodata", "Nodata", "block", said or "none declared",
        f"{share_text(masked, n)} are {suspect.value:g} in {count} and are left out until you decide."
        f"{_told_more(more)}{effect}",
        Fix(
            label=f"Set nodata = {suspect.value:g}", hints={"fill": "is_fill", "fill_value": suspect.value},
            is_primary=True,
        ),
        real, ask,
    )  # fmt: skip
    return bands, rules


def _effect(check: Check, suspect: FillCandidate) -> str:
    n, share = check.counts.n_px, suspect.n_px / check.counts.n_px
    if suspect.value != 0 or share < 0.01 or suspect.n_px == n:
        return ""
    return f" If they counted, every mean would read {100 * (1 - share):.0f} % of what it is."


def _suspect(check: Check, bands: list[Band]) -> FillCandidate | None:
    """Undeclared fill that is applied until somebody decides, or None."""
    shown = shown_bands(bands)
    declared = {b.nodata for b in shown if b.nodata is not None}
    best: FillCandidate | None = None
    for found in check.counts.fill:
        share = found.n_px / check.counts.n_px
        size = max(found.n_px, found.n_any_px)
        if found.value in declared or found.n_px == check.counts.n_px:
            continue
        if best is not None and max(best.n_px, best.n_any_px) >= size:
            continue
        if _is_missing(found.value):
            if _stands_apart(check, found):
                best = found
        elif len(shown) == 1 or check.facts.has_palette:
            continue  # one band of zeros may be water, background or a class
        elif check.facts.dtype == "uint8" and len(shown) <= 3:
            on_edge = (found.border_share or 0) >= COLOR_FILL_BORDER
            if found.value in (0.0, 255.0) and share >= COLOR_FILL_SHARE and on_edge:
                best = found
        elif found.value == 0.0 and share >= FILL_SHARE:
            best = found
        elif found.value == 65535.0 and share >= FILL_SHARE and (found.border_share or 0) >= COLOR_FILL_BORDER:
            best = found  # saturation looks the same, but not along the edge
    return best


def _possible(check: Check, bands: list[Band]) -> FillCandidate | None:
    """A value of a single band that may be fill; told, not applied."""
    shown = shown_bands(bands)
    if len(shown) != 1 or shown[0].role in ("class", "mask", "qa") or check.facts.has_palette:
        return None
    if shown[0].nodata is not None or check.facts.has_mask:
        return None
    for found in check.counts.fill:
        share = found.n_px / check.counts.n_px
        is_common = found.value in (0.0, 65535.0, 32767.0) and 0.005 <= share < 1
        if is_common and (found.border_share or 0) >= 0.5 and _stands_apart(check, found):
            return found
    return None


def _stands_apart(check: Check, found: FillCandidate) -> bool:
    """Whether the nearest other values lie far off, against the span of the rest."""
    low = min((c.low for c in check.counts.bands if c.low is not None), default=0.0)
    high = max((c.high for c in check.counts.bands if c.high is not None), default=0.0)
    # a file may hold several such values; they are no neighbours of each other, and the span is that of the rest
    others = {c.value: c for c in check.counts.fill if _is_missing(c.value) or c.value == found.value}

    def past(value: float | None, side: Literal["next_low", "next_high"]) -> float | None:
        seen = set()
        while value is not None and value in others and value not in seen:
            seen.add(value)
            value = getattr(others[value], side)
        return value

    rest_low, rest_high = past(low, "next_high"), past(high, "next_low")
    span = max((high if rest_high is None else rest_high) - (low if rest_low is None else rest_low), 1e-12)
    if check.facts.dtype[0] in "iu" and span < CLASS_SPAN:
        return False
    ends = (past(found.next_low, "next_low"), past(found.next_high, "next_high"))
    near = [abs(v - found.value) for v in ends if v is not None]
    return bool(near) and min(near) > 0.05 * span


def _more_missing(check: Check, bands: list[Band], chosen: float) -> list[FillRule]:
    """Rules of the other values for "nothing here" that the file holds beside the chosen one."""
    declared = {b.nodata for b in bands if b.nodata is not None} | {chosen}
    return [FillRule(kind="all_bands_equal", value=c.value, source="suspected", share=c.n_px / check.counts.n_px)
            for c in check.counts.fill if _is_missing(c.value) and c.value not in declared and 0 < c.n_px < check.counts.n_px
            and _stands_apart(check, c)]  # fmt: skip


def _told_more(rules: list[FillRule]) -> str:
    values = ", ".join(f"{r.value:g}" for r in rules if r.value is not None)
    return f" So {'is' if len(rules) == 1 else 'are'} {values}, which no sensor measures." if values else ""


def _is_missing(value: float) -> bool:
    """Whether programs write the value for "nothing here" and no sensor measures it."""
    return value in MISSING or value < -3e38


def _without(bands: list[Band], value: float) -> list[Band]:
    """The bands with ``value`` as nodata of each that declares none of its own."""
    return [b if b.role == "alpha" or b.nodata is not None else b.model_copy(update={"nodata": value}) for b in bands]
