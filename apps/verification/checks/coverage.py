"""Whether what was asked about lies on the images at all: the region, the place that an image has, and a file's polygons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyproj
import shapely
from shapely.geometry import shape

from apps.core.geo.grid import Grid, transformer
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.plausibility import ground_scenes
from apps.verification.ground import part_of
from apps.verification.planes import CannotLookError, outline_px

# A region or a zone of which less than this share lies on an image is told.
_WHOLE = 0.99
_MANY = frozenset({"raster.product.mosaic", "raster.product.composite", "raster.product.best_pixel"})


def share_on(region: dict[str, Any], crs: str, grid: Grid) -> float:
    """The share of a region's area, in pixels of a grid, that lies on it. CannotLookError where it has no place there."""
    try:
        held = shape(region["geometry"] if region.get("type") == "Feature" else region)
        placed = outline_px(held, crs, grid)
        frame = shapely.box(0, 0, grid.width, grid.height)
        return float(shapely.intersection(placed, frame).area / placed.area) if placed.area > 0 else 0.0
    except CannotLookError:
        raise
    except Exception as error:
        raise CannotLookError(f"the region cannot be read ({type(error).__name__})") from error


def _in_other_half(grid: Grid) -> Grid | None:
    """The same numbers in the same zone of UTM on the other side of the equator; None for other grids."""
    zone = _utm_of(grid)
    if zone is None:
        return None
    number, is_south = zone
    return Grid(
        crs=f"EPSG:{(32600 if is_south else 32700) + number}", transform=grid.transform, width=grid.width, height=grid.height
    )


def _utm_of(grid: Grid) -> tuple[int, bool] | None:
    """(number, whether it is south) of the zone of UTM that a grid lies in."""
    if grid.crs is None:
        return None
    named = pyproj.CRS.from_user_input(grid.crs).utm_zone
    return (int(named[:-1]), named[-1] == "S") if named else None


@check(
    "region_on_the_images",
    catches=("clipped region", "reprojection to the wrong zone"),
    limits=("least_region_share",),
    reads=("/arguments/region", "/inputs"),
    family="completeness",
)
def region_on_the_images(case: Case) -> Finding:
    """The region that is asked about lies on the images: of one that lies mostly beside them, what lies inside is no figure."""
    scenes = ground_scenes(case)
    at = ("/arguments/region", "/inputs")
    if case.region is None or not scenes or case.kind == "catalog":
        return not_applicable("no region, or no image")
    region, crs = case.region
    try:
        shares = [share_on(region, crs, s.grid) for s in scenes]
        is_joined = any(node["op"] in _MANY for node in case.nodes.values())
        share = min(1.0, sum(shares)) if is_joined else min(shares)
        if share == 0 and any(o is not None and share_on(region, crs, o) > 0 for o in (_in_other_half(s.grid) for s in scenes)):
            return failed(
                "The region lies where the image would lie in the same zone of UTM on the other side of the equator: its "
                "coordinate system names the wrong half of the globe.",
                measured=scenes[0].grid.crs,
                expected="the zone's other half",
                at=at,
            )
    except CannotLookError as why:
        return not_applicable(str(why))
    if share < case.limits.least_region_share:
        return failed(
            f"{100 * share:.0f} % of the region lies on the image: a figure of that part is none of the region.",
            measured=share,
            expected=f"≥ {case.limits.least_region_share:g}",
            at=at,
        )
    if share < _WHOLE:
        return failed(
            f"{100 * share:.0f} % of the region lies on the image; the rest was not seen.",
            measured=share,
            expected=f"≥ {_WHOLE:g}",
            at=at,
            severity="warn",
        )
    return passed("The region lies on the image.", measured=share, at=at)


# How far from the middle of its zone a scene of UTM may lie, in degrees, and how far over the equator in metres.
_FROM_MIDDLE, _OVER_EQUATOR_M, _FARTHEST_NORTH = 9.0, 200_000.0, 84.5


@check(
    "scene_where_its_crs_is",
    catches=("reprojection to the wrong zone", "degrees as metres"),
    reads=("/inputs",),
    family="geometry",
)
def scene_where_its_crs_is(case: Case) -> Finding:
    """An image lies on the globe, and one in a zone of UTM in or beside that zone: not beyond a pole, on another continent, or
    with the northing of the other side of the equator."""
    seen = 0
    for scene in ground_scenes(case):
        grid = scene.grid
        if grid.crs is None:
            continue
        x, y = grid.xy(grid.width / 2, grid.height / 2)
        lon, lat = (float(v) for v in transformer(grid.crs, "EPSG:4326").transform(x, y))
        at = ("/inputs",)
        if not np.isfinite((lon, lat)).all() or abs(lat) > 90 or (grid.is_geographic and not -180 <= x <= 360):
            return failed("The image has no place on the globe.", measured=[x, y], expected="a place", at=at)
        seen += 1
        zone = _utm_of(grid)
        if zone is None:
            continue
        number, is_south = zone
        off = abs((lon - (6 * number - 183) + 180) % 360 - 180)
        if off > _FROM_MIDDLE or abs(lat) > _FARTHEST_NORTH or (is_south and y > 10_000_000 + _OVER_EQUATOR_M):
            return failed(
                f"The image lies far from the zone that its coordinates are of ({lat:.2f}°, {lon:.2f}°): zone or half of the "
                "globe may be another.",
                measured=[x, y],
                expected=f"zone {number}{'S' if is_south else 'N'}",
                unit="m",
                at=at,
            )
    return (
        passed("The images lie where their coordinates are.", measured=seen, at=("/inputs",))
        if seen
        else not_applicable("no map")
    )


_NO_POLYGON = "is no polygon"


def _no_polygon(feature: Any, *, is_grown: bool) -> str:
    """Why a feature is no polygon; '' where it is one, or becomes one."""
    try:
        geometry = shape(feature["geometry"])
    except Exception:
        return "has no geometry"
    if geometry.is_empty or not np.isfinite(shapely.get_coordinates(geometry)).all():
        return "is empty"
    if geometry.geom_type not in ("Polygon", "MultiPolygon", "GeometryCollection"):
        return "" if is_grown else _NO_POLYGON
    return "" if geometry.is_valid else "is invalid"


_TOLD = (
    "n_lost",
    "lost",
    "n_skipped",
    "skipped",
    "n_dropped",
    "dropped",
    "n_left_out",
    "left_out",
    "n_invalid",
    "invalid",
    "mended",
)


def _told(case: Case, name: str) -> int | None:
    """How many features the record says that a node lost or mended; None where it says nothing of it."""
    held = case.evidence("intermediate", "nodes")
    entry = next((n for n in held if isinstance(n, dict) and n.get("id") == name), {}) if isinstance(held, list) else {}
    found = [entry[k] for k in _TOLD if k in entry]
    numbers = [sum(number_of(v) or 0 for v in f.values()) if isinstance(f, dict) else number_of(f) for f in found]
    known = [int(n) for n in numbers if n is not None]
    return sum(known) if known else None


@check(
    "features_lost_are_told",
    catches=("a polygon left out",),
    reads=("/arguments/nodes", "/evidence/intermediate/nodes"),
    family="completeness",
)
def features_lost_are_told(case: Case) -> Finding:
    """Features of a file that are no polygons (without geometry, empty, invalid, points and lines) are told as lost, with their
    number."""
    at = ("/arguments/nodes", "/evidence/intermediate/nodes")
    seen = 0
    for name in case.upstream(case.output):
        node = case.nodes[name]
        params = node["params"]
        if node["op"] != "vector.zones":
            continue
        features = _features(case, params)
        if features is None:
            continue
        seen += 1
        grown = bool(number_of(params.get("buffer_m")))
        whys = [w for _, f in part_of(features, params) if (w := _no_polygon(f, is_grown=grown))]
        if params.get("skip_others"):  # the call itself says that points and lines are left out
            whys = [w for w in whys if w != _NO_POLYGON]
        told = _told(case, name)
        if not whys or told == len(whys):
            continue
        first = next(iter(whys))
        if told is None:
            return failed(
                f"{len(whys)} of {len(features)} features of the file are lost without a word: the first {first}.",
                measured=None,
                expected=len(whys),
                unit="features",
                at=at,
            )
        return inconclusive(
            f"{len(whys)} features are no polygons, of which the first {first}; the record tells of {told}.", at=at
        )
    if not seen:
        return not_applicable("no zones")
    return passed("Every feature is a polygon, or told as lost.", measured=seen, at=at)


def _features(case: Case, params: dict[str, Any]) -> list[Any] | None:
    """The features that a zones node reads; None where they are not at hand."""
    digest, geojson = params.get("vector"), params.get("geojson")
    if isinstance(digest, str) and digest and case.layers is not None:
        try:
            return list(case.layers.read_vector(digest)[0])
        except Exception:  # a file that is not at hand is another check's finding
            return None
    if isinstance(geojson, dict) and geojson.get("type") == "FeatureCollection":
        return list(geojson.get("features") or ())
    return None
