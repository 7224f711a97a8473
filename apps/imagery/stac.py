"""STAC items (JSON, https://stacspec.org, 1.0 and 1.1) as a catalogue of what exists: of a folder, or of an API that the operator
of the site has configured. Nothing else is fetched and no asset is opened: text and addresses in the items are data."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from apps.core.deadline import Deadline
from apps.core.errors import ModelError

MAX_ITEMS = 5000
MAX_ITEM_BYTES = 2 * 2**20
# STAC's common names of bands that differ from the roles here.
_ROLES = {
    "rededge071": "rededge1", "rededge075": "rededge2", "rededge078": "rededge3", "rededge": "rededge1", "lwir11": "thermal1",
    "lwir12": "thermal2", "lwir": "thermal1", "nir09": "watervapour", "swir16": "swir1", "swir22": "swir2",
}


@dataclass(frozen=True, slots=True)
class StacFolder:
    """The items below a folder, by date; how many JSON files there could not be read as any; and whether these are all."""

    items: tuple[dict[str, Any], ...] = ()
    n_unreadable: int = 0
    is_whole: bool = True


def stac_items(folder: Path) -> tuple[dict[str, Any], ...]:
    """The items of ``stac_folder``."""
    return stac_folder(folder).items


def stac_folder(folder: Path) -> StacFolder:
    """The items below a folder, by date: ``id``, ``date`` and ``end_date`` (ISO days, the second of items over a span of time),
    ``sensor``, ``level``, ``roles``, ``bbox`` (west, south, east, north), ``gsd_m``, ``cloud_share``. A file may hold one or a
    collection of them. What is none is left out; files that are broken, too large, or links out of the folder are counted."""
    root = folder.resolve()
    found: list[dict[str, Any]] = []
    n_seen = n_unreadable = 0
    for where, folders, names in os.walk(root, followlinks=False):
        folders.sort()
        for name in sorted(names):
            if not name.lower().endswith((".json", ".geojson")):
                continue
            n_seen += 1
            if n_seen > 4 * MAX_ITEMS or len(found) >= MAX_ITEMS:
                return StacFolder(_ordered(found[:MAX_ITEMS]), n_unreadable, False)
            items = _items(Path(where) / name, root)
            n_unreadable += items is None
            found += items or []
    return StacFolder(_ordered(found[:MAX_ITEMS]), n_unreadable, len(found) <= MAX_ITEMS)


def _ordered(found: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(sorted(found, key=lambda i: (i["date"] or "9999", i["id"])))


def _items(path: Path, root: Path) -> list[dict[str, Any]] | None:
    """The items that a file holds; None where it cannot be read."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root) or not real.is_file() or real.stat().st_size > MAX_ITEM_BYTES:
            return None
        held = json.loads(real.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_many = isinstance(held, dict) and held.get("type") == "FeatureCollection"
    return [e for f in (_list(held.get("features")) if is_many else [held]) if (e := _entry(f)) is not None]


def _entry(held: Any) -> dict[str, Any] | None:
    """What the catalogue tells of an item; None for JSON that is none."""
    if not isinstance(held, dict) or held.get("type") != "Feature" or not isinstance(held.get("stac_version"), str):
        return None
    properties = held.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    names = [properties.get("platform"), properties.get("constellation"), *_list(properties.get("instruments"))]
    level = properties.get("processing:level") or properties.get("s2:product_type") or properties.get("landsat:correction") or ""
    cloud = properties.get("eo:cloud_cover")
    day, end = _days(properties)
    return {
        "id": str(held.get("id"))[:200], "date": day, "end_date": end, "sensor": " ".join(str(n) for n in names if n)[:200],
        "collection": str(held.get("collection") or "")[:200], "level": level_of(str(level))[:40],
        "roles": _roles(held, properties), "bbox": _bbox(held.get("bbox")) or _bbox_of(held.get("geometry")),
        "gsd_m": _number(properties.get("gsd")),
        "cloud_share": cloud / 100 if isinstance(cloud, (int, float)) and 0 <= cloud <= 100 else None,
    }  # fmt: skip


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None


def level_of(text: str) -> str:
    """A processing level as products' names write it: ``L2A`` of ``S2MSI2A`` and ``Level-2A``; other words as they stand."""
    found = re.fullmatch(r"(?:S2MSI|level[-_ ]?|L)(\d[A-Z]{0,3})", text.strip(), re.I)
    return f"L{found[1].upper()}" if found else text


def _days(properties: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(day, last day) of an item: the day of its ``datetime``; without one, of a span, its first and last (STAC, common
    metadata). Instants are told in UTC."""
    at = _day(properties.get("datetime"))
    if at is not None:
        return at, None
    start, end = _day(properties.get("start_datetime")), _day(properties.get("end_datetime"))
    if start is not None and end is not None and end < start:
        return None, None
    return (start, end) if start is not None else (end, None)


def _day(text: Any) -> str | None:
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
        return (when.astimezone(UTC) if when.tzinfo else when).date().isoformat()
    except (ValueError, OverflowError):
        return None


def _bbox_of(geometry: Any) -> list[float] | None:
    """Bounds of a polygon in longitude and latitude, for items that tell no bbox; None for what may cross the antimeridian."""
    if not isinstance(geometry, dict) or geometry.get("type") != "Polygon":
        return None
    points = [q for ring in _list(geometry.get("coordinates")) for q in _list(ring)]
    numbers = [(_number(q[0]), _number(q[1])) for q in points if isinstance(q, list) and len(q) >= 2]
    xs, ys = [x for x, _ in numbers if x is not None], [y for _, y in numbers if y is not None]
    if len(xs) != len(points) or len(ys) != len(points) or not points or max(xs) - min(xs) > 180:
        return None
    return _bbox([min(xs), min(ys), max(xs), max(ys)])


def _bbox(value: Any) -> list[float] | None:
    numbers = [_number(v) for v in _list(value)]
    if len(numbers) == 6:
        numbers = [*numbers[:2], *numbers[3:5]]
    if len(numbers) != 4 or any(n is None for n in numbers):
        return None
    west, south, east, north = (n for n in numbers if n is not None)
    return [west, south, east, north] if -180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90 else None


def _roles(held: Mapping[str, Any], properties: Mapping[str, Any]) -> list[str]:
    assets = held.get("assets")
    holders = [properties, *(a for a in assets.values() if isinstance(a, dict))] if isinstance(assets, dict) else [properties]
    names = {str(b.get("common_name") or b.get("eo:common_name") or "")
             for h in holders for key in ("eo:bands", "bands") for b in _list(h.get(key)) if isinstance(b, dict)}
    return sorted({_ROLES.get(n, n) for n in names if n})[:60]


# --- an API ----------------------------------------------------------------------------------------------------------------
MAX_PAGES = 40
PAGE_ITEMS = 250
MAX_PAGE_BYTES = 16 * 2**20
# All pages of one search together; a read of ``timeout_s`` bounds each wait alone.
SEARCH_SECONDS = 120.0


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _TimeOverError(Exception):
    """Inside this module: the time for all pages is over."""


class StacApi:
    """Searches one STAC API (item search, POST). Only its own origin is spoken to: no redirect is followed, a next page
    elsewhere is refused, and assets are never opened. ValueError for an address that is not https (http for this machine)."""

    def __init__(self, url: str, *, timeout_s: float = 15.0, search_s: float = SEARCH_SECONDS):
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in ("https", "http") or not host or parts.username or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is no address of a STAC API: write it as https://host/path")
        if parts.scheme == "http" and not is_loopback(host):
            raise ValueError(f"{url!r} is not encrypted: only this machine may be asked by http")
        self.url, self.host, self.timeout_s = url.rstrip("/"), host, timeout_s
        self.search_s = search_s
        self._origin = (parts.scheme, parts.netloc)

    def search(self, query: Mapping[str, Any]) -> tuple[tuple[dict[str, Any], ...], bool]:
        """(items by date as ``stac_items`` tells them, whether these are all) for ``bbox`` (west, south, east, north), ``start``
        and ``end`` (ISO days or '') and ``collections``. ModelError where the API does not answer as the specification says, or
        not within ``search_s`` seconds; what was read of earlier pages by then is told as not all."""
        import httpx  # only who asks an API loads its client

        body: dict[str, Any] = {"limit": PAGE_ITEMS, "bbox": [float(v) for v in query["bbox"]]}
        start, end = str(query.get("start") or ""), str(query.get("end") or "")
        if start or end:
            body["datetime"] = f"{start + 'T00:00:00Z' if start else '..'}/{end + 'T23:59:59Z' if end else '..'}"
        if query.get("collections"):
            body["collections"] = [str(c) for c in query["collections"]]
        found: list[dict[str, Any]] = []
        address, method, seen = f"{self.url}/search", "POST", set()
        with (Deadline(self.search_s) as deadline,
              httpx.Client(timeout=self.timeout_s, follow_redirects=False, trust_env=not is_loopback(self.host)) as client):
            for number in range(MAX_PAGES):
                try:
                    page = self._page(client, method, address, body, deadline)
                except _TimeOverError:
                    if number:
                        break
                    raise ModelError(f"{self.host} did not answer within {self.search_s:g} seconds.") from None
                features = page.get("features")
                if page.get("type") != "FeatureCollection" or not isinstance(features, list):
                    raise ModelError(f"{self.host} did not answer with a collection of items.")
                found += [e for e in (_entry(f) for f in features) if e is not None]
                following = self._next(page, address, body)
                if following is None:
                    return _ordered(found), True
                if len(found) >= MAX_ITEMS:
                    return _ordered(found[:MAX_ITEMS]), False
                method, address, body = following
                mark = (method, address, json.dumps(body, sort_keys=True))
                if mark in seen:
                    raise ModelError(f"{self.host} names the same next page again and again.")
                seen.add(mark)
        return _ordered(found), False

    def _page(self, client: Any, method: str, address: str, body: Mapping[str, Any], deadline: Deadline) -> dict[str, Any]:
        """_TimeOverError where the time for all pages ends first."""
        import httpx

        try:
            if deadline.is_over:
                raise _TimeOverError
            with client.stream(method, address, json=body if method == "POST" else None, extensions=deadline.extensions,
                               headers={"Accept": "application/geo+json, application/json"}) as answer:
                if answer.status_code != 200:
                    raise ModelError(f"{self.host} answered with status {answer.status_code}.")
                data = bytearray()
                for chunk in answer.iter_bytes():
                    data += chunk
                    if deadline.is_over:
                        raise _TimeOverError
                    if len(data) > MAX_PAGE_BYTES:
                        raise ModelError(f"A page of {self.host} is larger than {MAX_PAGE_BYTES >> 20} MB.")
            held = json.loads(data)
        except httpx.HTTPError as error:
            if deadline.is_over:
                raise _TimeOverError from error
            raise ModelError(f"{self.host} could not be reached ({type(error).__name__}).") from error
        except (ValueError, RecursionError) as error:
            raise ModelError(f"The answer of {self.host} is no JSON.") from error
        if not isinstance(held, dict):
            raise ModelError(f"{self.host} did not answer with a collection of items.")
        return held

    def _next(self, page: Mapping[str, Any], address: str, body: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]] | None:
        """(method, address, body) of the next page; None on the last. ModelError where it lies elsewhere."""
        links: Sequence[Any] = _list(page.get("links"))
        link = next((x for x in links if isinstance(x, dict) and x.get("rel") == "next" and isinstance(x.get("href"), str)), None)
        if link is None:
            return None
        try:
            there = urljoin(address, link["href"])
            parts = urlsplit(there)
        except ValueError as error:
            raise ModelError(f"The next page of {self.host} has no address that can be read.") from error
        if (parts.scheme, parts.netloc) != self._origin:
            raise ModelError(f"The next page of {self.host} lies on another host, which is not asked.")
        if str(link.get("method", "GET")).upper() != "POST":
            return "GET", there, {}
        given = link.get("body")
        more: dict[str, Any] = given if isinstance(given, dict) else {}
        return "POST", there, {**body, **more} if link.get("merge") else dict(more or body)


def search_apis(apis: Sequence[StacApi], query: Mapping[str, Any]) -> tuple[tuple[dict[str, Any], ...], bool]:
    """(items of all of them by date, whether these are all)."""
    found: list[dict[str, Any]] = []
    is_whole = True
    for api in apis:
        items, whole = api.search(query)
        found += [{**i, "api": api.host} for i in items]
        is_whole &= whole
    return _ordered(found), is_whole
