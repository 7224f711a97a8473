"""Variables of netCDF files: grid, packing, times, choice."""

from pathlib import Path

import netCDF4
import numpy as np
import pytest
import rasterio

from apps.core.errors import UserError
from apps.imagery.hints import SceneHints
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
