"""Complex samples are kept as their amplitude: real quad-pol SAR against numpy's own, and fill that must not look like data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import RasterStatistics
from apps.imagery.hints import SceneHints
from apps.imagery.ingest import ingest_file
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene

POLARISATIONS = ("hh", "hv", "vh", "vv")


def quad_pol(shared_data: Path) -> NDArray[np.complex64]:
    """(4, 200, 200): four real X-band images of Rotterdam."""
    planes = []
    for name in POLARISATIONS:
        with rasterio.open(shared_data / f"sar/solaris_rotterdam_sar_{name}.tif") as dataset:
            planes.append(dataset.read(1))
    return np.stack(planes)


def written(path: Path, planes: NDArray[Any], dtype: str, **more: Any) -> Path:
    with rasterio.open(
        path, "w", driver="GTiff", width=planes.shape[2], height=planes.shape[1], count=len(planes), dtype=dtype,
        crs="EPSG:32631", transform=rasterio.Affine(2.5, 0, 590000, 0, -2.5, 5750000), **more,
    ) as out:  # fmt: skip
        out.write(planes)
    return path


def stored(path: Path, tmp_path: Path, **hints: Any) -> tuple[SceneInfo, NDArray[Any], NDArray[np.bool_], RasterStatistics]:
    """(scene, values, valid pixels, statistics) by the process that uploads go through."""
    folder = tmp_path / "job"
    folder.mkdir()
    done = ingest_file(
        source=path, name=path.name, folder=folder, hints=SceneHints(**hints), scene_id="s", artifact="sha256:" + "1" * 64
    )
    reader = open_scene(done.info, done.cog)
    raster = reader.read([b.index for b in done.info.bands])
    reader.close()
    assert raster.data.dtype.kind == "f"
    return done.info, raster.data, raster.valid, done.statistics


@pytest.mark.shared_data
@pytest.mark.parametrize("dtype", ["complex_int16", "complex64", "complex128"])
def test_a_quad_pol_scene_is_kept_as_amplitudes(dtype: str, shared_data: Path, tmp_path: Path) -> None:
    z = quad_pol(shared_data)
    if dtype == "complex_int16":
        z = (np.rint(z.real / 4) + 1j * np.rint(z.imag / 4)).clip(-32768, 32767).astype(np.complex64)
    path = written(tmp_path / "rotterdam_slc.tif", z.astype(np.complex64 if dtype == "complex_int16" else dtype), dtype)
    with rasterio.open(path, "r+") as dataset:
        assert set(dataset.dtypes) == {dtype}
        dataset.descriptions = tuple(p.upper() for p in POLARISATIONS)
    info, values, valid, statistics = stored(path, tmp_path)
    amplitude = np.sqrt(z.real.astype(float) ** 2 + z.imag.astype(float) ** 2)
    assert valid.all() and np.allclose(values, amplitude, rtol=2e-7, atol=0)
    assert [b.role for b in info.bands] == list(POLARISATIONS)
    assert info.dtype == ("float64" if dtype == "complex128" else "float32")
    for band, plane in zip(statistics.bands, amplitude, strict=True):
        assert band.mean == pytest.approx(plane.mean(), rel=1e-6) and band.median == pytest.approx(np.median(plane), rel=1e-6)


@pytest.mark.shared_data
def test_the_findings_say_what_was_kept(shared_data: Path) -> None:
    found = inspect_file(shared_data / "sar/solaris_rotterdam_sar_hh.tif")
    told = {f.key: f.text for f in found.findings}
    assert "complex numbers; the scene holds their amplitude" in told["file"]
    assert found.info.dtype == "float32" and found.info.bands[0].unit == "DN"       # no decibels, no power
    named = inspect_file(shared_data / "sar/solaris_rotterdam_sar_hh.tif", "", SceneHints(roles={"hh": 1}))
    assert "not calibrated: power and decibels" in {f.key: f.text for f in named.findings}["scale"]


def test_who_says_that_real_samples_are_amplitudes_is_believed(tmp_path: Path) -> None:
    planes = np.random.default_rng(2).gamma(2.0, 30, (1, 40, 40)).astype(np.float32)
    path = written(tmp_path / "s1_vv.tif", planes, "float32")
    asked = {f.key: f for f in inspect_file(path, "", SceneHints(roles={"vv": 1})).findings}["scale"]
    assert asked.light == "warn" and "power or amplitude" in asked.text
    fix = next(f for f in asked.fixes if f.label == "They are amplitudes")
    said = inspect_file(path, "", SceneHints(roles={"vv": 1}, **fix.hints))
    assert said.info.bands[0].unit == "amplitude" and not said.info.bands[0].is_amplitude
    assert {f.key: f.light for f in said.findings}["scale"] == "ok"


@pytest.mark.shared_data
@pytest.mark.parametrize("scale", ["amplitude", "power", "dB"])
def test_power_and_decibels_of_an_uploaded_scene(scale: str, shared_data: Path, tmp_path: Path) -> None:
    """From the file as uploaded to the tool's figure, against numpy on the file's own complex samples."""
    from tests.unit.tools.rasters import Bench

    z = quad_pol(shared_data)[:1]
    path = written(tmp_path / "rotterdam_slc.tif", z, "complex64")
    with rasterio.open(path, "r+") as dataset:
        dataset.descriptions = ("HH",)
    info, values, _, _ = stored(path, tmp_path)
    assert info.bands[0].is_amplitude
    o = Bench((info, values)).execute([
        ("s1", "asset.scene", (), {"scene": info.scene_id}),
        ("x", "raster.product.amplitude", ["s1"], {"role": "hh", "scale": scale}),
        ("out", "raster.summarize.statistic", ["x"], {"statistic": "median"})])  # fmt: skip
    power = z[0].real.astype(float) ** 2 + z[0].imag.astype(float) ** 2
    told = {"amplitude": np.sqrt(power), "power": power, "dB": 10 * np.log10(power[power > 0])}[scale]
    assert o.result.value == pytest.approx(float(np.median(told)), rel=1e-6)


@pytest.mark.shared_data
def test_fill_of_complex_samples_is_no_amplitude(shared_data: Path, tmp_path: Path) -> None:
    """Minus 9999, twice or as the real part alone, and what is no number: each would be a bright target by its amplitude."""
    z = quad_pol(shared_data)[:1].copy()
    z[0, :20], z[0, 20:40], z[0, 40:50], z[0, 50:60] = -9999, -9999 - 9999j, np.nan, complex(3, np.inf)
    path = written(tmp_path / "slc.tif", z, "complex64", nodata=-9999)
    _, values, valid, statistics = stored(path, tmp_path)
    assert not valid[0, :60].any() and valid[0, 60:].all()
    assert np.allclose(values[0, 60:], np.abs(z[0, 60:].astype(np.complex128)), rtol=2e-7)
    assert statistics.n_valid_px == 140 * 200
    assert statistics.bands[0].mean == pytest.approx(np.abs(z[0, 60:].astype(np.complex128)).mean(), rel=1e-6)


@pytest.mark.shared_data
def test_scale_and_mask_of_complex_samples(shared_data: Path, tmp_path: Path) -> None:
    """The file's scale holds for the complex value, so it enters before the amplitude, once; what the mask hides is no data."""
    z = quad_pol(shared_data)[:1]
    path = written(tmp_path / "slc.tif", z, "complex64")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as dataset:
        dataset.scales, dataset.offsets = (0.5,), (10.0,)
        hidden = np.zeros((200, 200), bool)
        hidden[:, :50] = True
        dataset.write_mask(~hidden)
    info, values, valid, _ = stored(path, tmp_path)
    assert np.array_equal(valid[0], ~hidden) and (info.bands[0].scale, info.bands[0].offset) == (1.0, 0.0)
    assert np.allclose(values[0][~hidden], np.abs(0.5 * z[0].astype(np.complex128) + 10)[~hidden], rtol=2e-7)


def test_amplitudes_beyond_the_type_are_no_numbers(tmp_path: Path) -> None:
    z = np.full((1, 40, 40), 3e38 + 3e38j, np.complex64)
    z[0, 20:] = 3 + 4j
    _, values, valid, _ = stored(written(tmp_path / "slc.tif", z, "complex64"), tmp_path)
    assert not valid[0, :20].any() and (values[0, 20:] == 5).all()


def test_a_complex_file_that_declares_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tif"
    with rasterio.open(path, "w", driver="GTiff", width=60000, height=60000, count=1, dtype="complex64", tiled=True,
                       sparse_ok=True, compress="deflate"):  # fmt: skip
        pass
    with pytest.raises(UserError) as caught:
        stored(path, tmp_path)
    assert caught.value.code == "TOO_LARGE"
