"""One variable of a netCDF file as a plain GeoTIFF, by netCDF4 (the GDAL of rasterio's wheel reads these
files only in part). Runs in the ingest process only. Conventions: CF 1.8 (coordinates, grid mappings,
packing)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.crs
from numpy.typing import NDArray
from pyproj import CRS
from pyproj.exceptions import CRSError
from rasterio.transform import Affine

from apps.core.errors import UserError
from apps.imagery.facts import BandFacts, RasterFacts
from apps.imagery.formats import MAX_BANDS, NETCDF, check_size
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_facts import unreadable

_X = {"lon", "longitude", "x", "easting", "xc", "rlon"}
_Y = {"lat", "latitude", "y", "northing", "yc", "rlat"}
_T = {"time", "t", "date"}
# A step may differ from the mean step by this share and the axis still counts as regular.
_STEP_TOLERANCE = 5e-3


def _axis(dataset: Any, dimension: str) -> str:
    """``x``, ``y``, ``t`` or ``""`` for a dimension: by its coordinate's CF attributes, then by its name."""
    variable = dataset.variables.get(dimension)
    if variable is not None:
        units = str(getattr(variable, "units", "")).lower()
        standard = str(getattr(variable, "standard_name", "")).lower()
        axis = str(getattr(variable, "axis", "")).lower()
        if "degrees_east" in units or standard in ("longitude", "projection_x_coordinate") or axis == "x":
            return "x"
        if "degrees_north" in units or standard in ("latitude", "projection_y_coordinate") or axis == "y":
            return "y"
        if " since " in units or standard == "time" or axis == "t":
            return "t"
    name = dimension.lower()
    return "x" if name in _X else "y" if name in _Y else "t" if name in _T else ""


def _candidates(dataset: Any) -> list[str]:
    found = []
    for name, variable in dataset.variables.items():
        axes = [_axis(dataset, d) for d in variable.dimensions]
        if axes.count("x") == 1 and axes.count("y") == 1 and np.dtype(variable.dtype).kind in "iuf":
            found.append(name)
    return found


def _coordinates(dataset: Any, dimension: str, n: int) -> tuple[float, float] | None:
    """(first centre, step) of a regular axis, or None."""
    variable = dataset.variables.get(dimension)
    if variable is None or variable.ndim != 1 or n < 2 or variable.shape[0] != n:
        return None
    values = np.asarray(variable[:], dtype=np.float64)
    step = (values[-1] - values[0]) / (n - 1)
    if not np.isfinite(values).all() or step == 0 or np.abs(np.diff(values) - step).max() > abs(step) * _STEP_TOLERANCE:
        return None
    return float(values[0]), float(step)


def _crs(dataset: Any, variable: Any, x_dimension: str) -> str:
    mapping = dataset.variables.get(str(getattr(variable, "grid_mapping", "")).split(":")[0])
    if mapping is not None:
        held = {k: mapping.getncattr(k) for k in mapping.ncattrs()}
        try:
            text = held.get("crs_wkt") or held.get("spatial_ref")
            return str((CRS.from_wkt(str(text)) if text else CRS.from_cf(held)).to_wkt())
        except (CRSError, KeyError, ValueError):
            return ""
    axis = dataset.variables.get(x_dimension)
    is_degrees = axis is not None and "degree" in str(getattr(axis, "units", "")).lower()
    return str(CRS.from_epsg(4326).to_wkt()) if is_degrees else ""


def _times(dataset: Any, dimension: str) -> tuple[str, ...]:
    import netCDF4

    variable = dataset.variables.get(dimension)
    if variable is None or " since " not in str(getattr(variable, "units", "")):
        return ()
    try:
        found: Any = netCDF4.num2date(
            variable[:], variable.units, getattr(variable, "calendar", "standard"), only_use_cftime_datetimes=False
        )
        return tuple(t.isoformat() for t in np.atleast_1d(found))
    except (ValueError, OverflowError, TypeError):
        return ()


def _number(variable: Any, name: str) -> float | None:
    value = getattr(variable, name, None)
    return None if value is None else float(np.asarray(value).ravel()[0])


def write_variable(source: Path, target: Path, name: str, hints: SceneHints) -> RasterFacts:
    """Writes the variable (all its bands, one time) to ``target``, north up, and tells its facts.

    Raises UserError BAD_ARGUMENT where several variables could be meant (``detail`` lists them), UNREADABLE
    otherwise.
    """
    import netCDF4

    try:
        dataset = netCDF4.Dataset(str(source), "r")
    except OSError as error:
        raise unreadable(name, "It looks like netCDF, but it is broken or cut off.") from error
    with dataset:
        dataset.set_auto_maskandscale(False)
        found = _candidates(dataset)
        if not found:
            raise unreadable(name, "It holds no variable over two axes in space.")
        chosen = hints.variable
        if chosen is None and len(found) > 1:
            raise UserError(
                "BAD_ARGUMENT", f"“{name}” holds several variables.", f"They are {', '.join(found[:20])}.",
                "Say which one to read.", detail={"variables": found[:200]},
            )  # fmt: skip
        chosen = chosen or found[0]
        if chosen not in found:
            raise UserError(
                "BAD_ARGUMENT", f"“{name}” has no variable {chosen!r} over space.", f"It has {', '.join(found[:20])}.",
                "Choose one of these.", detail={"variables": found[:200]},
            )  # fmt: skip
        return _Variable(dataset, chosen, tuple(found), source, name, hints).write(target)


class _Variable:
    def __init__(
        self, dataset: Any, chosen: str, found: tuple[str, ...], source: Path, name: str, hints: SceneHints
    ):
        self.dataset, self.variable, self.chosen, self.found = dataset, dataset.variables[chosen], chosen, found
        self.source, self.name, self.hints = source, name, hints
        self.dimensions = list(self.variable.dimensions)
        axes = [_axis(dataset, d) for d in self.dimensions]
        self.x, self.y = axes.index("x"), axes.index("y")
        self.width, self.height = self.variable.shape[self.x], self.variable.shape[self.y]
        self.dtype = np.dtype(self.variable.dtype).newbyteorder("=")
        self.fixed: dict[int, int] = {}
        self.times: tuple[str, ...] = ()
        self.band_axis: int | None = None
        for i, axis in enumerate(axes):
            if i in (self.x, self.y):
                continue
            if axis == "t":
                self.times = _times(dataset, self.dimensions[i])
                at = hints.time_index or 0
                if at >= self.variable.shape[i]:
                    raise UserError(
                        "BAD_ARGUMENT", f"“{name}” has no time number {at}.", f"It has {self.variable.shape[i]} times.",
                        "Choose an earlier one.",
                    )  # fmt: skip
                self.fixed[i] = at
            elif self.variable.shape[i] == 1:
                self.fixed[i] = 0
            elif self.band_axis is None and self.variable.shape[i] <= MAX_BANDS:
                self.band_axis = i
            else:
                raise unreadable(name, f"Its variable {chosen} has more than one axis beyond space and time.")
        self.n_bands = 1 if self.band_axis is None else self.variable.shape[self.band_axis]

    def _rows(self, band: int, start: int, stop: int) -> NDArray[Any]:
        index: list[Any] = [0] * len(self.dimensions)
        for axis, at in self.fixed.items():
            index[axis] = at
        if self.band_axis is not None:
            index[self.band_axis] = band
        index[self.x], index[self.y] = slice(None), slice(start, stop)
        rows = np.asarray(self.variable[tuple(index)])
        return (rows.T if self.x < self.y else rows).astype(self.dtype, copy=False)

    def write(self, target: Path) -> RasterFacts:
        check_size(self.width, self.height, self.n_bands, self.dtype.itemsize, self.name)
        changes = []
        x = _coordinates(self.dataset, self.dimensions[self.x], self.width)
        y = _coordinates(self.dataset, self.dimensions[self.y], self.height)
        crs = _crs(self.dataset, self.variable, self.dimensions[self.x]) if x and y else ""
        transform, roll = None, 0
        south_first = bool(y and y[1] > 0)
        if x and y:
            first, step = x
            if crs and CRS.from_wkt(crs).is_geographic and first + step * (self.width - 1) > 180.0 + step:
                roll = int(np.searchsorted(first + step * np.arange(self.width), 180.0))
                if 0 < roll < self.width and abs(step * self.width - 360) < abs(step):
                    first += step * roll - 360
                    changes.append("Columns were turned from 0…360° to −180…180°.")
                elif roll == 0:
                    first -= 360
                else:
                    roll = 0
            top = y[0] + y[1] * (self.height - 1) if south_first else y[0]
            transform = (step, 0.0, first - step / 2, 0.0, -abs(y[1]), top + abs(y[1]) / 2)
            if south_first:
                changes.append("Rows were turned north up.")
        else:
            changes.append("Its axes are not regular, so it has no grid on the ground.")
        profile: dict[str, Any] = {}
        if transform is not None:
            profile["transform"] = Affine(*transform)
            if crs:
                profile["crs"] = rasterio.crs.CRS.from_wkt(crs)
        fill = _number(self.variable, "_FillValue")
        fill = _number(self.variable, "missing_value") if fill is None else fill
        with rasterio.open(
            target, "w", driver="GTiff", width=self.width, height=self.height, count=self.n_bands, dtype=self.dtype.name,
            nodata=fill, tiled=True, blockxsize=256, blockysize=256, bigtiff="IF_SAFER", **profile,
        ) as out:  # fmt: skip
            for band in range(self.n_bands):
                for row in range(0, self.height, 256):
                    stop = min(row + 256, self.height)
                    if south_first:
                        rows = self._rows(band, self.height - stop, self.height - row)[::-1]
                    else:
                        rows = self._rows(band, row, stop)
                    rows = np.roll(rows, -roll, axis=1) if roll else rows
                    out.write(rows, band + 1, window=((row, stop), (0, self.width)))
        return self._facts(crs, transform, fill, tuple(changes))

    def _facts(
        self,
        crs: str,
        transform: tuple[float, float, float, float, float, float] | None,
        fill: float | None,
        changes: tuple[str, ...],
    ) -> RasterFacts:
        low, high = _number(self.variable, "valid_min"), _number(self.variable, "valid_max")
        span = getattr(self.variable, "valid_range", None)
        if span is not None and np.size(span) == 2:
            low, high = (float(v) for v in np.asarray(span).ravel())
        text = str(getattr(self.variable, "long_name", "") or self.chosen)
        bands = tuple(
            BandFacts(
                description=(self.chosen if self.n_bands == 1 else f"{self.chosen} {i + 1}") if len(text) > 60 else
                (text if self.n_bands == 1 else f"{text} {i + 1}"),
                color="gray" if i == 0 else "undefined",
                nodata=fill,
                scale=_number(self.variable, "scale_factor") or 1.0,
                offset=_number(self.variable, "add_offset") or 0.0,
                unit=str(getattr(self.variable, "units", ""))[:40],
                valid_range=None if low is None or high is None else (low, high),
            )
            for i in range(self.n_bands)
        )  # fmt: skip
        tags = {str(k)[:80]: str(self.dataset.getncattr(k)) for k in list(self.dataset.ncattrs())[:100]}
        at = next((i for i, d in enumerate(self.dimensions) if _axis(self.dataset, d) == "t"), None)
        if self.times and at is not None:
            tags["NETCDF_TIME"] = self.times[self.fixed[at]]
        return RasterFacts(
            format=NETCDF.name, n_bytes=self.source.stat().st_size, width=self.width, height=self.height,
            dtype=self.dtype.name, bands=bands, crs_wkt=crs, transform=transform, tags=tags, changes=changes,
            variables=self.found, variable=self.chosen, times=self.times[:1000],
        )  # fmt: skip
