"""A folder of STAC items (JSON, https://stacspec.org, 1.0 and 1.1) as a catalogue of what exists. Nothing is fetched and no asset
is opened: text and addresses in the items are data."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAX_ITEMS = 5000
MAX_ITEM_BYTES = 2 * 2**20
# STAC's common names of bands that differ from the roles here.
_ROLES = {
    "rededge071": "rededge1", "rededge075": "rededge2", "rededge078": "rededge3", "rededge": "rededge1", "lwir11": "thermal1",
    "lwir12": "thermal2", "lwir": "thermal1", "nir09": "watervapour", "swir16": "swir1", "swir22": "swir2",
}


def stac_items(folder: Path) -> tuple[dict[str, Any], ...]:
    """The items below a folder, by date: ``id``, ``date`` (ISO day), ``sensor``, ``level``, ``roles``, ``bbox`` (west, south,
    east, north), ``gsd_m``, ``cloud_share``. Files that are no items, too large, or links out of the folder are left out."""
    root = folder.resolve()
    found: list[dict[str, Any]] = []
    n_seen = 0
    for where, folders, names in os.walk(root, followlinks=False):
        folders.sort()
        for name in sorted(names):
            if not name.lower().endswith((".json", ".geojson")):
                continue
            n_seen += 1
            if n_seen > 4 * MAX_ITEMS or len(found) >= MAX_ITEMS:
                return _ordered(found)
            item = _item(Path(where) / name, root)
            if item is not None:
                found.append(item)
    return _ordered(found)


def _ordered(found: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple(sorted(found, key=lambda i: (i["date"] or "9999", i["id"])))


def _item(path: Path, root: Path) -> dict[str, Any] | None:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root) or not real.is_file() or real.stat().st_size > MAX_ITEM_BYTES:
            return None
        held = json.loads(real.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(held, dict) or held.get("type") != "Feature" or not isinstance(held.get("stac_version"), str):
        return None
    properties = held.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    names = [properties.get("platform"), properties.get("constellation"), *_list(properties.get("instruments"))]
    level = properties.get("processing:level") or properties.get("s2:product_type") or properties.get("landsat:correction") or ""
    cloud = properties.get("eo:cloud_cover")
    return {"id": str(held.get("id"))[:200], "date": _day(properties), "sensor": " ".join(str(n) for n in names if n)[:200],
            "collection": str(held.get("collection") or "")[:200], "level": str(level)[:40], "roles": _roles(held, properties),
            "bbox": _bbox(held.get("bbox")), "gsd_m": _number(properties.get("gsd")),
            "cloud_share": cloud / 100 if isinstance(cloud, (int, float)) and 0 <= cloud <= 100 else None}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None


def _day(properties: Mapping[str, Any]) -> str | None:
    for key in ("datetime", "start_datetime"):
        text = properties.get(key)
        if isinstance(text, str):
            try:
                when = datetime.fromisoformat(text)
            except ValueError:
                continue
            return (when.astimezone(UTC) if when.tzinfo else when).date().isoformat()
    return None


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
