"""When an image was taken, from tags and names; never guessed where two readings are possible."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

# Tags that tell the acquisition, best first; the value that follows tells whether it may be the file's making
# instead.
_TAGS = (
    "DATE_ACQUIRED", "ACQUISITIONDATETIME", "ACQUISITION_DATETIME", "ACQUISITION_DATE", "SENSING_TIME",
    "PRODUCT_START_TIME", "DATATAKE_1_DATATAKE_SENSING_START", "TIME_COVERAGE_START", "RANGEBEGINNINGDATE",
    "EXIF_DATETIMEORIGINAL", "NETCDF_TIME",
)  # fmt: skip
_EARLIEST = date(1960, 1, 1)


def _aware(when: datetime) -> datetime:
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def read_time(text: str) -> datetime | None:
    """An aware UTC time from ISO 8601, ``YYYY:MM:DD hh:mm:ss`` (TIFF, EXIF) or ``YYYYMMDD``; None for
    anything else."""
    text = text.strip().replace("\x00", "")
    found = re.match(r"^(\d{4}):(\d{2}):(\d{2})(.*)$", text)
    if found:
        text = f"{found[1]}-{found[2]}-{found[3]}{found[4]}"
    try:
        when = _aware(datetime.fromisoformat(text.replace(" UTC", "+00:00")))
    except ValueError:
        return None
    return when if _is_plausible(when.date()) else None


def _is_plausible(day: date) -> bool:
    return _EARLIEST <= day <= datetime.now(UTC).date() + timedelta(days=1)


def time_of_tags(tags: Mapping[str, str]) -> tuple[datetime, str] | None:
    """(time, tag) from the metadata, or None. ``TIFFTAG_DATETIME`` comes last: it may tell when the file was
    made."""
    upper = {k.upper(): v for k, v in tags.items()}
    for tag in (*_TAGS, "TIFFTAG_DATETIME"):
        value = upper.get(tag)
        if not value:
            continue
        if tag == "DATE_ACQUIRED" and "SCENE_CENTER_TIME" in upper:
            clock = upper["SCENE_CENTER_TIME"].strip('" ')
            full = read_time(f"{value.strip()}T{clock[:8]}Z")
            if full is not None:
                return full, tag
        when = read_time(value)
        if when is not None:
            return when, tag
    return None


def _day(year: str, month: str, day: str) -> date | None:
    try:
        found = date(int(year), int(month), int(day))
    except ValueError:
        return None
    return found if _is_plausible(found) else None


def _ordinal(year: str, doy: str) -> date | None:
    if not 1 <= int(doy) <= 366:
        return None
    found = date(int(year), 1, 1) + timedelta(days=int(doy) - 1)
    return found if found.year == int(year) and _is_plausible(found) else None


def day_of_name(name: str) -> date | None:
    """The one day that a file name tells; None where it tells none or several.

    Read are: Landsat scene ids (``LC82320832016040…``: path, row, year, day of year;
    ``LC08_L1TP_015032_20020720_…``: the first date), Sentinel-1 and -2 (when sensing began; the second date is that of
    processing, or of the end), MODIS (``.A2014049.``), ``YYYY-MM-DD`` (also ``_`` or
    ``.`` between) and ``YYYYMMDD``.
    """
    found = re.search(r"(?:^|[^A-Za-z0-9])L[CEOTM][4-9]\d{6}(\d{4})(\d{3})", name)
    if found:
        return _ordinal(found[1], found[2])
    found = re.search(r"L[CEOTM]0[4-9]_L\w{3}_\d{6}_(\d{4})(\d{2})(\d{2})", name)
    if found:
        return _day(found[1], found[2], found[3])
    found = re.search(r"(?:^|[^A-Za-z0-9])S2[A-D]_MSIL\d[AC]_(\d{4})(\d{2})(\d{2})T\d{6}_", name, re.I) or re.search(
        r"(?:^|[^A-Za-z0-9])S1[A-D]_\w{2}_\w{4}_\w{4}_(\d{4})(\d{2})(\d{2})T\d{6}_", name, re.I)
    if found:
        return _day(found[1], found[2], found[3])
    found = re.search(r"\.A(\d{4})(\d{3})\.", name)
    if found:
        return _ordinal(found[1], found[2])
    days = set()
    for match in re.finditer(r"(?<!\d)(\d{4})([-_.])(\d{2})\2(\d{2})(?!\d)|(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)", name):
        parts = (match[1], match[3], match[4]) if match[1] else (match[5], match[6], match[7])
        day = _day(*parts)
        if day is not None:
            days.add(day)
    return days.pop() if len(days) == 1 else None
