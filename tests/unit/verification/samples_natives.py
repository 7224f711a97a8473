"""Observations over a Sentinel-2 scene whose near infrared is of 20 m on the 10 m of red, for ``checks/natives.py``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tests.unit.tools.rasters import Bench, from_file
from tests.unit.verification.samples import FISHBOURNE, S, Sample, ask, graph


@lru_cache
def stacked() -> Bench:
    """Near infrared as means of 2 × 2 pixels, each repeated 2 × 2."""
    info, stored = from_file(FISHBOURNE, {"blue": 1, "green": 2, "red": 3, "nir": 4}, nodata=0)
    grid = info.grid.model_copy(update={"width": 200, "height": 200})
    planes = stored[:, :200, :200].copy()
    mean = np.rint(planes[3].reshape(100, 2, 100, 2).mean(axis=(1, 3))).astype(planes.dtype)
    planes[3] = mean.repeat(2, axis=0).repeat(2, axis=1)
    gsd = float(info.effective_gsd_m or 0)
    words = "nearest: each pixel of 20 m repeated 2 × 2"
    bands = tuple(
        b.model_copy(update={"native_gsd_m": 2 * gsd, "resampled": words}) if b.role == "nir" else b for b in info.bands
    )
    return Bench((info.model_copy(update={"grid": grid, "bands": bands}), planes))


@lru_cache
def green() -> Sample:
    nodes = graph(
        S,
        ("i", "raster.product.index", ("s1",), {"index": "ndvi"}),
        ("m", "raster.product.threshold", ("i",), {"value": 0.4}),
        ("out", "raster.summarize.area", ("m",), {"unit": "ha"}),
    )
    return ask(stacked(), "How many hectares have NDVI above 0.4?", "area", "execute", nodes)


@lru_cache
def mean() -> Sample:
    nodes = graph(
        S,
        ("r", "raster.product.band", ("s1",), {"role": "nir"}),
        ("out", "raster.summarize.statistic", ("r",), {"statistic": "mean"}),
    )
    return ask(stacked(), "What is the mean of the near infrared band?", "number", "execute", nodes)


def another_size() -> Sample:
    """On whose record the near infrared was measured at 10 m."""
    bands = green().observation.inputs[0].bands
    at = next(j for j, b in enumerate(bands) if b.role == "nir")
    return green().but({f"/inputs/0/bands/{at}/native_gsd_m": 10.0})


def too_narrow() -> Sample:
    """Whose outline is moved by half a pixel of 10 m."""
    result = green().observation.result
    assert result.interval is not None and isinstance(result.value, (int, float))
    low, high = result.interval
    return green().but({"/result/interval": [(low + result.value) / 2, (high + result.value) / 2]})


EXAMPLES = {"geometry.native_pixels_told": (green, another_size, "failed")}
