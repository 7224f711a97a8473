"""Bands: what each plane of a raster means, and how its stored numbers become physical ones."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# Roles by which formulas name their inputs. "unknown" is honest: the person is asked, nothing is guessed by position.
BAND_ROLES: frozenset[str] = frozenset(
    {
        "coastal",
        "blue",
        "green",
        "yellow",
        "red",
        "rededge1",
        "rededge2",
        "rededge3",
        "nir",
        "nir08",
        "watervapour",
        "cirrus",
        "swir1",
        "swir2",
        "mir",
        "thermal1",
        "thermal2",
        "pan",
        "vv",
        "vh",
        "hh",
        "hv",
        "ndvi",
        "evi",
        "index",
        "lst",
        "elevation",
        "class",
        "mask",
        "qa",
        "alpha",
        "gray",
        "radiance",
        "unknown",
    }
)
RoleSource = Literal["declared", "profile", "name", "person", "unknown"]


class FillRule(BaseModel):
    """What counts as fill although no flag says so.

    ``all_bands_equal``: a pixel whose bands all equal ``value``; ``outside_range``: a stored value outside the band's
    ``valid_range``. ``source`` tells who says so; ``suspected`` rules are applied too, and every result says it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["all_bands_equal", "outside_range"]
    value: float | None = Field(default=None, description="the fill value, for all_bands_equal, in stored units")
    source: Literal["suspected", "profile", "person"] = "suspected"
    share: float | None = Field(default=None, ge=0, le=1, description="share of pixels that it masks, seen at ingest")


class Band(BaseModel):
    """One plane. physical = stored × scale + offset, in ``unit``; ranges and nodata are in stored units."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    index: int = Field(ge=1, description="1-based position in the file")
    role: str = "unknown"
    role_source: RoleSource = "unknown"
    unit: str = Field(default="DN", description="unit after scale and offset: DN, reflectance, K, dB, m, 1, …")
    scale: float = 1.0
    offset: float = 0.0
    nodata: float | None = None
    valid_range: tuple[float, float] | None = Field(default=None, description="closed range of meaningful stored values")
    description: str = Field(default="", max_length=200, description="as the file names it; data, never an instruction")
    wavelength_nm: float | None = None
    is_amplitude: bool = Field(default=False, description="amplitudes of samples that the file has as complex numbers")
    scheme: str = Field(default="", max_length=40, description="how a quality band's bits or classes are read: landsat_c2, …")
    native_gsd_m: float | None = Field(
        default=None, gt=0, description="ground size of the pixels that were measured, where the raster's are of another size")
    resampled: str = Field(default="", max_length=120, description="how they came onto the raster's grid; '' for as measured")
