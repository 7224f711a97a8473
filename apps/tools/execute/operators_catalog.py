"""``asset.catalog``: which inputs exist for a place, period, sensor and level, and what is missing from a series.

Sources are the question's scenes, those of its project, a folder of STAC items, and a STAC API that the operator of the site has
configured. Items of others are data: their texts are told, their addresses are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field, JsonValue

from apps.core.errors import ModelError
from apps.core.evidence.observation import Frozen
from apps.core.geo.grid import longitude_spans
from apps.core.geo.scene import SceneInfo
from apps.tools.execute.indices import STAND_INS
from apps.tools.execute.types import Call, Operator, PhysicalRange, Planned, Take, Value, ValueType, register

SOURCES = ("question", "project", "folder", "api")


class CatalogParams(Frozen):
    start: str = Field(default="", description="first day wanted, ISO")
    end: str = Field(default="", description="last day wanted, ISO")
    sensor: str = ""
    roles: tuple[str, ...] = Field(default=(), description="band roles that each scene must have")
    revisit_days: float | None = Field(
        default=None, gt=0, description="expected days between scenes (gaps above 1.5 × are told); none: the sensor's own")
    bbox: tuple[float, float, float, float] | None = Field(
        default=None, description="place: west, south, east, north in degrees; west > east crosses the antimeridian")
    level: str = Field(default="", max_length=40, description="processing level: L1C, L2A, L2SP, …")
    collections: tuple[str, ...] = Field(default=(), max_length=20, description="STAC collections, for folder and API")
    source: Literal["question", "project", "folder", "api", "all"] = Field(
        default="all", description="the question's scenes, its project's, the STAC folder or the STAC API of this site, or all "
                                   "of them (the API only for a place)")


# Days after which a place is seen again: of the constellation where several fly, of 16-day products their own step.
# ESA Sentinel-2 and Sentinel-1 user guides; USGS Landsat 8 handbook; MODIS and VIIRS user guides.
REVISIT_DAYS: tuple[tuple[str, float], ...] = (
    ("mod13", 16), ("myd13", 16), ("sentinel-2", 5), ("sentinel2", 5), ("sentinel-1", 12), ("landsat", 16), ("viirs", 1),
    ("modis", 1))
_USUAL = "the sensor's usual revisit"
# Before it, Sentinel-2A flew alone (ESA: 2B delivered from 5 July 2017 on).
_SECOND_SENTINEL2 = "2017-07-05"
# A project lists its newest scenes, so many at most.
MOST_OF_PROJECT = 5000
# Places that are compared in pairs.
_MOST_BOXES = 200
_LEVEL = re.compile(r"(?:^|[^A-Za-z0-9])(?:MSI)?(L1[ABCGT]P?|L1TP|L1GT|L2A|L2SP|L2SR|L3|GRD|SLC)(?![A-Za-z0-9])", re.I)


def level_of_name(name: str) -> str:
    """The processing level that a product's name tells, or ''."""
    found = _LEVEL.search(name)
    return found[1].upper() if found else ""


def _lies_in(box: Sequence[float] | None, wanted: Sequence[float]) -> bool:
    if box is None or box[3] < wanted[1] or box[1] > wanted[3]:
        return False
    there, here = longitude_spans(box[0], box[2]), longitude_spans(wanted[0], wanted[2])
    return any(a[0] <= b[1] and b[0] <= a[1] for a in there for b in here)


def _bare(sensor: str) -> str:
    """Landsat 8, Landsat-8 and landsat_8 are one name."""
    return re.sub(r"[^a-z0-9]", "", sensor.lower())


def is_of_sensor(asked: str, sensor: str) -> bool:
    """Whether a scene's sensor may be the one asked for: Landsat 9 may be ``Landsat 8/9 OLI-TIRS``, 5 of ``Landsat 4–7``."""
    wanted = _bare(asked)
    several = re.search(r"(\D*?)(\d)\s*([/–-])\s*(\d)(?!\d)", sensor)
    names = [sensor]
    if several:
        first, last = int(several[2]), int(several[4])
        members = (first, last) if several[3] == "/" else range(first, last + 1)
        names += [sensor.replace(several[0], f"{several[1]}{n}", 1) for n in members]
    return any(wanted in _bare(n) for n in names)


def _day(call: Call, text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError as error:
        raise call.refuse(f"{text!r} is not a date; write it as 2024-05-31.") from error


def _plan_catalog(call: Call) -> Planned:
    p: CatalogParams = call.params
    start, end = _day(call, p.start), _day(call, p.end)
    if start and end and start > end:
        raise call.refuse("the period ends before it starts.")
    if p.bbox is not None and not (p.bbox[1] <= p.bbox[3] and p.bbox[1] >= -90 and p.bbox[3] <= 90
                                   and all(-180 <= v <= 180 for v in (p.bbox[0], p.bbox[2]))):
        raise call.refuse("bbox is west, south, east, north in degrees.", code="BAD_REGION")
    if p.source == "api" and call.catalog_search is None:
        raise call.refuse("no STAC API is configured on this site.", code="NOT_FOUND", needs={"catalog": "api"})
    if p.source == "folder" and not call.catalog:
        raise call.refuse("no STAC folder is configured on this site, or it holds no item.", code="NOT_FOUND",
                          needs={"catalog": "folder"})
    if p.source == "project" and call.project_scenes is None:
        raise call.refuse("the scenes of the project are not at hand here.", code="NOT_FOUND", needs={"catalog": "project"})
    if p.source == "api" and p.bbox is None:
        raise call.refuse("a STAC API is asked for a place; give its bbox.", code="BAD_REGION", needs={"region": True})
    # an API is asked when the graph runs, not while it is checked
    return Planned(ValueType("value", "catalog", "scenes", "1", PhysicalRange(0, 100000)),
                   combine=lambda _: _searched(call, p, start, end))


def _searched(call: Call, p: CatalogParams, start: datetime | None, end: datetime | None) -> Value:
    wanted = SOURCES if p.source == "all" else (p.source,)
    held: list[dict[str, Any]] = []
    sources: dict[str, JsonValue] = {}
    own = dict(call.scenes)
    if "question" in wanted:
        held += [scene_entry(s, "question") for s in own.values()]
        sources["question"] = len(own)
    warnings: list[str] = []
    is_whole = True
    if "project" in wanted and call.project_scenes is not None:
        listed = call.project_scenes()
        if len(listed) >= MOST_OF_PROJECT:
            is_whole = False
            warnings.append(f"The project holds {MOST_OF_PROJECT:,} scenes or more; the newest were looked at alone.")
        others = [s for s in listed if p.source == "project" or s.scene_id not in own]
        held += [scene_entry(s, "project") for s in others]
        sources["project"] = len(others)
    if "folder" in wanted:
        held += [{**i, "name": i["id"], "source": "folder"} for i in call.catalog]
        sources["folder"] = len(call.catalog)
        if call.catalog_n_unreadable:
            n = call.catalog_n_unreadable
            warnings.append(f"{n} file{'s' if n > 1 else ''} of the STAC folder could not be read; what "
                            f"{'they hold' if n > 1 else 'it holds'} is not in this list.")
        if not call.catalog_is_whole:
            is_whole = False
            warnings.append("The STAC folder holds more items than are read; what is missing cannot be told from this list.")
    if "api" in wanted and call.catalog_search is not None:
        if p.bbox is None:
            sources["api"] = "not asked: no place was given"
        else:
            query = {"bbox": list(p.bbox), "start": p.start[:10], "end": p.end[:10], "collections": list(p.collections)}
            try:
                found, is_all = call.catalog_search(query)
                is_whole &= is_all
            except ModelError as error:
                # without it nobody can say what is missing
                raise call.refuse(f"the STAC API could not be asked: {error} Ask for source question, project or folder without "
                                  "it.", code="TOOL_FAILED", needs={"catalog": "api"}) from error
            held += [{**i, "name": i["id"], "source": "api"} for i in found]
            sources["api"] = len(found)
            if not is_all:
                warnings.append("The STAC API holds more items than were read; what is missing cannot be told from this list. "
                                "Ask for a shorter period, a smaller place or one collection.")
    held, n_same = _each_once(held)
    items, missing = _sifted(p, held, start, end)
    gaps, n_missing, revisit, told = _gaps(p, items, start, end) if is_whole else ([], None, None, "the list is cut")
    evidence: dict[str, JsonValue] = {
        "missing": list(missing), "gaps": gaps, "searched": len(held), "revisit_days": revisit, "revisit_from": told,
        "n_missing_dates": n_missing, "is_whole": is_whole, "sources": sources, "n_listed_twice": n_same,
        "n_unreadable": call.catalog_n_unreadable if "folder" in wanted else 0}
    if len(items) > 1 and _are_apart(items):
        warnings.append("The scenes lie at places that do not overlap; dates and gaps are those of all of them together. Ask for "
                        "one place.")
    warnings += missing[:50]
    if gaps:
        warnings.append(f"The series has {len(gaps)} gap{'s' if len(gaps) > 1 else ''} longer than expected.")
    return Value(len(items), 0, evidence, tuple(items), warnings=tuple(warnings))


def _each_once(held: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """(the entries, a product that a later source lists under the same name and day left out; how many those are)."""
    out: list[dict[str, Any]] = []
    known: dict[tuple[str, str], str] = {}
    for entry in held:
        key = (re.sub(r"\.(?:tiff?|jp2|nc4?|png)$", "", str(entry["name"]).lower()), str(entry["date"]))
        if known.setdefault(key, str(entry["source"])) == entry["source"]:
            out.append(entry)
    return out, len(held) - len(out)


def _are_apart(items: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two of the scenes have no ground in common."""
    boxes = [i["bbox"] for i in items if i["bbox"] is not None]
    distinct = list({tuple(b): b for b in boxes}.values())[:_MOST_BOXES]
    return any(not _lies_in(a, b) for k, a in enumerate(distinct) for b in distinct[k + 1 :])


def _sifted(p: CatalogParams, held: Sequence[dict[str, Any]], start: datetime | None,
            end: datetime | None) -> tuple[list[dict[str, JsonValue]], list[str]]:
    """(items that fit, by date; sentences about those that cannot be judged or lack a band)."""
    items: list[dict[str, JsonValue]] = []
    missing: list[str] = []
    for entry in held:
        name, day = str(entry["name"]), entry["date"]
        if p.bbox is not None and not _lies_in(entry["bbox"], p.bbox):
            if entry["bbox"] is None:
                missing.append(f"{name} has no place")
            continue
        if (start or end) and day is None:
            missing.append(f"{name} has no date")
            continue
        first = datetime.fromisoformat(day).date() if day else None
        last = datetime.fromisoformat(str(entry["end_date"])).date() if entry.get("end_date") else first
        if first and last and ((start and last < start.date()) or (end and first > end.date())):
            continue
        if p.sensor and not is_of_sensor(p.sensor, str(entry["sensor"])):
            if not entry["sensor"]:
                missing.append(f"{name} does not tell its sensor")
            continue
        if p.collections and entry["source"] in ("folder", "api") and entry.get("collection") not in p.collections:
            continue
        if p.level and p.level.lower() != str(entry["level"]).lower():
            if not entry["level"]:
                missing.append(f"{name} does not tell its level")
            continue
        lacks = [r for r in p.roles if not {r, *STAND_INS.get(r, ())} & set(entry["roles"])]
        if lacks:
            missing.append(f"{name} lacks {', '.join(lacks)}" if entry["roles"] else f"{name} does not tell its bands")
        items.append({**entry, "lacks": [str(r) for r in lacks]})
    items.sort(key=lambda i: (str(i["date"] or "9999"), str(i["name"])))
    return items, missing


def _gaps(p: CatalogParams, items: Sequence[Mapping[str, Any]], start: datetime | None,
          end: datetime | None) -> tuple[list[JsonValue], int, float | None, str]:
    """(gaps, dates missing in them, days between dates, where those come from), of the scenes that have the bands asked for."""
    dates = sorted({datetime.fromisoformat(str(i["date"])) for i in items if i["date"] and not i["lacks"]})
    revisit, told = (p.revisit_days, "given") if p.revisit_days else _usual_revisit(items or [{"sensor": p.sensor}])
    gaps: list[JsonValue] = []
    n_missing = 0
    first = _first_day_of_16(dates) if told == _USUAL and revisit == 16 else None
    if revisit and (dates or (start and end)):
        edges = ([start] if start else []) + dates + ([end] if end else [])
        for one, other in pairwise(edges):
            if first is not None:
                open_ends = {d for d in (start, end) if d is not None and d not in dates}
                listed = [d for d in _days_of_16(first, one, other) if one < d < other or d in open_ends]
                if listed:
                    n_missing += len(listed)
                    gaps.append({"from": one.date().isoformat(), "to": other.date().isoformat(), "days": (other - one).days,
                                 "n_expected": len(listed), "expected": [d.date().isoformat() for d in listed[:50]]})
                continue
            days = (other - one).days
            if days > 1.5 * revisit:
                between = round(days / revisit) - (1 if other in dates and one in dates else 0)
                wanted = [(one + timedelta(days=revisit * (k + 1))).date().isoformat() for k in range(min(between, 50))]
                n_missing += between
                gaps.append({"from": one.date().isoformat(), "to": other.date().isoformat(), "days": days, "n_expected": between,
                             "expected": [d for d in wanted if d < other.date().isoformat()]})
    return gaps, n_missing, revisit, told


def scene_entry(scene: SceneInfo, source: str) -> dict[str, Any]:
    """A scene as an item of the catalogue."""
    box = list(scene.grid.lonlat_bounds()) if scene.grid.crs is not None else None
    if box is not None:
        spans = longitude_spans(box[0], box[2])
        box = [spans[0][0], box[1], spans[-1][1], box[3]]
    return {"scene": scene.scene_id, "name": scene.name, "source": source,
            "date": scene.acquired_at.date().isoformat() if scene.acquired_at else None, "end_date": None, "sensor": scene.sensor,
            "roles": [*sorted(scene.roles)], "gsd_m": scene.effective_gsd_m,
            "size_px": [scene.grid.width, scene.grid.height], "crs": scene.grid.crs, "valid_share": scene.valid_share,
            "level": level_of_name(scene.name), "bbox": box}


def _usual_revisit(items: Sequence[Mapping[str, Any]]) -> tuple[float | None, str]:
    """(days, why) of the one sensor that all items are of; None where they are of several or of an unknown one."""
    found = {next((d for word, d in REVISIT_DAYS if word in str(i["sensor"]).lower()), None) for i in items}
    days = found.pop() if len(found) == 1 else None
    names = " ".join(str(i["sensor"]) for i in items).lower()
    if days == 16 and re.search(r"landsat[-_ ]?8(?![/–-])", names) and re.search(r"landsat[-_ ]?9", names):
        days = 8  # the two fly half a cycle apart (USGS)
    held = [str(i["date"]) for i in items if i.get("date")]
    if days == 5 and held and max(held) < _SECOND_SENTINEL2:
        days = 10
    return days, _USUAL if days else ""


def _first_day_of_16(dates: Sequence[datetime]) -> int | None:
    """The day of the year on which MODIS's composites of 16 days start: 1 for Terra's, 9 for Aqua's (MOD13 user guide); None
    where these dates are not theirs."""
    found = {d.timetuple().tm_yday % 16 for d in dates}
    return found.pop() if found in ({1}, {9}) else None


def _days_of_16(first: int, one: datetime, other: datetime) -> list[datetime]:
    """The days from one to the other, both included, on which such composites start: every 16 days, anew each year."""
    days = [datetime(year, 1, 1) + timedelta(days=day - 1) for year in range(one.year, other.year + 1)
            for day in range(first, 367, 16)]
    return [d for d in days if one <= d <= other and d.timetuple().tm_yday % 16 == first]


register(Operator(
    name="asset.catalog", summary="Which scenes there are for a place, period, sensor, level and roles, and what is missing.",
    takes=Take((), 0, 0), params=CatalogParams, gives="value", range=PhysicalRange(0, 100000), nodata="not applicable",
    plan=_plan_catalog))
