"""Variables of netCDF files: grid, packing, times, choice."""

from pathlib import Path

import netCDF4
import numpy as np
import pytest
import rasterio
from pyproj import CRS

from apps.core.errors import UserError
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_netcdf import write_variable
from apps.imagery.inspect import inspect_file


def make(
    path: Path, *, ascending: bool = False, east: bool = False, times: int = 1, names: tuple[str, ...] = ("lst",)
) -> np.ndarray:
    """A packed variable over 18 × 36 cells of 10°; returns the stored values, north up, −180 first."""
    stored = np.arange(18 * 36, dtype=np.int16).reshape(18, 36)
    with netCDF4.Dataset(path, "w") as out:
        out.createDimension("time", times)
        out.createDimension("lat", 18)
        out.createDimension("lon", 36)
        t = out.createVariable("time", "f8", ("time",))
        t.units, t.calendar = "days since 2000-01-01", "standard"
        t[:] = np.arange(times) * 30 + 366
        lat, lon = out.createVariable("lat", "f8", ("lat",)), out.createVariable("lon", "f8", ("lon",))
        lat.units, lon.units = "degrees_north", "degrees_east"
        north_up = np.arange(85, -86, -10.0)
        lat[:] = north_up[::-1] if ascending else north_up
        lon[:] = np.arange(5, 360, 10.0) if east else np.arange(-175, 180, 10.0)
        rows = stored[::-1] if ascending else stored
        rows = np.roll(rows, -18, axis=1) if east else rows
        for name in names:
            v = out.createVariable(name, "i2", ("time", "lat", "lon"), fill_value=-999)
            v.scale_factor, v.add_offset, v.units, v.long_name = 0.02, 1.0, "K", "surface temperature"
            v.set_auto_maskandscale(False)
            for i in range(times):
                v[i] = rows + i
            v[0, 0 if not ascending else 17, 0 if not east else 18] = -999
    return stored


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("east", [False, True])
def test_a_variable_lies_north_up_where_it_belongs(tmp_path: Path, ascending: bool, east: bool) -> None:
    from apps.imagery.ingest_convert import convert

    stored = make(tmp_path / "t.nc", ascending=ascending, east=east)
    facts = convert(tmp_path / "t.nc", tmp_path / "cog.tif", "t.nc", SceneHints())
    with rasterio.open(tmp_path / "cog.tif") as dataset:
        values = dataset.read(1)
        assert dataset.bounds == (-180, -90, 180, 90)
    assert values[0, 0] == -999
    np.testing.assert_array_equal(values.ravel()[1:], stored.ravel()[1:])
    assert facts.bands[0].nodata == -999
    found = inspect_file(tmp_path / "t.nc")
    (band,) = found.info.bands
    assert (band.scale, band.offset, band.unit) == (0.02, 1.0, "K")
    assert found.info.acquired_at is not None
    assert found.info.acquired_at.isoformat() == "2001-01-01T00:00:00+00:00"
    assert found.info.grid.crs == "EPSG:4326"
    assert found.info.valid_share == pytest.approx(1 - 1 / 648)


def test_times_are_told_and_chosen(tmp_path: Path) -> None:
    from apps.imagery.ingest_convert import convert

    stored = make(tmp_path / "t.nc", times=3)
    facts = convert(tmp_path / "t.nc", tmp_path / "cog.tif", "t.nc", SceneHints(time_index=2))
    assert len(facts.times) == 3
    assert facts.tags["NETCDF_TIME"].startswith("2001-03-02")
    with rasterio.open(tmp_path / "cog.tif") as dataset:
        np.testing.assert_array_equal(dataset.read(1), stored + 2)
    with pytest.raises(UserError, match="no time number 7"):
        convert(tmp_path / "t.nc", tmp_path / "cog.tif", "t.nc", SceneHints(time_index=7))


def test_one_of_several_variables_is_asked_for(tmp_path: Path) -> None:
    make(tmp_path / "t.nc", names=("lst", "quality"))
    with pytest.raises(UserError) as caught:
        inspect_file(tmp_path / "t.nc")
    assert caught.value.detail == {"variables": ["lst", "quality"]}
    assert inspect_file(tmp_path / "t.nc", "", SceneHints(variable="quality")).info.valid_share is not None
    with pytest.raises(UserError, match="no variable"):
        inspect_file(tmp_path / "t.nc", "", SceneHints(variable="nope"))


def packed(path: Path, data: np.ndarray, *, units: tuple[str, str] = ("degrees_east", "degrees_north"), crs: str = "",
           written: slice = slice(None), fill: float | None = None, axes: dict[str, float] | None = None,
           **attributes: object) -> Path:
    """A variable ``v`` of 30 × 40 stored values as they are, its axes at 0, 1, … in ``units``, packed by ``axes``."""
    with netCDF4.Dataset(path, "w") as out:
        for name, n, unit in (("y", 30, units[1]), ("x", 40, units[0])):
            out.createDimension(name, n)
            axis = out.createVariable(name, "i2" if axes else "f8", (name,))
            axis.units, axis.axis = unit, name
            axis.setncatts(axes or {})
            axis.set_auto_maskandscale(False)
            axis[:] = np.arange(n)
        v = out.createVariable("v", data.dtype, ("y", "x"), fill_value=fill)
        v.set_auto_maskandscale(False)
        v.setncatts(attributes)
        if crs:
            out.createVariable("crs", "i4", ()).setncatts(CRS.from_user_input(crs).to_cf())
            v.grid_mapping = "crs"
        v[written] = data[written]
    return path


DATA = np.random.default_rng(5).random((30, 40))
DEGREES = ("degrees_east", "degrees_north")


@pytest.mark.parametrize(("data", "more"), [
    (np.full((30, 40), 200, np.uint8).view(np.int8), {"_Unsigned": "true"}),
    ((40000 + 1000 * DATA).astype(np.uint16).view(np.int16), {"_Unsigned": "true", "scale_factor": 0.01, "fill": np.int16(-1)}),
    (DATA.astype(np.float32), {"written": slice(0, 15)}),
    ((1000 * DATA).astype(np.int16), {"written": slice(0, 15), "scale_factor": 0.1}),
    (np.where(DATA < 0.1, -5, DATA).astype(np.float32), {"valid_min": np.float32(0)}),
    (np.where(DATA < 0.1, 7, DATA).astype(np.float32), {"valid_max": np.float32(1)}),
    ((1000 * DATA).astype(np.int16), {"scale_factor": 0.1, "valid_range": np.array([200, 800], np.int16)}),
    (np.where(DATA < 0.1, -777, np.where(DATA > 0.9, -888, DATA)).astype(np.float32),
     {"missing_value": np.float32(-777), "fill": np.float32(-888)}),
    (np.where(DATA < 0.1, -777, np.where(DATA > 0.9, -888, DATA)).astype(np.float32),
     {"missing_value": np.array([-777, -888], np.float32)}),
])
def test_missing_values_and_types_are_those_of_netcdf4_itself(tmp_path: Path, data: np.ndarray, more: dict[str, object]) -> None:
    path = packed(tmp_path / "v.nc", data, **more)  # type: ignore[arg-type]
    with netCDF4.Dataset(path) as held:
        expected = held["v"][:]  # masked and scaled by the library
    band = inspect_file(path).statistics.bands[0]  # type: ignore[union-attr]
    info = inspect_file(path).info
    assert band.n_valid == np.ma.count(expected)
    assert band.mean is not None
    mean = band.mean * info.bands[0].scale + info.bands[0].offset
    assert mean == pytest.approx(float(expected.astype(np.float64).mean()), rel=1e-6)


def test_numbers_written_as_text_are_numbers(tmp_path: Path) -> None:
    data = np.where(DATA < 0.1, -999, 1000 * DATA).astype(np.int16)
    path = packed(tmp_path / "v.nc", data, scale_factor="0.01", add_offset="270", missing_value="-999")
    found = inspect_file(path)
    band, info = found.statistics.bands[0], found.info  # type: ignore[union-attr]
    assert band.n_valid == int((data != -999).sum()) and info.bands[0].nodata == -999
    assert (info.bands[0].scale, info.bands[0].offset) == (0.01, 270.0)


def test_a_range_written_in_physical_values_is_not_taken_for_stored_ones(tmp_path: Path) -> None:
    # netCDF users' guide, valid_range: of the type of scale_factor, and wider than the packed values, it is of unpacked ones
    data = (10000 * DATA).astype(np.int16)
    path = packed(tmp_path / "v.nc", data, scale_factor=0.001, valid_range=np.array([0.0, 5.0]))
    band = inspect_file(path).statistics.bands[0]  # type: ignore[union-attr]
    assert band.n_valid == int((data <= 5000).sum())


def test_a_missing_value_that_the_type_cannot_hold_hides_nothing(tmp_path: Path) -> None:
    path = packed(tmp_path / "v.nc", (1000 * DATA).astype(np.int16), missing_value=np.float32(-1e20))
    found = inspect_file(path)
    assert found.info.valid_share == 1 and found.info.bands[0].nodata is None


@pytest.mark.parametrize(("units", "axes", "side"), [
    (("km", "km"), None, 1000.0), (("m", "m"), {"scale_factor": 250.0, "add_offset": -5000.0}, 250.0), (("m", "m"), None, 1.0),
    (("1000 meters", "1000 meters"), None, 1000.0)])
def test_axes_are_unpacked_and_in_metres(tmp_path: Path, units: tuple[str, str], axes: dict[str, float] | None,
                                         side: float) -> None:
    grid = inspect_file(packed(tmp_path / "v.nc", DATA.astype(np.float32), units=units, crs="EPSG:3413", axes=axes)).info.grid
    assert grid.transform[0] == side and grid.transform[4] == -side
    first = (axes or {}).get("add_offset", 0.0)
    assert (grid.transform[2], grid.transform[5]) == (first - side / 2, first + 29.5 * side)


def test_angles_of_a_geostationary_view_become_metres(tmp_path: Path) -> None:
    # GOES-R product user's guide, volume 3, 5.1.2.8: at the sub-satellite point 56 microradians are 2 km
    path = packed(tmp_path / "v.nc", DATA.astype(np.float32), units=("rad", "rad"), axes={"scale_factor": 5.6e-5},
                  crs="+proj=geos +h=35786023 +lon_0=-75 +sweep=x +ellps=GRS80")
    assert inspect_file(path).info.grid.gsd_m == pytest.approx(2004.0, rel=1e-3)


def test_axes_in_a_unit_that_is_not_understood_have_no_place(tmp_path: Path) -> None:
    found = inspect_file(packed(tmp_path / "v.nc", DATA.astype(np.float32), units=("cells", "cells"), crs="EPSG:3413"))
    assert found.info.grid.crs is None and found.info.effective_gsd_m is None
    assert any("“cells”" in f.text for f in found.findings)


def test_times_without_dates_are_told(tmp_path: Path) -> None:
    path = packed(tmp_path / "v.nc", DATA.astype(np.float32))
    with netCDF4.Dataset(path, "a") as out:
        out.createDimension("time", 4)
        out.renameVariable("v", "single")
        out.createVariable("v", "f4", ("time", "y", "x"))[:] = np.arange(4.0)[:, None, None]
    found = inspect_file(path, "", SceneHints(variable="v"))
    assert any("4 times that have no dates; only number 1 is read" in f.text for f in found.findings)


@pytest.mark.parametrize(("name", "attributes"), [
    ("time", {"calendar": 5}), ("time", {"calendar": "martian"}), ("time", {"units": "days since 0000-00-00"}),
    ("lst", {"valid_min": "abc"}), ("lst", {"valid_min": np.array([], "f4")}), ("lst", {"scale_factor": "ten"}),
    ("lst", {"scale_factor": np.nan}), ("lon", {"scale_factor": "q"}), ("lst", {"valid_range": np.array([np.nan, np.inf])})])
def test_attributes_that_are_nonsense_are_passed_over(tmp_path: Path, name: str, attributes: dict[str, object]) -> None:
    make(tmp_path / "t.nc", times=2)
    with netCDF4.Dataset(tmp_path / "t.nc", "a") as held:
        held[name].setncatts(attributes)
    found = write_variable(tmp_path / "t.nc", tmp_path / "t.tif", "t.nc", SceneHints())
    assert found.variable == "lst" and all(b.valid_range is None for b in found.bands)


def test_times_that_are_no_numbers_have_no_dates(tmp_path: Path) -> None:
    make(tmp_path / "t.nc", times=2)
    with netCDF4.Dataset(tmp_path / "t.nc", "a") as held:
        held["time"][:] = np.nan
    assert write_variable(tmp_path / "t.nc", tmp_path / "t.tif", "t.nc", SceneHints()).times == ()


def test_more_times_than_become_scenes_are_told(tmp_path: Path) -> None:
    make(tmp_path / "t.nc", times=405)
    found = write_variable(tmp_path / "t.nc", tmp_path / "t.tif", "t.nc", SceneHints())
    assert any("405 times; the first 400" in text for text in found.changes)
