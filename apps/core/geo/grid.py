"""A raster's grid: CRS, affine transform and size, and what they imply for distances and areas on the ground."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from pyproj import CRS, Geod, Transformer
from shapely.affinity import translate
from shapely.geometry.base import BaseGeometry

# A projected CRS whose areal scale stays this close to 1 over the scene may be measured on its own grid (UTM: 4e-4 here);
# any other CRS is measured on the ellipsoid. Both figures go into the evidence.
GRID_AREA_TOLERANCE = 1e-3


@lru_cache(maxsize=128)
def _crs(text: str) -> CRS:
    return CRS.from_user_input(text)


@lru_cache(maxsize=128)
def _to_lonlat(text: str) -> tuple[Transformer | None, float, float]:
    """(way to the CRS's own geographic coordinates, or None where it has these already; degrees in their unit; longitude of their
    prime meridian): not every CRS counts degrees from Greenwich, some count grads from Paris."""
    crs = _crs(text)
    base = crs
    while base.is_bound or base.is_derived or base.is_compound:
        inner = base.sub_crs_list[0] if base.is_compound else base.source_crs
        if inner is None or inner.is_geocentric:
            break
        base = inner
    geographic = base if base.is_geographic else base.geodetic_crs or CRS.from_epsg(4326)
    way = None if crs.equals(geographic, ignore_axis_order=True) else Transformer.from_crs(crs, geographic, always_xy=True)
    meridian = geographic.prime_meridian
    return (way, math.degrees(float(geographic.axis_info[0].unit_conversion_factor)) if geographic.axis_info else 1.0,
            meridian.longitude * math.degrees(float(meridian.unit_conversion_factor)) if meridian is not None else 0.0)


@lru_cache(maxsize=128)
def transformer(source: str, target: str) -> Transformer:
    """A pyproj transformer between CRS texts, x before y on both sides."""
    return Transformer.from_crs(_crs(source), _crs(target), always_xy=True)


@lru_cache(maxsize=128)
def geod_of(text: str) -> Geod:
    """The ellipsoid of a CRS."""
    geod = _crs(text).get_geod()
    return geod if geod is not None else Geod(ellps="WGS84")


class Grid(BaseModel):
    """CRS (``EPSG:n`` or WKT; None: pixel space), affine transform (a, b, c, d, e, f) and size in pixels.

    x = a·col + b·row + c, y = d·col + e·row + f, at the upper-left corner of pixel (col, row).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    crs: str | None = None
    transform: tuple[float, float, float, float, float, float] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    width: int = Field(ge=1)
    height: int = Field(ge=1)

    def __hash__(self) -> int:
        return hash((self.crs, self.transform, self.width, self.height))

    def __eq__(self, other: object) -> bool:
        # pydantic's own would compare the cached arrays too
        return isinstance(other, Grid) and (self.crs, self.transform, self.width, self.height) == (
            other.crs, other.transform, other.width, other.height)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Grid:
        """A checked copy; figures that were derived of the old grid (pixel areas, GSD) are not taken along."""
        return Grid(**{name: getattr(self, name) for name in type(self).model_fields} | dict(update or {}))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.height, self.width

    @property
    def is_georeferenced(self) -> bool:
        return self.crs is not None

    @property
    def is_geographic(self) -> bool:
        return self.crs is not None and _crs(self.crs).is_geographic

    @property
    def epsg(self) -> int | None:
        return _crs(self.crs).to_epsg() if self.crs else None

    def xy(self, col: float, row: float) -> tuple[float, float]:
        """Map coordinates (CRS units) of a pixel position."""
        a, b, c, d, e, f = self.transform
        return a * col + b * row + c, d * col + e * row + f

    def colrow(self, x: float, y: float) -> tuple[float, float]:
        """Pixel position (col, row) of map coordinates; FaultError-free: a degenerate transform raises ZeroDivisionError."""
        a, b, c, d, e, f = self.transform
        det = a * e - b * d
        return (e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det

    @cached_property
    def bounds(self) -> tuple[float, float, float, float]:
        """(min x, min y, max x, max y) in CRS units, over the four corners (rotated grids too)."""
        pts = [self.xy(c, r) for c, r in ((0, 0), (self.width, 0), (self.width, self.height), (0, self.height))]
        xs, ys = [p[0] for p in pts], [p[1] for p in pts]
        return min(xs), min(ys), max(xs), max(ys)

    def window(self, col_off: int, row_off: int, width: int, height: int) -> Grid:
        """The grid of a window of whole pixels."""
        x, y = self.xy(col_off, row_off)
        a, b, _, d, e, _ = self.transform
        return Grid(crs=self.crs, transform=(a, b, x, d, e, y), width=width, height=height)

    def lonlat(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Longitude from Greenwich and latitude in degrees (the CRS's own datum) of map coordinates; arrays welcome.

        Raises ValueError where the grid has no CRS.
        """
        if self.crs is None:
            raise ValueError("the grid has no CRS")
        way, degrees, meridian = _to_lonlat(self.crs)
        lon, lat = (x, y) if way is None else way.transform(x, y)
        if degrees == 1 and meridian == 0:
            return lon, lat
        return np.asarray(lon) * degrees + meridian, np.asarray(lat) * degrees

    @property
    def is_plate_carree(self) -> bool:
        """Whether x and y are longitude and latitude themselves, and no pole lies elsewhere (a rotated pole does)."""
        return self.is_geographic and not _crs(str(self.crs)).is_derived

    def wgs84(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Longitude and latitude in degrees of WGS 84, as the maps of this site show map coordinates; arrays welcome. Those of a
        grid in degrees may lie beyond 180, as they do there.

        Raises ValueError where the grid has no CRS.
        """
        if self.crs is None:
            raise ValueError("the grid has no CRS")
        if self.crs == "EPSG:4326":
            return x, y
        lon, lat = transformer(self.crs, "EPSG:4326").transform(x, y)
        if self.is_plate_carree:
            own, _ = self.lonlat(x, y)
            lon = np.asarray(own) + (np.asarray(lon) - np.asarray(own) + 180) % 360 - 180
        return lon, lat

    def ground_m(self, col: Any, row: Any, to_col: Any, to_row: Any) -> NDArray[np.float64]:
        """Geodesic distance in metres between pixel positions (columns and rows, floats; arrays of one shape), whatever their
        direction and the shape of a pixel. Raises ValueError where the grid has no CRS."""
        if self.crs is None:
            raise ValueError("the grid has no CRS")
        a, b, c, d, e, f = self.transform
        ends: list[Any] = []
        for x, y in ((col, row), (to_col, to_row)):
            x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
            ends.extend(self.lonlat(a * x + b * y + c, d * x + e * y + f))
        return np.asarray(geod_of(self.crs).inv(*ends)[2], dtype=np.float64)

    def pixel_sides_m(self, col: float | None = None, row: float | None = None) -> tuple[float, float]:
        """(along a row, along a column): how far the neighbours' centres lie, in metres on the ellipsoid, at a pixel position; by
        default at the grid's middle. Raises ValueError where the grid has no CRS."""
        col, row = self.width / 2 if col is None else col, self.height / 2 if row is None else row
        right, down = self.ground_m([col - 0.5, col], [row, row - 0.5], [col + 0.5, col], [row, row + 0.5])
        return float(right), float(down)

    def _pixel_area_at(self, col: float, row: float) -> float:
        corners = [self.xy(col + i, row + j) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))]
        lon, lat = self.lonlat([p[0] for p in corners], [p[1] for p in corners])
        assert self.crs is not None
        return abs(geod_of(self.crs).polygon_area_perimeter(lon, lat)[0])

    @cached_property
    def geodesic_lattice(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Geodesic pixel areas in m² on a lattice: (columns, rows, areas[row, col]); bilinear between its nodes.

        Geographic north-up grids vary by row alone and get every node they need (at most 257 rows).
        """
        return _lattice(self)

    def _lattice_of(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        n_col = 2 if self.is_plate_carree and self.transform[1] == 0 else min(33, max(2, self.width))
        n_row = min(257 if n_col == 2 else 33, max(2, self.height))
        cols = np.linspace(0, self.width - 1, n_col)
        rows = np.linspace(0, self.height - 1, n_row)
        at_col, at_row = np.meshgrid(cols, rows)
        at_col, at_row = (np.stack([at + off for off in offs], axis=-1) for at, offs in
                          ((at_col, (0, 1, 1, 0)), (at_row, (0, 0, 1, 1))))
        a, b, c, d, e, f = self.transform
        lon, lat = self.lonlat(a * at_col + b * at_row + c, d * at_col + e * at_row + f)
        assert self.crs is not None
        geod = geod_of(self.crs)
        areas = [abs(geod.polygon_area_perimeter(x, y)[0]) for x, y in zip(lon.reshape(-1, 4), lat.reshape(-1, 4), strict=True)]
        return cols, rows, np.array(areas).reshape(len(rows), len(cols))

    def pixel_areas_m2(
        self, row_off: int = 0, n_rows: int | None = None, col_off: int = 0, n_cols: int | None = None
    ) -> NDArray[np.float64]:
        """Geodesic area of each pixel, m², float64 (rows, columns), for ``n_rows`` rows from ``row_off`` and ``n_cols`` columns
        from ``col_off`` (all by default).

        Raises ValueError where the grid has no CRS.
        """
        if self.crs is None:
            raise ValueError("the grid has no CRS: pixel areas need a CRS or a GSD")
        n_rows = self.height - row_off if n_rows is None else n_rows
        n_cols = self.width - col_off if n_cols is None else n_cols
        cols, rows, areas = self.geodesic_lattice
        want = np.arange(row_off, row_off + n_rows, dtype=float)
        by_row = np.stack([np.interp(want, rows, areas[:, j]) for j in range(len(cols))], axis=1)
        if np.ptp(areas, axis=1).max() <= 1e-12 * areas.max():
            return np.broadcast_to(by_row[:, :1], (n_rows, n_cols))
        at = np.arange(col_off, col_off + n_cols, dtype=float)
        pos = np.interp(at, cols, np.arange(len(cols)))
        left = np.minimum(pos.astype(int), len(cols) - 2)
        t = pos - left
        out: NDArray[np.float64] = by_row[:, left] * (1 - t) + by_row[:, left + 1] * t
        return out

    def geodesic_area_of_m2(self, mask: NDArray[np.bool_]) -> float:
        """Sum of the geodesic areas in m² of the True pixels of ``mask`` (rows, columns of this grid).

        The same bilinear areas as :meth:`pixel_areas_m2`, summed between two columns of the lattice at a time: there the area
        of a row's pixels follows from their number and the sum of their places. Raises ValueError where the grid has no CRS or
        the mask another shape.
        """
        if self.crs is None:
            raise ValueError("the grid has no CRS: pixel areas need a CRS or a GSD")
        if mask.shape != self.shape:
            raise ValueError(f"the mask has {mask.shape} rows and columns, the grid {self.shape}")
        cols, rows, areas = self.geodesic_lattice
        want = np.arange(self.height, dtype=float)
        by_row = np.stack([np.interp(want, rows, areas[:, j]) for j in range(len(cols))], axis=1)
        if np.ptp(areas, axis=1).max() <= 1e-12 * areas.max():
            return float(by_row[:, 0] @ np.count_nonzero(mask, axis=1))
        at = np.arange(self.width, dtype=float)
        pos = np.interp(at, cols, np.arange(len(cols)))
        left = np.minimum(pos.astype(int), len(cols) - 2)
        starts = np.searchsorted(left, np.arange(len(cols)))
        total = 0.0
        for j in range(len(cols) - 1):
            part = mask[:, starts[j]:starts[j + 1]]
            if not part.size:
                continue
            t = (pos - left)[starts[j]:starts[j + 1]]
            n, place = np.count_nonzero(part, axis=1), part @ t
            total += float(by_row[:, j] @ (n - place) + by_row[:, j + 1] @ place)
        return total

    @cached_property
    def grid_pixel_area_m2(self) -> float | None:
        """Nominal pixel area in m² where the CRS is projected (its linear unit turned into metres), else None."""
        if self.crs is None or self.is_geographic:
            return None
        a, b, _, d, e, _ = self.transform
        unit = _crs(self.crs).axis_info[0].unit_conversion_factor or 1.0
        return abs(a * e - b * d) * unit * unit

    @cached_property
    def areal_scale_range(self) -> tuple[float, float] | None:
        """Least and greatest ratio of nominal to geodesic pixel area over the scene; None where not projected."""
        nominal = self.grid_pixel_area_m2
        if nominal is None:
            return None
        _, _, areas = self.geodesic_lattice
        return float(nominal / areas.max()), float(nominal / areas.min())

    @property
    def area_method(self) -> str:
        """``grid`` where the projected CRS is near equal-area over the scene (GRID_AREA_TOLERANCE), ``geodesic`` for any
        other CRS, ``pixel`` without one."""
        if self.crs is None:
            return "pixel"
        span = self.areal_scale_range
        if span is not None and max(abs(span[0] - 1), abs(span[1] - 1)) <= GRID_AREA_TOLERANCE:
            return "grid"
        return "geodesic"

    @cached_property
    def gsd_m(self) -> float | None:
        """Ground sampling distance in metres at the scene's centre: square root of the geodesic pixel area; None without CRS.

        Rounded to the nominal grid spacing where that is within the areal tolerance (10.0, not 10.002).
        """
        if self.crs is None:
            return None
        if self.area_method == "grid":
            nominal = self.grid_pixel_area_m2
            assert nominal is not None
            return math.sqrt(nominal)
        return math.sqrt(self._pixel_area_at((self.width - 1) / 2, (self.height - 1) / 2))

    def lonlat_bounds(self) -> tuple[float, float, float, float]:
        """(west, south, east, north) in degrees of WGS 84 over the densified outline; east may be less than west over
        the antimeridian. About a pole that lies inside, all longitudes and the pole itself."""
        t = np.linspace(0, 1, 21)
        w, h = float(self.width), float(self.height)
        cols = np.concatenate([t * w, np.full(21, w), t[::-1] * w, np.zeros(21)])
        rows = np.concatenate([np.zeros(21), t * h, np.full(21, h), t[::-1] * h])
        a, b, c, d, e, f = self.transform
        lon, lat = self.wgs84(a * cols + b * rows + c, d * cols + e * rows + f)
        lon, lat = np.asarray(lon), np.asarray(lat)
        if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
            raise ValueError("the outline of the grid has no place on the globe in this CRS")
        south, north = float(lat.min()), float(lat.max())
        if self.is_plate_carree:
            return float(lon.min()), south, float(lon.max()), north
        along = np.degrees(np.unwrap(np.radians(lon)))
        if abs(along[-1] - along[0]) > 180:  # the outline goes about a pole once
            return (-180.0, south, 180.0, 90.0) if lat.mean() > 0 else (-180.0, -90.0, 180.0, north)
        west, east = float(along.min()), float(along.max())
        if east - west >= 360 - 1e-6:
            return -180.0, south, 180.0, north
        turn = 360 * math.floor((west + 180) / 360)
        west, east = west - turn, east - turn
        return west, south, east - 360 if east > 180 else east, north


def longitude_spans(west: float, east: float) -> list[tuple[float, float]]:
    """The longitudes from ``west`` eastward to ``east`` as one or two spans within -180 to 180: whether they count from 0 to 360,
    go on beyond 180 or cross it (east below west). What goes round the globe is all of it."""
    width = east - west if east >= west else east - west + 360
    if width >= 360:
        return [(-180.0, 180.0)]
    start = west - 360 * math.floor((west + 180) / 360)
    end = start + width
    return [(start, end)] if end <= 180 else [(start, 180.0), (-180.0, end - 360)]


def turned_onto(geometry: BaseGeometry, grid: Grid) -> BaseGeometry:
    """A geometry in pixels of a grid in degrees, its parts turned by whole circles of longitude to where the grid lies: 181° east
    is 179° west. Any other grid leaves it as it is."""
    if not grid.is_plate_carree or grid.transform[1] or grid.transform[3] or geometry.is_empty:
        return geometry
    circle = 360.0 / math.degrees(float(_crs(str(grid.crs)).axis_info[0].unit_conversion_factor)) / abs(grid.transform[0])
    frame = shapely.box(0, 0, grid.width, grid.height)
    out: list[BaseGeometry] = []
    is_moved = False
    for part in shapely.get_parts(geometry):
        middle = (part.bounds[0] + part.bounds[2]) / 2
        nearest = round((grid.width / 2 - middle) / circle)
        copies = [(k, translate(part, k * circle)) for k in range(nearest - 1, nearest + 2)]
        on_grid = [(k, c) for k, c in copies if c.intersects(frame) and not c.touches(frame)]
        if len(on_grid) > 1:  # over the seam of a grid round the globe
            out += [p for _, c in on_grid for p in shapely.get_parts(shapely.intersection(c, frame))]
            is_moved = True
        else:
            k, copy = on_grid[0] if on_grid else copies[1]
            out.append(copy if k else part)
            is_moved |= k != 0
    return shapely.union_all(out) if is_moved else geometry


@lru_cache(maxsize=256)
def _lattice(grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The lattice of all equal grids: the dates of a series have hundreds of them."""
    found = grid._lattice_of()
    for array in found:
        array.flags.writeable = False
    return found
