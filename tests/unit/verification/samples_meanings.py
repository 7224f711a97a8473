"""Observations for the checks of what is held together (``apps/verification/checks/meanings.py``)."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import numpy as np
import rasterio

from apps.core.digests import digest_bytes
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.verification.samples import FISHBOURNE, NDVI, ROLES, SHIPPED, S, Sample, ask, cut, found, graph
from tests.unit.verification.samples_layers import Make, agreement, over_landsat, remembered, transitions
from tests.unit.verification.samples_new import landsat


def with_unit(sample: Sample, scene_id: str, unit: str) -> Sample:
    """The same observation of a question one of whose scenes has its bands in another unit."""
    assert sample.question is not None
    scenes = tuple(
        s.model_copy(update={"bands": tuple(b.model_copy(update={"unit": unit}) for b in s.bands)})
        if s.scene_id == scene_id
        else s
        for s in sample.question.scenes
    )
    return sample.but(question=sample.question.model_copy(update={"scenes": scenes}))


@lru_cache
def added() -> Sample:
    return over_landsat("What is the sum of NDVI?", ("out", "raster.summarize.statistic", ("i",), {"statistic": "sum"}))


@lru_cache
def coarser() -> Sample:
    """The mean over pixels of three times the side, which is no sum."""
    return over_landsat(
        "What is the mean NDVI at 90 m?",
        ("r", "raster.product.reproject", ("i",), {"resolution": 90, "method": "average"}),
        ("out", "raster.summarize.statistic", ("r",), {"statistic": "mean"}),
    )


@lru_cache
def divided() -> Sample:
    return ask(
        Bench(landsat()),
        "What is the mean of nir / red?",
        "number",
        "execute",
        graph(
            S,
            ("m", "raster.product.math", ("s1",), {"expression": "nir / red", "range": [0, 50]}),
            ("out", "raster.summarize.statistic", ("m",), {"statistic": "mean"}),
        ),
    )


@lru_cache
def anomaly(*dates: str) -> Sample:
    """The first of these dates of MODIS NDVI against the others."""
    held = [
        from_file(next((SHIPPED / "mod13q1_sinop").glob(f"*{day}.jp2")), {"ndvi": 1}, scene_id=f"s{k}", date=day)
        for k, day in enumerate(dates)
    ]
    nodes: list[Any] = []
    for k in range(len(dates)):
        nodes += [
            (f"a{k}", "asset.scene", (), {"scene": f"s{k}"}),
            (f"b{k}", "raster.product.band", (f"a{k}",), {"role": "ndvi"}),
        ]
    inputs = tuple(f"b{k}" for k in range(len(dates)))
    nodes += [("d", "raster.product.anomaly", inputs, {"least_valid": 2}), ("out", "raster.summarize.statistic", ("d",), {})]
    return ask(Bench(*held), f"What is the mean NDVI anomaly of {dates[0]}?", "number", "execute", graph(*nodes))


@lru_cache
def in_noise() -> Sample:
    """The crowns of the forest, over a picture that has its pixels in random order."""
    made = found()
    (stored,) = made.bench.stored.values()
    order = np.random.default_rng(2).permutation(stored[0].size)
    shuffled = stored.reshape(len(stored), -1)[:, order].reshape(stored.shape)
    bench = copy.copy(made.bench)
    bench.stored = {"s": shuffled}
    return made.but(bench=bench)


@lru_cache
def parted(day: str) -> Sample:
    """Vegetation by the threshold that parts the NDVI of a day; in November it is one heap."""
    found_in = ("m", "raster.product.threshold", ("i",), {"value": "otsu"})
    nodes = graph(S, NDVI, found_in, ("out", "raster.summarize.share", ("m",), {}))
    return ask(Bench(landsat(day)), "What share is vegetation?", "share", "execute", nodes)


@lru_cache
def sharpened() -> Sample:
    """Red of the coast, made coarse by half and sharpened by the mean of its own fine bands."""
    with rasterio.open(FISHBOURNE) as src:
        fine = src.read((1, 2, 3)).astype(float)[:, 40:130, 4:104]
    coarse = fine.reshape(3, 45, 2, 50, 2).mean(axis=(2, 4))
    pan = fine.mean(axis=0)
    nodes: list[Any] = [
        ("s1", "asset.scene", (), {"scene": "c"}),
        ("s2", "asset.scene", (), {"scene": "p"}),
        *((r, "raster.product.band", ("s1",), {"role": r}) for r in ("red", "green", "blue")),
        ("pan", "raster.product.band", ("s2",), {"role": "pan"}),
        ("h", "raster.product.pansharpen", ("red", "green", "blue", "pan"), {}),
        ("out", "raster.summarize.statistic", ("h",), {"statistic": "std"}),
    ]
    held = (
        scene(coarse, ["blue", "green", "red"], scene_id="c", pixel=20.0),
        scene(pan[None], ["pan"], scene_id="p", pixel=10.0),
    )
    return ask(Bench(*held), "What is the deviation of the pan-sharpened red band?", "number", "execute", graph(*nodes))


@lru_cache
def sharpened_beside(by_px: int = 8) -> Sample:
    """The same, whose panchromatic band lies some of its pixels beside the bands, by a tool that does not look."""
    made = sharpened()
    bench = copy.copy(made.bench)
    moved = np.roll(bench.stored["p"], by_px, axis=2)
    bench.stored = {**bench.stored, "p": moved}
    told = {"artifact": digest_bytes(moved.tobytes())}
    scenes = tuple(s.model_copy(update=told) if s.scene_id == "p" else s for s in bench.question.scenes)
    return made.but(bench=bench, question=bench.question.model_copy(update={"scenes": scenes}))


WARM = ("2013-09-14", "2014-07-28", "2014-08-29", "2014-09-30")


@lru_cache
def warming(hours: tuple[int, ...] = (10, 11, 10, 13), sensors: tuple[str, ...] = ("MODIS",) * 4) -> Sample:
    """The slope through four dates of MODIS, whose numbers stand for kelvins, taken at these hours by these sensors."""
    names = sorted((SHIPPED / "mod13q1_sinop").glob("*.jp2"))[:4]
    held = []
    for k, (path, day) in enumerate(zip(names, WARM, strict=True)):
        info, stored = from_file(path, {"lst": 1}, scene_id=f"s{k}", date=f"{day}T14:00", unit="K", scale=0.005)
        bands = tuple(b.model_copy(update={"offset": 280.0}) for b in info.bands)
        held.append((info.model_copy(update={"bands": bands, "sensor": "MODIS"}), stored))
    nodes: list[Any] = []
    for k in range(4):
        nodes += [
            (f"a{k}", "asset.scene", (), {"scene": f"s{k}"}),
            (f"b{k}", "raster.product.band", (f"a{k}",), {"role": "lst"}),
        ]
    nodes.append(("out", "raster.summarize.trend", tuple(f"b{k}" for k in range(4)), {}))
    made = ask(Bench(*held), "What is the trend of LST?", "number", "execute", graph(*nodes))
    scenes = tuple(
        s.model_copy(update={"acquired_at": s.acquired_at and s.acquired_at.replace(hour=h), "sensor": sensor})
        for s, h, sensor in zip(made.bench.question.scenes, hours, sensors, strict=True)
    )
    return made.but(question=made.bench.question.model_copy(update={"scenes": scenes}))


@lru_cache
def burnt() -> Sample:
    """An index of July less that of November, called dNBR; their green stands for the shortwave infrared."""
    held = []
    for n, day in (("a", "2002-07-20"), ("b", "2002-11-25")):
        info, stored = landsat(day)
        bands = tuple(b.model_copy(update={"role": "swir2" if b.role == "green" else b.role}) for b in info.bands)
        held.append((info.model_copy(update={"scene_id": n, "bands": bands}), stored))
    nodes: list[Any] = []
    for n in "ab":
        nodes += [(f"s{n}", "asset.scene", (), {"scene": n}), (n, "raster.product.index", (f"s{n}",), {"index": "nbr"})]
    nodes += [
        ("d", "raster.product.math", ("a", "b"), {"expression": "a - b", "quantity": "dnbr", "range": [-2, 2]}),
        ("out", "raster.summarize.statistic", ("d",), {}),
    ]
    return ask(Bench(*held), "What is the mean dNBR?", "number", "execute", graph(*nodes))


@lru_cache
def in_decibels() -> Sample:
    """Where a picture whose numbers stand for decibels is below −15 dB."""
    held = cut(FISHBOURNE, ("gray", "pan", "vv", "index"), (4, 40, 100, 90), unit="dB", scale=-0.005, offset=-5.0)
    nodes = graph(
        S,
        ("v", "raster.product.band", ("s1",), {"role": "vv"}),
        ("m", "raster.product.threshold", ("v",), {"op": "<", "value": -15}),
        ("out", "raster.summarize.share", ("m",), {}),
    )
    return ask(Bench(held), "What share is below -15 dB?", "share", "execute", nodes)


@lru_cache
def exchanged(first: str = "red", second: str = "nir") -> Sample:
    """NDVI of fields whose file calls its near infrared red, and its red near infrared."""
    names = {first: second, second: first}
    made = Bench(cut(FISHBOURNE, [names.get(r, r) for r in ROLES], (0, 140, 80, 60)))
    nodes = graph(S, NDVI, ("out", "raster.summarize.statistic", ("i",), {}))
    return ask(made, "What is the mean NDVI?", "number", "execute", nodes)


ONE_SEASON = ("2014-08-29", "2013-09-14", "2014-07-28")
TWO_SEASONS = ("2014-07-28", "2014-01-17", "2014-02-18")
EXAMPLES: dict[str, tuple[Make, Make, str]] = {
    "geometry.pan_lies_on_bands": (sharpened, sharpened_beside, "failed"),
    "radiometry.dates_of_one_unit": (agreement, lambda: with_unit(agreement(), "t", "reflectance"), "failed"),
    "consistency.each_input_once": (remembered, lambda: remembered().but({"/arguments/nodes/24/inputs/1": "b1"}), "failed"),
    "consistency.classes_of_one_legend": (
        transitions,
        lambda: transitions().but({"/arguments/nodes/5/params/breaks": [0.1, 0.3, 0.5]}),
        "failed",
    ),
    "consistency.sum_over_measured_pixels": (
        added,
        lambda: coarser().but({"/arguments/nodes/3/params/statistic": "sum"}),
        "failed",
    ),
    "consistency.formula_has_a_meaning": (divided, lambda: with_unit(divided(), "s", "dB"), "failed"),
    "plausibility.threshold_parts_two_heaps": (
        lambda: parted("2002-07-20"),
        lambda: parted("2002-11-25"),
        "failed",
    ),
    "plausibility.picture_more_than_noise": (found, in_noise, "failed"),
    "plausibility.trend_of_one_time_of_day": (warming, lambda: warming((10, 23, 10, 22)), "failed"),
    "plausibility.dates_of_one_sensor": (
        warming,
        lambda: warming(sensors=("MODIS", "MODIS", "Landsat 8/9 OLI-TIRS", "MODIS")),
        "failed",
    ),
    "consistency.dnbr_before_minus_after": (
        burnt,
        lambda: burnt().but({"/arguments/nodes/4/params/expression": "b - a"}),
        "failed",
    ),
    "consistency.threshold_in_the_values_unit": (
        in_decibels,
        lambda: in_decibels().but({"/arguments/nodes/2/params/value": 0.02}),
        "failed",
    ),
    "consistency.sum_of_what_adds_up": (
        added,
        lambda: warming().but(
            {
                "/arguments/nodes/8": {
                    "id": "out",
                    "op": "raster.summarize.series",
                    "inputs": ["b0", "b1"],
                    "params": {"over": "sum"},
                }
            }
        ),
        "failed",
    ),
    "plausibility.red_and_nir_as_ground_reflects": (lambda: exchanged("", "-"), exchanged, "failed"),
    "plausibility.anomaly_of_one_season": (
        lambda: anomaly(*ONE_SEASON),
        lambda: anomaly(*TWO_SEASONS),
        "failed",
    ),
}
