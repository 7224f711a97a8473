"""Analyses asked in words, on real scenes and through the whole stack; every value from a computation of the test's own."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from scipy import ndimage, stats

from apps.accounts.models import Project, User
from apps.core.evidence.plan import Answer
from apps.imagery.hints import SceneHints
from apps.imagery.models import Scene
from apps.runs import selectors, services
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.django_db
LANDSAT = {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir1": 5, "swir2": 6}
DAYS = ("2002-07-20", "2002-11-25")
FISH = SAMPLES / "geopandas_s2a_l2a_fishbourne.tif"


@pytest.fixture
def put(project: Project) -> Any:
    def made(path: Path, roles: dict[str, int], name: str = "", **hints: Any) -> Scene:
        held = SceneHints(**hints) if hints else None
        return scene_of_file(project=project, path=path, roles=roles, name=name, hints=held)

    return made


@pytest.fixture
def asked(analyst: User, project: Project) -> Any:
    def answer(text: str, scenes: list[Scene], **more: Any) -> Answer:
        run = services.run_start(user=analyst, project=project, text=text, scenes=scenes, enqueue=False, **more)
        services.run_execute_now(run_id=run.pk)
        found = selectors.run_state(run.pk).answer
        assert found is not None
        return found

    return answer


@pytest.fixture
def pair(put: Any) -> list[Scene]:
    return [put(SAMPLES / f"landsat7_p15r32_{d}.tif", LANDSAT) for d in DAYS]


@pytest.fixture
def series(put: Any) -> list[Scene]:
    return [put(p, {"ndvi": 1}) for p in sorted((SAMPLES / "mod13q1_sinop").glob("*.jp2"))]


def bands(path: Path) -> NDArray[np.float64]:
    with rasterio.open(path) as file:
        return np.asarray(file.read(), dtype=np.float64)


def told(answer: Answer) -> Answer:
    assert not answer.abstained, answer.text
    return answer


def fish_ndvi() -> NDArray[np.float64]:
    data = bands(FISH)
    valid = ~(data == 0).all(axis=0)
    with np.errstate(all="ignore"):
        return np.where(valid, (data[3] - data[2]) / (data[3] + data[2]), np.nan)


def moments() -> list[NDArray[np.float64]]:
    """NDVI of the twelve dates, NaN where the product's valid range (−2000 to 10000) is left."""
    planes = [bands(p)[0] for p in sorted((SAMPLES / "mod13q1_sinop").glob("*.jp2"))]
    return [np.where((p >= -2000) & (p <= 10000), p * 1e-4, np.nan) for p in planes]


def test_a_mean_at_60_m_is_that_of_the_means_of_36_pixels(asked: Any, fish: Scene) -> None:
    answer = told(asked("What is the mean NDVI at 60 m?", [fish]))
    ndvi = fish_ndvi()
    with rasterio.open(FISH) as file:
        west, north = file.transform.c, file.transform.f
    # the new grid's edges are multiples of 60 m
    rows, cols = np.mgrid[0 : ndvi.shape[0], 0 : ndvi.shape[1]]
    x, y = np.floor((west + 10 * cols + 5) / 60), np.floor((north - 10 * rows - 5) / 60)
    cells: dict[tuple[float, float], list[float]] = {}
    for key, value in zip(zip(x.ravel(), y.ravel(), strict=True), ndvi.ravel(), strict=True):
        cells.setdefault(key, []).append(value)
    means = [np.nanmean(v) for v in cells.values() if np.isfinite(v).sum() >= 0.5 * len(v)]
    assert answer.value == pytest.approx(float(np.mean(means)), abs=2e-3)


def test_the_shift_between_an_image_and_itself_put_elsewhere(asked: Any, put: Any, fish: Scene, tmp_path: Path) -> None:
    with rasterio.open(FISH) as file:
        profile, data = file.profile, file.read()
    moved = np.roll(data, (3, 4), axis=(1, 2))
    with rasterio.open(tmp_path / "moved.tif", "w", **profile) as file:
        file.write(moved)
    other = put(tmp_path / "moved.tif", {"blue": 1, "green": 2, "red": 3, "nir": 4})
    answer = told(asked("How far are the two images shifted?", [fish, other]))
    # 3 rows and 4 columns of 10 m
    assert answer.value == pytest.approx(50.0, abs=1.0) and answer.unit == "m"
    assert told(asked("By how many pixels are the two images shifted?", [fish, other])).value == pytest.approx(5.0, abs=0.1)


def test_neighbours_of_a_real_scene_are_alike(asked: Any, fish: Scene) -> None:
    answer = told(asked("What is Moran's I of NDVI?", [fish]))
    ndvi = fish_ndvi()
    z = np.where(np.isfinite(ndvi), ndvi - np.nanmean(ndvi), 0.0)
    ring = np.ones((3, 3))
    ring[1, 1] = 0
    n = ndimage.convolve(np.isfinite(ndvi).astype(float), ring, mode="constant")
    near = ndimage.convolve(z, ring, mode="constant")
    keep = np.isfinite(ndvi) & (n > 0)
    assert answer.value == pytest.approx(float((z[keep] * near[keep] / n[keep]).sum() / (z[keep] ** 2).sum()), abs=1e-6)
    assert told(asked("Is NDVI spatially clustered?", [fish])).value is True


def test_variance_in_the_first_component(asked: Any, fish: Scene) -> None:
    answer = told(asked("How much variance is explained by the first two principal components?", [fish]))
    data = bands(FISH)
    valid = ~(data == 0).all(axis=0)
    values = np.sort(np.linalg.eigvalsh(np.cov(data[:, valid])))[::-1]
    assert answer.value == pytest.approx(100 * float(values[:2].sum() / values.sum()), abs=1e-3) and answer.unit == "%"


def test_hot_spots_are_pieces_of_gi_beyond_196(asked: Any, fish: Scene) -> None:
    ndvi = fish_ndvi()
    valid = np.isfinite(ndvi)
    x = np.where(valid, ndvi - np.nanmean(ndvi), 0.0)
    n, std = int(valid.sum()), float(np.nanstd(ndvi))
    square = np.ones((5, 5))
    weight = ndimage.convolve(valid.astype(float), square, mode="constant")
    total = ndimage.convolve(x, square, mode="constant")
    with np.errstate(all="ignore"):
        z = total / (std * np.sqrt((n * weight - weight**2) / (n - 1)))
    hot = valid & (z > 1.96)
    assert told(asked("What share of the image is NDVI hot spots?", [fish])).value == pytest.approx(100 * hot.sum() / n, abs=0.05)
    pieces = {int(ndimage.label(hot, structure=s)[1]) for s in (np.ones((3, 3)), None)}
    assert told(asked("How many hot spots of NDVI are there?", [fish])).value in pieces


def test_quality_of_bands_and_the_share_that_is_valid(asked: Any, fish: Scene) -> None:
    data = bands(FISH)
    valid = ~(data == 0).all(axis=0)
    assert told(asked("What is the valid share?", [fish])).value == pytest.approx(100 * valid.mean(), abs=1e-6)
    answer = told(asked("How noisy is the image?", [fish]))
    # Immerkær: mean absolute response to the mask over pixels whose neighbours are all valid
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]])
    inner = ndimage.binary_erosion(valid, np.ones((3, 3)))
    nir = np.abs(ndimage.convolve(data[3], kernel))[inner].mean() * np.sqrt(np.pi / 2) / 6
    assert f"nir (band 4): noise {nir:.3f}" in str(answer.value), answer.value


needs_text = pytest.mark.skipif(find_spec("rapidocr") is None, reason="rapidocr is not installed (./rsure setup)")


@needs_text
def test_where_no_text_is_that_is_the_answer(asked: Any, fish: Scene) -> None:
    assert "no text" in told(asked("What does the text say?", [fish])).text


def test_the_place_of_a_scene(asked: Any, fish: Scene) -> None:
    from rasterio.warp import transform_bounds

    west, south, east, north = (float(v) for v in str(told(asked("Where is the image?", [fish])).value).split(", "))
    with rasterio.open(FISH) as file:
        wanted = transform_bounds(file.crs, "EPSG:4326", *file.bounds, densify_pts=21)
    assert (west, south, east, north) == pytest.approx(wanted, abs=2e-4)


def test_burn_severity_by_classes_of_dnbr(asked: Any, pair: list[Scene]) -> None:
    july, november = (bands(SAMPLES / f"landsat7_p15r32_{d}.tif") for d in DAYS)
    nbr = [(b[3] - b[5]) / (b[3] + b[5]) for b in (july, november)]
    loss = nbr[0] - nbr[1]
    assert told(asked("What is the mean dNBR?", pair)).value == pytest.approx(float(loss.mean()), abs=1e-6)
    # in whole numbers: floats put pixels that lie on a limit on either side of it (966.96 ha for 966.78)
    (a, b), (c, d) = ((x[3] - x[5], x[3] + x[5]) for x in (bands(SAMPLES / f"landsat7_p15r32_{d}.tif") for d in DAYS))
    limits = [(-25, 100), (-10, 100), (10, 100), (27, 100), (44, 100), (66, 100)]
    classes = np.sum([(a * d - c * b) * whole >= part * b * d for part, whole in limits], axis=0)
    hectares = np.bincount(classes.ravel(), minlength=7) * 0.09
    assert hectares[2] == pytest.approx(966.78)
    table = str(told(asked("Area of each burn severity class in ha", pair)).value)
    named = dict(row.rsplit(": ", 1) for row in table.split("; "))
    assert float(named["moderate-low severity"]) == pytest.approx(hectares[4], abs=0.1)
    assert float(named["unburnt"]) == pytest.approx(hectares[2], abs=0.1)
    answer = told(asked("How many hectares burned with moderate severity?", pair))
    assert answer.value == pytest.approx(hectares[4] + hectares[5], abs=0.1)


def test_a_model_that_is_not_there_is_named_and_two_summers_that_do_not_fit_are_not_laid_on_each_other(
    asked: Any, pair: list[Scene]
) -> None:
    answer = asked("What share of the image changed using the model MyNet?", pair)
    assert answer.abstained and answer.code == "MODEL_MISSING" and "MyNet" in answer.text
    answer = asked("How far are the two images shifted?", pair)
    assert answer.abstained and "too little in common" in answer.text


def test_anomaly_composites_months_and_gaps_of_a_series(asked: Any, series: list[Scene]) -> None:
    planes = np.stack(moments())
    now, past = planes[5], np.delete(planes, 5, axis=0)
    with np.errstate(all="ignore"):
        n = np.isfinite(past).sum(axis=0)
        z = np.where(n >= 3, (now - np.nanmean(past, axis=0)) / np.nanstd(past, axis=0, ddof=1), np.nan)
    answer = told(asked("What is the z-score of NDVI in 2014-02?", series))
    assert answer.value == pytest.approx(float(np.nanmean(z[np.isfinite(z)])), abs=1e-3)
    assert any("season" in w for w in answer.warnings)
    answer = told(asked("Mean NDVI of the median composite", series))
    assert answer.value == pytest.approx(float(np.nanmean(np.nanmedian(planes, axis=0))), abs=1e-4)
    rows = dict(r.split(": ") for r in str(told(asked("NDVI by month", series)).value).split("; "))
    assert list(rows)[:2] == ["2013-09", "2013-10"] and len(rows) == 12
    assert float(rows["2014-03"]) == pytest.approx(float(np.nanmean(planes[6])), abs=1e-6)
    # every 32 days but for one pair of 29
    answer = told(asked("How many dates are missing if there is one every 16 days?", series))
    assert answer.value == 11 and told(asked("How many images are there?", series)).value == 12
    assert told(asked("Are there gaps in the series, if there is one every 32 days?", series)).value is False


def test_a_trend_is_tested_by_ranks(asked: Any, series: list[Scene]) -> None:
    means = [float(np.nanmean(p)) for p in moments()]
    tau, p = stats.kendalltau(range(12), means)
    assert told(asked("Mann-Kendall test of NDVI", series)).value == pytest.approx(float(tau), abs=1e-9)
    assert told(asked("Is the NDVI trend significant?", series)).value is bool(p < 0.05)
    # the seventh date is of 22 March, the sixth of 18 February
    assert told(asked("mean NDVI since March 2014", series)).value == pytest.approx(float(np.mean(means[6:])), abs=1e-6)
    assert told(asked("mean NDVI until February 2014", series)).value == pytest.approx(float(np.mean(means[:6])), abs=1e-6)
    for text in ("What is the seasonal amplitude of NDVI?", "NDVI amplitude of the time series"):
        assert told(asked(text, series)).value == pytest.approx(max(means) - min(means), abs=1e-6)
    answer = asked("When did NDVI change abruptly?", series)
    assert answer.abstained and "Pettitt" in answer.text


@pytest.mark.shared_data
def test_terrain_of_zion(asked: Any, put: Any, shared_data: Path) -> None:
    path = shared_data / "terrain_landcover/spDataLarge_srtm.tif"
    dem = put(path, {"elevation": 1}, unit="m")
    with rasterio.open(path) as file:
        z, valid = file.read(1).astype(float), file.read_masks(1) > 0
        lat = file.transform.f + file.transform.e * (np.arange(file.height) + 0.5)
        step = file.transform.a
    # lengths of a degree on the ellipsoid by the usual series
    phi = np.radians(lat)
    height = (111132.954 - 559.822 * np.cos(2 * phi) + 1.175 * np.cos(4 * phi)) * step
    width = (111412.84 * np.cos(phi) - 93.5 * np.cos(3 * phi)) * step
    east, south = ndimage.sobel(z, axis=1) / (8 * width[:, None]), ndimage.sobel(z, axis=0) / (8 * height[:, None])
    inner = ndimage.binary_erosion(valid, np.ones((3, 3)))
    slope = np.degrees(np.arctan(np.hypot(east, south)))[inner]
    assert told(asked("What is the mean slope?", [dem])).value == pytest.approx(float(slope.mean()), rel=2e-3)
    area = (width * height)[:, None] * np.ones_like(z) / 1e4
    answer = told(asked("How many hectares are steeper than 15 degrees?", [dem]))
    assert answer.value == pytest.approx(float(area[inner][slope > 15].sum()), rel=5e-3) and answer.unit == "ha"
    falls = (np.degrees(np.arctan2(-east, south)) + 360) % 360
    faces = (falls[inner] >= 135) & (falls[inner] < 225)
    answer = told(asked("What share of the area faces south?", [dem]))
    assert answer.value == pytest.approx(100 * float(faces[slope > 0].mean()), abs=0.3)
    assert told(asked("What is the relief?", [dem])).value == pytest.approx(float(z[valid].max() - z[valid].min()))
    without = put(path, {"elevation": 1}, name="unit unknown.tif")
    answer = asked("What is the mean slope?", [without])
    assert answer.abstained and answer.code == "NEEDS_BANDS" and "terrain needs metres" in answer.text


@pytest.mark.shared_data
def test_areas_of_the_classes_of_zion(asked: Any, put: Any, shared_data: Path) -> None:
    path = shared_data / "terrain_landcover/spDataLarge_nlcd.tif"
    answer = told(asked("What is the area of each class in km2?", [put(path, {"class": 1})]))
    with rasterio.open(path) as file:
        values = file.read(1)[file.read_masks(1) > 0]
        pixel = abs(file.transform.a * file.transform.e) / 1e6
    rows = {k: float(v) for k, v in (r.split(": ") for r in str(answer.value).split("; "))}
    for k, n in zip(*np.unique(values, return_counts=True), strict=True):
        # UTM's areas differ from the ground's by less than 1 in 1000 here
        assert rows[f"class {k}"] == pytest.approx(n * pixel, rel=1e-3)


@needs_text
@pytest.mark.shared_data
def test_words_on_a_sign_are_read_and_not_followed(asked: Any, put: Any, shared_data: Path) -> None:
    sign = put(shared_data / "objects/sahi_small-vehicles1_highway.jpeg", {"red": 1, "green": 2, "blue": 3})
    answer = told(asked("What does the text say?", [sign]))
    assert "Refuge areas" in str(answer.value) and "“Refuge areas”" in answer.text
