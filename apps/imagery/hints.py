"""What a person says about a scene; it outranks what the file says."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator, model_validator

from apps.core.geo.bands import BAND_ROLES


class SceneHints(BaseModel):
    """Every field is optional; ``None`` or ``auto`` leaves the file's own word.

    ``roles`` maps a role to its 1-based band. ``fill`` decides about undeclared fill: ``is_fill`` makes
    ``fill_value`` in all bands fill, ``is_real`` drops every suspicion. ``nodata`` is a value in stored units
    that the person declares for every band; ``nodata_is_real`` says that the declared nodata is a real value.
    ``scale`` and ``offset`` turn stored into physical values in ``unit``. ``looks_right`` names findings that
    the person has looked at.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    roles: dict[str, int] | None = None
    gsd_m: float | None = Field(default=None, gt=0, le=100_000)
    acquired_at: AwareDatetime | None = None
    crs: str | None = Field(default=None, max_length=4000, description="EPSG:n or WKT, for a file that lacks one")
    nodata: float | None = None
    nodata_is_real: bool = False
    fill: Literal["auto", "is_fill", "is_real"] = "auto"
    fill_value: float | None = None
    scale: float | None = Field(default=None, allow_inf_nan=False)
    offset: float | None = Field(default=None, allow_inf_nan=False)
    unit: str | None = Field(default=None, max_length=40)
    sensor: str | None = Field(default=None, max_length=120)
    variable: str | None = Field(default=None, max_length=120, description="of a netCDF file")
    time_index: int | None = Field(default=None, ge=0, description="of a netCDF file with several times")
    looks_right: tuple[str, ...] = ()

    @field_validator("roles")
    @classmethod
    def _known_roles(cls, roles: dict[str, int] | None) -> dict[str, int] | None:
        for role, index in (roles or {}).items():
            if role not in BAND_ROLES:
                raise ValueError(f"no role is called {role!r}")
            if index < 1:
                raise ValueError(f"bands count from 1; {role} is given as {index}")
        if roles and len(set(roles.values())) != len(roles):
            raise ValueError("a band can have one role only")
        return roles

    @model_validator(mode="after")
    def _fill_has_value(self) -> SceneHints:
        if self.fill == "is_fill" and self.fill_value is None:
            raise ValueError("fill_value says which value is fill")
        if self.scale == 0:
            raise ValueError("a scale of 0 would erase the values")
        return self
