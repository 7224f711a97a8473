"""Files that the bench writes itself: vector layers of one place in three coordinate systems, and a picture of nothing.

Right answers about them are worked out from the corners below, on the ellipsoid's radii of curvature, and never from the files.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apps.evaluation.faultbench.truth import Plain

Position = tuple[float, float]

FIELDS_FILE, PATHS_FILE, SITES_FILE, NOISE_FILE = "fields.geojson", "paths.geojson", "sites.csv", "noise.png"
NAMES = (FIELDS_FILE, PATHS_FILE, SITES_FILE, NOISE_FILE)


def _box(w: float, s: float, e: float, n: float) -> tuple[Position, ...]:
    return ((w, s), (e, s), (e, n), (w, n))


# Corners in degrees (longitude, latitude), about the estuary of Fishbourne.
FIELDS: dict[str, tuple[Position, ...]] = {
    "Home": _box(-1.2115, 50.7305, -1.2085, 50.7325),
    "Marsh": _box(-1.2250, 50.7380, -1.2220, 50.7400),
    "Copse": _box(-1.2180, 50.7345, -1.2140, 50.7360),
    "Mill": _box(-1.2240, 50.7315, -1.2215, 50.7330),
    "North": _box(-1.2130, 50.7385, -1.2090, 50.7405),
    "Quay": ((-1.2200, 50.7295), (-1.2160, 50.7300), (-1.2175, 50.7320)),
}
PATHS: tuple[tuple[Position, ...], ...] = (
    ((-1.2240, 50.7340), (-1.2100, 50.7340)),
    ((-1.2100, 50.7340), (-1.2080, 50.7390)),
    ((-1.2230, 50.7300), (-1.2180, 50.7288)),
    ((-1.2060, 50.7300), (-1.2060, 50.7330), (-1.2040, 50.7330)),
    ((-1.2200, 50.7395), (-1.2150, 50.7400)),
)
SITES: tuple[Position, ...] = (
    (-1.2200, 50.7345), (-1.2160, 50.7333), (-1.2130, 50.7348), (-1.2095, 50.7360), (-1.2050, 50.7315), (-1.2210, 50.7292),
    (-1.2180, 50.7372), (-1.2140, 50.7312), (-1.2050, 50.7400), (-1.2245, 50.7365), (-1.2170, 50.7392), (-1.2000, 50.7300),
)  # fmt: skip


def write_files(folder: Path) -> None:
    """The fields in degrees, the paths in Web Mercator, the sites as a table of longitudes and latitudes, the picture as PNG."""
    from PIL import Image
    from pyproj import Transformer

    folder.mkdir(parents=True, exist_ok=True)
    polygons = [_feature("Polygon", [[*ring, ring[0]]], name=name) for name, ring in FIELDS.items()]
    (folder / FIELDS_FILE).write_text(json.dumps({"type": "FeatureCollection", "features": polygons}))
    mercator = Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True)
    lines = [_feature("LineString", [mercator.transform(*p) for p in path]) for path in PATHS]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}
    (folder / PATHS_FILE).write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": lines}))
    (folder / SITES_FILE).write_text("longitude,latitude\n" + "".join(f"{x},{y}\n" for x, y in SITES))
    noise = np.random.default_rng(7).integers(0, 256, (256, 256, 3)).astype(np.uint8)
    Image.fromarray(noise).save(folder / NOISE_FILE)


def _feature(kind: str, coordinates: object, **properties: str) -> dict[str, object]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


# --- right answers --------------------------------------------------------------------------------------------------------------
def ground(positions: Iterable[Position], latitude: float) -> NDArray[np.float64]:
    """Metres east and north (n, 2) of positions in degrees, by the radii of curvature of WGS 84 at one latitude."""
    a, e2, at = 6378137.0, 0.00669437999014, math.radians(latitude)
    w = math.sqrt(1 - e2 * math.sin(at) ** 2)
    per_degree = np.array([a / w * math.cos(at), a * (1 - e2) / w**3]) * math.pi / 180
    out: NDArray[np.float64] = np.asarray(list(positions), float) * per_degree
    return out


def area_m2(ring: tuple[Position, ...]) -> float:
    """Of a ring of a few hundred metres: the shoelace formula in its own plane."""
    corners = ground(ring, float(np.mean([p[1] for p in ring])))
    x, y = (corners - corners[0]).T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def length_m(path: tuple[Position, ...]) -> float:
    """Of a path of short edges, each at its own latitude."""
    edges = itertools.pairwise(path)
    return float(sum(np.hypot(*np.diff(ground((p, q), (p[1] + q[1]) / 2), axis=0)[0]) for p, q in edges))


def to_paths_m() -> list[float]:
    """Metres from each site to the nearest path, in the plane of the middle latitude."""
    middle = 50.7345
    out = []
    for site in SITES:
        at = ground([site], middle)[0]
        found = []
        for path in PATHS:
            corners = ground(path, middle)
            for p, q in itertools.pairwise(corners):
                t = float(np.clip(np.dot(at - p, q - p) / np.dot(q - p, q - p), 0, 1))
                found.append(float(np.hypot(*(at - p - t * (q - p)))))
        out.append(min(found))
    return out


def in_fields(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether positions lie in one of the fields: crossings of a ray to the east, counted edge by edge."""
    out = np.zeros(lon.shape, bool)
    for ring in FIELDS.values():
        inside = np.zeros(lon.shape, bool)
        for (x0, y0), (x1, y1) in zip(ring, (*ring[1:], ring[0]), strict=True):
            if y0 != y1:
                inside ^= ((y0 > lat) != (y1 > lat)) & (lon < x0 + (lat - y0) * (x1 - x0) / (y1 - y0))
        out |= inside
    return out


def in_the_fields(scene: Plain) -> NDArray[np.bool_]:
    """Pixels of a scene whose centre lies in one of the fields."""
    lon, lat = scene.centres_lonlat()
    return in_fields(lon, lat)
