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
from apps.imagery.facts import MAX_TIMES, BandFacts, RasterFacts
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
    # coordinates may be packed as the data are
    values = values * (_number(variable, "scale_factor") or 1.0) + (_number(variable, "add_offset") or 0.0)
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


# Units of axes, in metres and in degrees.
_METRES = {"m": 1.0, "meter": 1.0, "metre": 1.0, "meters": 1.0, "metres": 1.0, "km": 1000.0, "kilometer": 1000.0,
           "kilometre": 1000.0, "kilometers": 1000.0, "kilometres": 1000.0, "ft": 0.3048, "foot": 0.3048, "feet": 0.3048,
           "us_survey_foot": 1200 / 3937, "us_survey_feet": 1200 / 3937, "us-ft": 1200 / 3937}  # fmt: skip


def _to_crs_units(dataset: Any, dimension: str, crs: CRS) -> float | None:
    """By what coordinates of an axis are multiplied to be in the CRS's units; None where the axis' unit is not understood."""
    unit = " ".join(str(getattr(dataset.variables[dimension], "units", "")).lower().split())
    own = crs.axis_info[0].unit_conversion_factor if crs.axis_info else 1.0
    if unit in ("", "1"):
        return 1.0
    if unit.startswith("degree") or unit == "deg":
        return float(np.radians(1.0) / own) if crs.is_geographic else None
    if unit in ("rad", "radian", "radians"):
        if crs.is_geographic:
            return float(1.0 / own)
        # of a geostationary view: angles at the satellite
        height = crs.to_cf().get("perspective_point_height")
        return None if height is None else float(height) / own
    metres = _METRES.get(unit.removeprefix("1 "))
    if metres is None:
        found = unit.split(" ")
        if len(found) == 2 and found[1] in _METRES and found[0].replace(".", "", 1).isdigit():
            metres = float(found[0]) * _METRES[found[1]]
    return None if metres is None or crs.is_geographic else metres / own


def _times(dataset: Any, dimension: str) -> tuple[str, ...]:
    import netCDF4

    variable = dataset.variables.get(dimension)
    if variable is None or variable.ndim != 1 or " since " not in str(getattr(variable, "units", "")):
        return ()
    values = np.asarray(variable[:])
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return ()
    try:
        found: Any = netCDF4.num2date(
            values, str(variable.units), str(getattr(variable, "calendar", "standard")), only_use_cftime_datetimes=False
        )
        return tuple(t.isoformat() for t in np.atleast_1d(found))
    except (ValueError, OverflowError, TypeError):
        return ()


def _number_in(value: object) -> float | None:
    """A number, also one that is written as text; None for anything else."""
    try:
        return float(value) if isinstance(value, (int, float, str)) else None
    except ValueError:
        return None


def _number(variable: Any, name: str) -> float | None:
    """The first number of an attribute, also of one that is written as text ("0.01"); None where it holds none, or one that is
    not finite."""
    held = np.asarray(getattr(variable, name, ())).ravel()
    if not held.size or held.dtype.kind not in "iufU":
        return None
    value = _number_in(held[0].item())
    return value if value is not None and np.isfinite(value) else None


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
        stored = np.dtype(self.variable.dtype).newbyteorder("=")
        # netCDF 3 has no unsigned types: the attribute tells how the same bytes are meant
        told = str(getattr(self.variable, "_Unsigned", "")).lower()
        self.dtype = np.dtype({"true": "u", "false": "i"}.get(told, stored.kind) + str(stored.itemsize)) if stored.kind in "iu" \
            else stored
        self.fixed: dict[int, int] = {}
        self.times: tuple[str, ...] = ()
        self.n_undated = self.n_declared = 0
        self.band_axis: int | None = None
        for i, axis in enumerate(axes):
            if i in (self.x, self.y):
                continue
            if axis == "t":
                self.times = _times(dataset, self.dimensions[i])
                self.n_undated = 0 if self.times else self.variable.shape[i]
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
        rows = np.ascontiguousarray(rows.T if self.x < self.y else rows)
        rows = rows.astype(rows.dtype.newbyteorder("="), copy=False)
        return rows.view(self.dtype) if self.dtype.kind in "iu" else rows.astype(self.dtype, copy=False)

    def _stored(self, value: Any) -> float | None:
        """A value of an attribute as the data type holds it; None where it cannot, so that no pixel has it."""
        if self.dtype.kind == "f":
            return float(self.dtype.type(value))
        number = float(value)
        if self.dtype.kind == "u" and number < 0 and number >= -(2 ** (8 * self.dtype.itemsize - 1)):
            number += 2 ** (8 * self.dtype.itemsize)  # written in the signed type of the bytes
        bounds = np.iinfo(self.dtype)
        return number if number.is_integer() and bounds.min <= number <= bounds.max else None

    def _missing(self) -> tuple[float, ...]:
        """Stored values that mean that nothing is there, the file's fill value first (CF 1.8, 2.5.1): pixels that were never
        written hold the default of the type where the file names none."""
        import netCDF4

        found: list[float] = []
        for name in ("_FillValue", "missing_value"):
            for value in np.asarray(getattr(self.variable, name, ())).ravel().tolist():
                held = _number_in(value)
                number = self._stored(held) if held is not None else None
                if number is not None and number not in found and not (np.isnan(number) and any(map(np.isnan, found))):
                    found.append(number)
        self.n_declared = len(found)
        if not hasattr(self.variable, "_FillValue") and self.dtype.itemsize > 1:
            default = self._stored(netCDF4.default_fillvals[f"{self.dtype.kind}{self.dtype.itemsize}"])
            if default is not None and default not in found:
                found.append(default)
        return tuple(found)

    def write(self, target: Path) -> RasterFacts:
        check_size(self.width, self.height, self.n_bands, self.dtype.itemsize, self.name)
        changes = []
        x = _coordinates(self.dataset, self.dimensions[self.x], self.width)
        y = _coordinates(self.dataset, self.dimensions[self.y], self.height)
        crs = _crs(self.dataset, self.variable, self.dimensions[self.x]) if x and y else ""
        if x and y and crs:
            known = CRS.from_wkt(crs)
            by = [_to_crs_units(self.dataset, self.dimensions[i], known) for i in (self.x, self.y)]
            if by[0] is None or by[1] is None:
                unit = getattr(self.dataset.variables[self.dimensions[self.x]], "units", "")
                changes.append(f"Its axes are in “{str(unit)[:40]}”, which does not fit its CRS, so its place is not known.")
                crs = ""
            else:
                x, y = (x[0] * by[0], x[1] * by[0]), (y[0] * by[1], y[1] * by[1])
        if len(self.times) > MAX_TIMES:
            changes.append(f"It holds {len(self.times):,} times; the first {MAX_TIMES} are read.")
        if self.n_undated > 1:
            changes.append(f"It holds {self.n_undated} times that have no dates; only number {self._at_time() + 1} is read.")
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
        fill, *others = self._missing() or (None,)
        n_other = n_fill = 0
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
                    if others:
                        hit = np.isin(rows, np.array(others, dtype=self.dtype))
                        n_other += int(hit.sum())
                        rows = np.where(hit, self.dtype.type(fill), rows)
                    n_fill += int((rows == fill).sum()) if fill is not None else 0
                    out.write(rows, band + 1, window=((row, stop), (0, self.width)))
            if not n_fill and not self.n_declared:
                fill = out.nodata = None  # the type's default value, which occurs nowhere
        if n_other:
            changes.append(f"{n_other:,} px hold another of its missing values ({', '.join(f'{v:g}' for v in others)}); they "
                           f"were given its fill value {fill:g}.")  # fmt: skip
        return self._facts(crs, transform, fill, tuple(changes))

    def _at_time(self) -> int:
        return next(iter(self.fixed[i] for i in self.fixed if _axis(self.dataset, self.dimensions[i]) == "t"), 0)

    def _valid_range(self) -> tuple[float, float] | None:
        """Meaningful stored values: of valid_min, valid_max or valid_range. Written as wide as the physical values, these are
        physical (netCDF users' guide)."""
        span = np.asarray(getattr(self.variable, "valid_range", ())).ravel()
        ends: list[Any] = [getattr(self.variable, "valid_min", None), getattr(self.variable, "valid_max", None)]
        if span.size == 2:
            ends = list(span)
        if all(e is None for e in ends):
            return None
        scale, offset = _number(self.variable, "scale_factor") or 1.0, _number(self.variable, "add_offset") or 0.0
        found: list[float] = []
        for end in ends:
            if end is None:
                found.append(np.nan)
                continue
            value = np.asarray(end).ravel()[:1]
            if not value.size or value.dtype.kind not in "iuf" or not np.isfinite(value[0]):
                found.append(np.nan)
                continue
            is_physical = self.dtype.kind in "iu" and value.dtype.kind == "f" and (scale, offset) != (1.0, 0.0)
            number = (float(value[0]) - offset) / scale if is_physical else float(value[0])
            if self.dtype.kind == "u" and number < 0 and not is_physical:
                number += 2 ** (8 * self.dtype.itemsize)
            found.append(number)
        if scale < 0 and any(np.asarray(e).dtype.kind == "f" for e in ends if e is not None) and self.dtype.kind in "iu":
            found.reverse()
        limits = np.finfo(self.dtype) if self.dtype.kind == "f" else np.iinfo(self.dtype)
        low = float(limits.min) if np.isnan(found[0]) else found[0]
        high = float(limits.max) if np.isnan(found[1]) else found[1]
        return (low, high) if low <= high and not np.isnan(found).all() else None

    def _facts(
        self,
        crs: str,
        transform: tuple[float, float, float, float, float, float] | None,
        fill: float | None,
        changes: tuple[str, ...],
    ) -> RasterFacts:
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
                valid_range=self._valid_range(),
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
