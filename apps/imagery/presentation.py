"""What the imagery pages show: the check's fields, histograms as bars, lists of scenes. Pure but for the addresses."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from django.urls import reverse
from pyproj import CRS

from apps.core.geo.bands import BAND_ROLES
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import BandStatistics, RasterStatistics
from apps.imagery.hints import SceneHints
from apps.imagery.models import Scene
from apps.imagery.tiles import View, default_view, image_zoom, is_picture, parse_view, stretch_range

# Roles as the select lists them, common ones first.
_COMMON = ("blue", "green", "red", "nir", "swir1", "swir2", "rededge1", "rededge2", "rededge3", "nir08", "coastal", "pan",
           "thermal1", "thermal2", "vv", "vh", "ndvi", "evi", "elevation", "class", "qa", "gray")  # fmt: skip
ROLES = [*_COMMON, *sorted(BAND_ROLES - {*_COMMON, "unknown"})]
ROLE_NAMES = {"nir": "NIR", "nir08": "NIR narrow", "swir1": "SWIR 1", "swir2": "SWIR 2", "ndvi": "NDVI", "evi": "EVI",
              "vv": "VV", "vh": "VH", "hh": "HH", "hv": "HV", "qa": "QA", "lst": "LST", "unknown": "not known"}  # fmt: skip
PLOT_WIDTH, PLOT_HEIGHT = 250.0, 40.0


def role_name(role: str) -> str:
    return ROLE_NAMES.get(role, role[:1].upper() + role[1:])


def version(scene: Scene) -> str:
    """Changes whenever the picture of the scene may change: for addresses and ETags."""
    held = f"{scene.cog_id}|{scene.info}|{(scene.statistics or {}).get('n_valid_px')}"
    return hashlib.sha256(held.encode()).hexdigest()[:16]


def views(info: SceneInfo) -> list[dict[str, Any]]:
    """[{title, bands}] to choose from above the preview."""
    by_role = {b.role: b.index for b in info.bands}
    found = []
    for title, roles in (
        ("Natural", ("red", "green", "blue")), ("False", ("nir", "red", "green")), ("SWIR", ("swir1", "nir", "red")),
    ):  # fmt: skip
        if all(r in by_role for r in roles):
            bands = [by_role[r] for r in roles]
            found.append({"title": f"{title} {'-'.join(map(str, bands))}", "bands": ",".join(map(str, bands))})
    shown = [b for b in info.bands if b.role != "alpha"]
    if len(shown) >= 3 and not found:
        bands = [b.index for b in shown[:3]]
        found.append({"title": f"Bands {'-'.join(map(str, bands))}", "bands": ",".join(map(str, bands))})
    found += [
        {"title": f"Band {b.index}" if b.role == "unknown" else role_name(b.role), "bands": str(b.index)} for b in shown[:20]
    ]
    return found


def histogram_bars(band: BandStatistics, low: float, high: float, stretch: tuple[float, float]) -> dict[str, Any]:
    """Bars of a band's histogram in a plot of PLOT_WIDTH × PLOT_HEIGHT over the values low…high, and the stretch."""

    def x(value: float) -> float:
        return min(PLOT_WIDTH, max(0.0, (value - low) / (high - low) * PLOT_WIDTH))

    bars = []
    held = band.histogram
    if held is not None:
        most, step = max(held.counts) or 1, (held.high - held.low) / len(held.counts)
        for i, n in enumerate(held.counts):
            left, right = x(held.low + i * step), x(held.low + (i + 1) * step)
            height = 0.0 if n == 0 else max(0.6, (PLOT_HEIGHT - 2) * n / most)
            bars.append({"x": f"{left:.1f}", "w": f"{max(0.6, right - left - 0.4):.1f}",
                         "y": f"{PLOT_HEIGHT - height:.1f}", "h": f"{height:.1f}"})  # fmt: skip
    return {"bars": bars, "left": f"{x(stretch[0]):.1f}", "right": f"{x(stretch[1]):.1f}",
            "span": f"{max(0.0, x(stretch[1]) - x(stretch[0])):.1f}"}  # fmt: skip


def band_rows(info: SceneInfo, statistics: RasterStatistics, view: View) -> dict[str, Any]:
    """{low, high, rows}: one row a band with figures, histogram and role; the histograms share one axis."""
    spans = [b.histogram for b in statistics.bands if b.histogram]
    low, high = (min(h.low for h in spans), max(h.high for h in spans)) if spans else (0.0, 1.0)
    held = {b.index: b for b in statistics.bands}
    rows = []
    for band in info.bands:
        figures = held.get(band.index)
        if figures is None:
            continue
        rows.append(
            {
                "band": band,
                "role_name": role_name(band.role),
                "color": band.role if band.role in ("red", "green", "blue", "nir") else "other",
                "figures": figures,
                "plot": histogram_bars(figures, low, high, stretch_range(statistics, band.index, view.stretch)),
            }
        )
    return {"low": low, "high": high, "rows": rows}


def tile_template(scene: Scene, info: SceneInfo, view: View | None = None) -> str:
    """The address of the scene's tiles with {z}, {x} and {y}."""
    name = "tile_scene" if info.grid.is_georeferenced else "tile_scene_image"
    head, _, _, tail = reverse(name, args=[scene.pk, 0, 0, 0]).rsplit("/", 3)
    address = f"{head}/{{z}}/{{x}}/{{y}}{tail.removeprefix('0')}?v={version(scene)}"
    return address + ("&bands=" + ",".join(map(str, view.bands)) if view else "")


def native_zoom(info: SceneInfo) -> int:
    """The largest zoom that shows more than the one before."""
    if not info.grid.is_georeferenced:
        return image_zoom(info.grid.width, info.grid.height)
    _, south, _, north = info.grid.lonlat_bounds()
    gsd = info.grid.gsd_m or 10.0
    at_equator = 156543.03392804097 * math.cos(math.radians((south + north) / 2))
    return max(0, min(24, math.ceil(math.log2(max(at_equator / gsd, 1.0)))))


def map_layer(scene: Scene) -> dict[str, Any]:
    """The scene as a layer of the map island, with the grid for its read-out (templates/components/README.md)."""
    info = scene.scene_info
    grid, view = info.grid, default_view(info)
    bounds = list(grid.lonlat_bounds()) if grid.is_georeferenced else [0, 0, grid.width, grid.height]
    return {
        "crs": "geo" if grid.is_georeferenced else "image",
        "size_px": [grid.width, grid.height],
        "layer": {
            "id": f"scene-{scene.pk}", "name": scene.name, "group": "Imagery", "kind": "tiles", "bounds": bounds,
            "url": tile_template(scene, info, view), "max_native_zoom": native_zoom(info),
        },
        "grid": {
            "epsg": f"EPSG:{grid.epsg}" if grid.epsg else None,
            "proj4": CRS.from_user_input(grid.crs).to_proj4() if grid.crs else None,
            "transform": list(grid.transform) if grid.is_georeferenced else None,
            "size_px": [grid.width, grid.height], "gsd_m": info.effective_gsd_m,
        },
    }  # fmt: skip


def check_context(scene: Scene, *, bands: str = "", stretch: str = "") -> dict[str, Any]:
    """Everything of the ingest check's page that depends on the scene."""
    findings = [
        f | {"fixes": [x | {"hints_json": json.dumps(x["hints"])} for x in f["fixes"]]} for f in scene.findings
    ]
    context: dict[str, Any] = {"scene": scene, "hints": SceneHints.model_validate(scene.hints), "findings": findings}
    if not scene.is_ready:
        detail = (scene.error or {}).get("detail", {})
        return context | {"variables": detail.get("variables", [])}
    info = scene.scene_info
    statistics = RasterStatistics.model_validate(scene.statistics)
    view = parse_view(info, bands, stretch)
    chosen = ",".join(map(str, view.bands))
    return context | {
        "info": info,
        "statistics": statistics,
        "view_bands": chosen,
        "stretch": view.stretch,
        "is_picture": is_picture(info, view),
        "views": views(info),
        "table": band_rows(info, statistics, view),
        "roles": [{"value": r, "name": role_name(r)} for r in ROLES],
        "version": version(scene),
        "hatch": round(max(info.grid.width, info.grid.height) / 60, 2),
        "n_hidden": statistics.n_px - statistics.n_valid_px,
        "first_band": next((b for b in info.bands if b.role != "alpha"), info.bands[0]),
    }
