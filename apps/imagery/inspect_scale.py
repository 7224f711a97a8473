"""How stored numbers become physical ones: by the file, by the product's guide, or by a person. Pure."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from apps.core.geo.bands import Band
from apps.imagery import profiles
from apps.imagery.findings import CODES, Check, Fix

# Since 25 January 2022 (processing baseline 04.00) Sentinel-2 products carry an offset of −1000.
S2_OFFSET_SINCE = datetime(2022, 1, 25, tzinfo=UTC)
S2_OFFSET_BASELINE = 4.0
S2_OFFSET = -1000.0
S2_SCALE = 1e-4
S2_DTYPES = ("uint16", "int16", "uint32", "int32")
# As USGS calls bands of surface reflectance.
_SURFACE_BAND = re.compile(r"sr_b(?:and)?_?\d", re.IGNORECASE)


def is_landsat_level1(check: Check, bands: list[Band]) -> bool:
    """Whether these are numbers of level 1 of Landsat 8 or 9 as USGS stores them: their name tells it, or a quality band
    that exists at level 1 alone lies beside them. Never where a band that measures reflected light is called one of surface
    reflectance (``sr_band4``), as of a stack of such files, whose common name tells the scene alone."""
    if any(_SURFACE_BAND.match(b.description) for b in bands if b.role in profiles.REFLECTIVE):
        return False
    held = zip(bands, check.counts.bands, strict=False)
    high = max((c.high for b, c in held if b.role in profiles.REFLECTIVE and c.high is not None), default=None)
    if profiles.is_landsat_level1(check.name, check.facts.dtype, high):
        return True
    return (
        check.profile is profiles.LANDSAT8
        and check.facts.dtype == "uint16"
        and any(b.scheme in profiles.LEVEL1_CODINGS for b in bands)
    )


def scaled(check: Check, bands: list[Band], mod13: str | None, when: datetime | None) -> list[Band]:
    """The bands with scale, offset and unit, and the finding that tells where these are from."""
    hints, facts, counts = check.hints, check.facts, check.counts
    ask = Fix(label="Set scale and offset", field="scale")
    if mod13:
        bands = [b.model_copy(update={"valid_range": b.valid_range or profiles.MOD13_RANGE}) for b in bands]
    if hints.scale is not None or hints.offset is not None:
        shown = next((b for b in bands if b.role not in CODES), bands[0])
        check.add("scale", "Scale", "ok", _scale_name(shown), "Given by a person.", ask)
        return bands
    if any(b.scale != 1 or b.offset != 0 for b in facts.bands):
        return _declared_scale(check, bands, mod13, when, ask)
    if mod13:
        bands = [b.model_copy(update={"scale": profiles.MOD13_SCALE, "unit": "1"}) for b in bands]
        check.add("scale", "Scale", "ok", "× 0.0001", "Values are stored × 10,000, as the MOD13 product does.", ask)
        return bands
    if any(c is not None and _is_physical(c) for c in check.codings):
        return _product_scale(check, bands, ask)
    bands = [_without_fill(b, c) for b, c in zip(bands, check.codings, strict=True)]
    high = max((c.high for c in counts.bands if c.high is not None), default=0.0)
    low = min((c.low for c in counts.bands if c.low is not None), default=0.0)
    if {b.role for b in bands} & {"vv", "vh", "hh", "hv"} and facts.dtype.startswith("float"):
        return _radar_scale(check, bands, low, high, ask)
    # a low that may be fill says nothing of the values
    is_fill = any(c.value == low for c in counts.fill)
    span = f"{facts.dtype}, up to {high:,.6g}" if is_fill else f"{facts.dtype}, {low:,.6g} to {high:,.6g}"
    if (
        check.profile is profiles.LANDSAT8
        and is_landsat_level1(check, bands)
        and any(b.role in profiles.REFLECTIVE for b in bands)
    ):
        shift = {"scale": profiles.LANDSAT_L1_SCALE, "offset": profiles.LANDSAT_L1_OFFSET, "unit": profiles.LANDSAT_L1_UNIT}
        bands = [b.model_copy(update=shift) if b.role in profiles.REFLECTIVE else b for b in bands]
        check.add(
            "scale", "Scale", "warn", "× 0.00002 − 0.1",
            "Level 1 of Landsat 8 and 9: reflectance at the top of the atmosphere, before it is divided by the sine of the "
            "sun's elevation. Ratios such as NDVI are right so; others need the elevation: scale 0.00002 and offset −0.1, "
            "each divided by that sine, unit reflectance.",
            Fix(label="Keep as stored", hints={"scale": 1.0, "offset": 0.0}), ask,
        )  # fmt: skip
        return bands
    is_wide = facts.dtype not in ("uint8", "int8")
    if check.profile is profiles.SENTINEL2 and facts.dtype in S2_DTYPES and high <= 65535:
        return _sentinel2_scale(check, bands, low, when, ask)
    if profiles.is_older_landsat_level1(check.name, facts.dtype) and any(b.role in profiles.REFLECTIVE for b in bands):
        check.add(
            "scale", "Scale", "warn", span,
            "Level 1 of Landsat 4 to 7: each band has a gain and an offset of its own (in its MTL file), so an index of "
            "these numbers is not that of reflectance and does not compare with other dates or sensors.", ask,
        )  # fmt: skip
        return bands
    if is_wide and _looks_like_reflectance(bands, low, high):
        check.add(
            "scale", "Scale", "warn", span,
            "Looks like reflectance × 10,000. Ratios such as NDVI do not change; thresholds on single bands do.",
            Fix(label="Divide by 10,000", hints={"scale": S2_SCALE, "offset": 0.0, "unit": "reflectance"}),
            Fix(label="Keep as it is", hints={"scale": 1.0, "offset": 0.0}), ask,
        )  # fmt: skip
    else:
        check.add("scale", "Scale", "ok", span, "Values are used as stored.", ask)
    return bands


def _radar_scale(check: Check, bands: list[Band], low: float, high: float, ask: Fix) -> list[Band]:
    """Decibels of backscatter are negative almost everywhere, power never is."""
    facts = check.facts
    if low < 0 and high < 60:
        bands = [b.model_copy(update={"unit": "dB"}) if b.unit == "DN" else b for b in bands]
        check.add("scale", "Scale", "ok", f"dB, {low:.4g} to {high:.4g}",
                 "Negative values: backscatter in decibels. Ratios are taken of linear values only.", ask)  # fmt: skip
    else:
        span = f"{facts.dtype}, {low:.4g} to {high:.4g}"
        if check.hints.unit == "amplitude":
            check.add("scale", "Scale", "ok", span, "Amplitudes, as a person said; power is their square.", ask)
        elif facts.is_amplitude:
            check.add("scale", "Scale", "warn", span,
                     "Amplitude of complex samples, not calibrated: power and decibels are made of it on request, "
                     "and are no backscatter coefficient. Figures are in the file's own units.", ask)  # fmt: skip
        else:
            check.add("scale", "Scale", "warn", span,
                     "No value is negative: power or amplitude, not decibels. Which of the two is not told; figures are "
                     "in the file's own units.",
                     Fix(label="They are amplitudes", hints={"unit": "amplitude"}), ask)  # fmt: skip
    return bands


def _sentinel2_scale(check: Check, bands: list[Band], low: float, when: datetime | None, ask: Fix) -> list[Band]:
    """Reflectance × 10,000, with the offset of −1000 where the baseline, or else the date, tells it."""
    facts, counts = check.facts, check.counts
    with_offset = {"scale": S2_SCALE, "offset": S2_OFFSET * S2_SCALE, "unit": "reflectance"}
    without = Fix(label="No offset", hints={"scale": S2_SCALE, "offset": 0.0, "unit": "reflectance"})
    baseline = profiles.sentinel2_baseline(check.name, facts.tags)
    if baseline is not None:
        has_offset = baseline >= S2_OFFSET_BASELINE
        bands = [_reflective(b, offset=S2_OFFSET * S2_SCALE if has_offset else 0.0) for b in bands]
        check.add(
            "scale", "Scale", "ok", "(value − 1000) ÷ 10,000" if has_offset else "÷ 10,000",
            f"Reflectance × 10,000, as Sentinel-2 products of processing baseline {baseline:05.2f} store it, "
            f"{'with' if has_offset else 'without'} an offset of −1000.", without if has_offset else
            Fix(label="Take off the offset of 1000", hints=with_offset), ask,
        )  # fmt: skip
    elif when is not None and when >= S2_OFFSET_SINCE:
        bands = [_reflective(b, offset=S2_OFFSET * S2_SCALE) for b in bands]
        check.add(
            "scale", "Scale", "warn", "(value − 1000) ÷ 10,000",
            "Sentinel-2 products since January 2022 carry an offset of −1000; older ones do not.", without, ask,
        )  # fmt: skip
    elif when is not None:
        bands = [_reflective(b) for b in bands]
        fill = next((c for c in counts.fill if c.value == low), None)
        least = low if fill is None or fill.next_high is None else fill.next_high
        # of a scene that is not shifted, water and shadow lie far below
        looks_shifted = least >= -S2_OFFSET
        check.add(
            "scale", "Scale", "warn" if looks_shifted else "ok", "÷ 10,000",
            "Reflectance × 10,000, as Sentinel-2 products store it." + (
                f" No value is below {least:g}: older images that were processed anew since January 2022 (baseline 04.00 "
                "and later) carry an offset of −1000, and the file does not tell its baseline." if looks_shifted else ""),
            *((Fix(label="Take off the offset of 1000", hints=with_offset),) if looks_shifted else ()), ask,
        )  # fmt: skip
    else:
        bands = [_reflective(b) for b in bands]
        check.add(
            "scale", "Scale", "warn", "÷ 10,000",
            "Reflectance × 10,000, as Sentinel-2 products store it. Without a date nobody knows whether the offset "
            "of −1000 (since January 2022) is in: it would change indices.",
            Fix(label="Take off the offset of 1000", hints=with_offset), ask,
        )  # fmt: skip
    return bands


def _declared_scale(check: Check, bands: list[Band], mod13: str | None, when: datetime | None, ask: Fix) -> list[Band]:
    """The scale that the file itself declares. What the product's guide says otherwise is told; a divisor that stands where a
    factor belongs, and a band beside the others that declares nothing, get the guide's."""
    out, doubts = [], []
    for band, coding in zip(bands, check.codings, strict=True):
        scale, offset, unit = (coding.scale, coding.offset, coding.unit) if coding is not None else (1.0, 0.0, "DN")
        if mod13:
            scale, offset, unit = profiles.MOD13_SCALE, 0.0, "1"
        named = band.role if band.role != "unknown" else f"band {band.index}"
        is_bare = (band.scale, band.offset) == (1, 0)
        if (scale, offset) != (1, 0) and (is_bare or math.isclose(band.scale * scale, 1, rel_tol=1e-6)):
            if not is_bare:
                doubts.append(f"The file declares × {band.scale:g}, but by that the product's values are divided: they are.")
            band = band.model_copy(update={
                "scale": scale, "offset": offset, "unit": unit if band.unit == "DN" else band.unit})  # fmt: skip
        elif (scale, offset) != (1, 0) and not _is_coded_so(band, scale, offset):
            doubts.append(f"The product's guide has × {scale:g} {'+' if offset >= 0 else '−'} {abs(offset):g} for {named}, "
                          f"the file declares {_scale_name(band)}.")  # fmt: skip
        out.append(band.model_copy(update={"unit": unit}) if mod13 and band.unit == "DN" else _declared(band, coding))
    shift: Fix | None = None
    if check.profile is profiles.SENTINEL2 and check.facts.dtype in S2_DTYPES:
        out = [
            b.model_copy(update={"unit": "reflectance"})
            if b.unit == "DN" and b.scale == S2_SCALE and b.role not in (*CODES, "unknown")
            else b
            for b in out
        ]
        shift = _undeclared_offset(check, out, when, doubts)
    shown = next((b for b in out if b.role not in CODES), out[0])
    said = "Declared in the file; applied once, on reading."
    check.add("scale", "Scale", "warn" if doubts else "ok", _scale_name(shown),
             " ".join([said, *dict.fromkeys(doubts)])[:600], *([shift] if shift else []), ask)  # fmt: skip
    return out


def _undeclared_offset(check: Check, bands: list[Band], when: datetime | None, doubts: list[str]) -> Fix | None:
    """What settles whether Sentinel-2's offset of −1000 is in values whose file declares a scale that says otherwise."""
    baseline = profiles.sentinel2_baseline(check.name, check.facts.tags)
    has_offset = baseline >= S2_OFFSET_BASELINE if baseline is not None else when is not None and when >= S2_OFFSET_SINCE
    held = {b.offset for b in bands if b.unit == "reflectance" and b.scale == S2_SCALE}
    if has_offset and held == {0.0}:
        doubts.append("Products of processing baseline 04.00 and later carry an offset of −1000, which the file does not "
                      "declare: indices are wrong if its maker did not take it off.")  # fmt: skip
        taken = {"scale": S2_SCALE, "offset": S2_OFFSET * S2_SCALE, "unit": "reflectance"}
        return Fix(label="Take off the offset of 1000", hints=taken)
    if baseline is not None and not has_offset and held and 0.0 not in held:
        doubts.append(f"Products of processing baseline {baseline:05.2f} carry no offset, but the file declares one.")
        return Fix(label="No offset", hints={"scale": S2_SCALE, "offset": 0.0, "unit": "reflectance"})
    return None


def _product_scale(check: Check, bands: list[Band], ask: Fix) -> list[Band]:
    """Each band by its product's coding; bands without one, and quality bands, stay as stored."""
    out, told = [], {}
    for band, coding in zip(bands, check.codings, strict=True):
        band = _without_fill(band, coding)
        if coding is not None and _is_physical(coding):
            told[coding.product] = (
                f"× {coding.scale:g}"
                + (f" {'+' if coding.offset > 0 else '−'} {abs(coding.offset):g}" if coding.offset else "")
                + f", {coding.unit} ({coding.source})"
            )
            band = band.model_copy(update={
                "scale": coding.scale, "offset": coding.offset, "unit": check.hints.unit or coding.unit,
                "valid_range": band.valid_range or coding.valid_range,
            })  # fmt: skip
        out.append(band)
    check.add(
        "scale", "Scale", "ok", "; ".join(v.split(" (")[0] for v in told.values()),
        "By product: " + "; ".join(f"{k} {v}" for k, v in told.items()) + ". Applied once, on reading.",
        Fix(label="Values are physical already", hints={"scale": 1.0, "offset": 0.0}), ask,
    )  # fmt: skip
    return out


def _looks_like_reflectance(bands: list[Band], low: float, high: float) -> bool:
    shown = [b for b in bands if b.role != "alpha"]
    indexed = {"ndvi", "evi", "index", "class", "mask", "elevation", "vv", "vh", "hh", "hv", "lst"}
    return len(shown) >= 3 and low >= -2000 and 2500 < high <= 20000 and not any(b.role in indexed for b in shown)


def _without_fill(band: Band, coding: profiles.Coding | None) -> Band:
    """The band with its product's fill value as nodata, where the file declares none."""
    if coding is None or coding.nodata is None or band.nodata is not None:
        return band
    return band.model_copy(update={"nodata": coding.nodata})


def _is_physical(coding: profiles.Coding) -> bool:
    """Whether stored values so coded are something else than numbers as they stand."""
    return (coding.scale, coding.offset) != (1, 0) or coding.unit != "DN"


def _is_coded_so(band: Band, scale: float, offset: float) -> bool:
    return math.isclose(band.scale, scale, rel_tol=1e-4) and math.isclose(band.offset, offset, rel_tol=1e-4, abs_tol=1e-9)


def _declared(band: Band, coding: profiles.Coding | None) -> Band:
    """A band whose scale the file declares, with the unit and fill of its product where that codes values just so."""
    if coding is None or not _is_coded_so(band, coding.scale, coding.offset):
        return band
    band = _without_fill(band, coding)
    return band.model_copy(
        update={"unit": coding.unit if band.unit == "DN" else band.unit, "valid_range": band.valid_range or coding.valid_range}
    )


def _reflective(band: Band, offset: float = 0.0) -> Band:
    # aerosol, water vapour, probabilities and angles lie beside the reflectances in many stacks
    if band.role in ("qa", "unknown", "alpha", "class", "mask"):
        return band
    return band.model_copy(update={"scale": S2_SCALE, "offset": offset, "unit": "reflectance"})


def _scale_name(band: Band) -> str:
    shift = f" {'+' if band.offset > 0 else '−'} {abs(band.offset):g}" if band.offset else ""
    return f"× {band.scale:g}{shift}, {band.unit}"
