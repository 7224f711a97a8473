"""What a raster file says of itself, and what counting its pixels says: plain data between ingest and
``inspect``."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_TEXT = 400
# Times of a netCDF file that become scenes; of more the first ones are read, and that is told.
MAX_TIMES = 400
# Fill values that no sensor measures: a band that holds one is empty there, whatever the others hold.
MISSING = (-9999.0, -32768.0, -3.4028234663852886e38, 1e20, -99999.0, -999.0)


def _short(text: str) -> str:
    return text[:_TEXT]


ShortText = Annotated[str, AfterValidator(_short)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# A number, or None for what is none: NaN and infinity are no facts, and no JSON.
Finite = Annotated[float | None, AfterValidator(_finite)]


class BandFacts(BaseModel):
    """One band as the file declares it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    description: ShortText = ""
    color: str = Field(default="", description="colour interpretation: red, green, blue, gray, alpha, palette, …")
    nodata: Finite = Field(default=None, description="None for NaN or infinity too: what is not finite is never valid")
    scale: float = Field(default=1.0, allow_inf_nan=False)
    offset: float = Field(default=0.0, allow_inf_nan=False)
    unit: ShortText = ""
    valid_range: tuple[float, float] | None = None
    wavelength_nm: Finite = Field(default=None, description="centre wavelength that the band's own tags tell")
    native_gsd_m: float | None = Field(default=None, gt=0, description="of a stack: ground size of the pixels that were measured")
    resampled: str = Field(default="", max_length=120, description="of a stack: how they came onto its grid")


class RasterFacts(BaseModel):
    """The header. ``transform`` is (a, b, c, d, e, f); ``crs_wkt`` is empty where the file has none.
    ``is_picture``: PNG or JPEG, whose gray and colours are declared by the format itself. ``changes`` tells
    what ingest changed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: str
    n_bytes: int
    width: int
    height: int
    dtype: str
    bands: tuple[BandFacts, ...]
    crs_wkt: str = ""
    transform: tuple[float, float, float, float, float, float] | None = None
    n_gcps: int = 0
    n_images: int = Field(default=1, description="images in the file; the first one is read")
    is_picture: bool = False
    has_mask: bool = False
    has_palette: bool = False
    is_amplitude: bool = Field(default=False, description="the file's samples are complex; the bands hold their amplitude")
    tags: dict[str, ShortText] = Field(default_factory=dict)
    changes: tuple[str, ...] = ()
    variables: tuple[str, ...] = Field(default=(), description="netCDF variables that could be read instead")
    variable: str = ""
    times: tuple[str, ...] = Field(default=(), description="netCDF times (ISO), in order")


class BandCounts(BaseModel):
    """Pixels of one band, over the whole raster. ``low`` and ``high`` are over finite values but declared
    nodata."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    n_not_finite: int = 0
    n_nodata: int = 0
    n_outside_range: int = 0
    low: float | None = None
    high: float | None = None
    n_distinct: int | None = Field(default=None, description="distinct values, for 8-bit bands")


class FillCandidate(BaseModel):
    """Pixels whose bands all hold ``value``; ``n_any_px``: those in which a band holds it, for values that only
    mean "nothing here". ``next_low`` and ``next_high`` are the nearest other values
    below and above it in the first band; ``border_share`` is the share of them that hangs together with the
    edge of the raster."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    value: float
    n_px: int
    n_any_px: int = 0
    border_share: float | None = None
    next_low: float | None = None
    next_high: float | None = None


class RasterCounts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    n_px: int
    n_masked: int = Field(default=0, description="pixels that the file's own mask or alpha hides")
    bands: tuple[BandCounts, ...]
    fill: tuple[FillCandidate, ...] = ()


class Histogram(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    low: float
    high: float
    counts: tuple[int, ...]


class BandStatistics(BaseModel):
    """Over the valid samples, in stored units. Percentiles and histogram are of ``n_sampled`` samples: all of
    them of whole numbers of up to 16 bits, else drawn by lot (all of them up to SAMPLE_LIMIT); the other figures are
    exact. None where nothing is valid."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    index: int
    n_valid: int
    n_sampled: int = 0
    low: Finite = None
    high: Finite = None
    mean: Finite = None
    std: Finite = None
    p2: Finite = None
    median: Finite = None
    p98: Finite = None
    histogram: Histogram | None = None


class RasterStatistics(BaseModel):
    """``n_valid_px``: pixels with at least one valid band but alpha; of ``n_px``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    n_px: int
    n_valid_px: int
    bands: tuple[BandStatistics, ...]
