"""From what a file says, what its pixels count and what a person said, to a SceneInfo and its findings. Pure.

``inspect_file(path, name, hints)`` does all of it for one trusted file; ingest does the same in its own
process. What cannot be known stays unknown and is asked for: no band gets a role by its position, no date a
guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from pyproj import CRS
from pyproj.exceptions import CRSError

from apps.core.errors import UserError
from apps.core.geo.bands import Band, FillRule, RoleSource
from apps.core.geo.grid import Grid
from apps.core.geo.scene import Known, SceneInfo
from apps.imagery import profiles
from apps.imagery.dates import day_of_name, time_of_tags
from apps.imagery.facts import MISSING, FillCandidate, RasterCounts, RasterFacts, RasterStatistics
from apps.imagery.hints import SceneHints

# Undeclared fill of 8-bit colours is believed only where it covers this share and hangs together with the
# edge: black shadow and white roofs are real.
COLOR_FILL_SHARE = 0.005
COLOR_FILL_BORDER = 0.9
# Elsewhere a value in *all* of several bands at once is no accident from this share on.
FILL_SHARE = 1e-4
# Figures are made in float64, which tells whole numbers apart up to here.
EXACT_WHOLE = 2.0**53
# Whole numbers that span less than this are taken for classes: 0 is one of them.
CLASS_SPAN = 20
# Below this share of valid pixels a scene is called mostly empty.
LOW_VALID_SHARE = 0.5
# Since 25 January 2022 (processing baseline 04.00) Sentinel-2 products carry an offset of −1000.
S2_OFFSET_SINCE = datetime(2022, 1, 25, tzinfo=UTC)
S2_OFFSET_BASELINE = 4.0
S2_OFFSET = -1000.0
S2_SCALE = 1e-4
S2_DTYPES = ("uint16", "int16", "uint32", "int32")
# Bands of these roles hold codes and bits, which have no scale and no unit.
_CODES = frozenset({"qa", "class", "mask", "alpha"})


class Fix(BaseModel):
    """What a person can do about a finding: a button that sets ``hints``, or a form that asks for
    ``field``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    label: str
    field: Literal["", "roles", "gsd_m", "acquired_at", "crs", "nodata", "scale"] = ""
    hints: dict[str, Any] = Field(default_factory=dict)
    is_primary: bool = False


class Finding(BaseModel):
    """One line of the ingest check. ``light``: ok, warn (look at it), block (must be settled)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    key: str
    title: str
    light: Literal["ok", "warn", "block"]
    value: str
    text: str
    code: str = Field(default="", description="error code of what stays closed meanwhile: NEEDS_CRS, NEEDS_GSD, …")
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspection:
    info: SceneInfo
    findings: tuple[Finding, ...]
    statistics: RasterStatistics | None = None


def share_text(n: int, total: int) -> str:
    """``19,927 px (32.9 %)``; tiny shares are never shown as 0."""
    share = 100 * n / total if total else 0.0
    shown = f"{share:.1f} %" if share >= 0.05 or n == 0 else "< 0.1 %"
    return f"{n:,} px ({shown})"


def valid_ranges(facts: RasterFacts, name: str) -> list[tuple[float, float] | None]:
    """The range of meaningful stored values of each band, where the file or its product tells one."""
    is_mod13 = profiles.mod13_role(name, facts.dtype, len(facts.bands)) is not None
    by_product = [c.valid_range if c is not None else None for c in codings_of(facts, name)]
    return [
        b.valid_range or p or (profiles.MOD13_RANGE if is_mod13 else None)
        for b, p in zip(facts.bands, by_product, strict=True)
    ]


def codings_of(facts: RasterFacts, name: str) -> list[profiles.Coding | None]:
    """How the product stores each band, by the band's own name, or the file's where it holds one band."""
    names = [b.description for b in facts.bands]
    if len(names) == 1 and profiles.coding_of(names[0], facts.dtype) is None:
        names = [profiles.product_name_band(name) or ""]
    return [profiles.coding_of(n, facts.dtype) for n in names]


def inspect(
    facts: RasterFacts,
    counts: RasterCounts,
    name: str,
    hints: SceneHints | None = None,
    *,
    scene_id: str = "",
    artifact: str = "",
) -> Inspection:
    """SceneInfo and findings. ``name`` is the file's name as given.

    Raises UserError BAD_ARGUMENT for hints that cannot be (a band that is not there, an unknown CRS).
    """
    return _Inspector(facts, counts, name, hints or SceneHints(), scene_id, artifact).run()


def inspect_file(
    path: Path | str, name: str = "", hints: SceneHints | None = None, *, scene_id: str = "", artifact: str = ""
) -> Inspection:
    """``inspect`` with statistics, of one file of a trusted origin, in this process.

    Raises UserError UNREADABLE, UNSAFE_FILE or TOO_LARGE for files that ingest would refuse.
    """
    import tempfile

    from apps.imagery.ingest_convert import convert
    from apps.imagery.ingest_facts import count_pixels
    from apps.imagery.readers import open_scene
    from apps.imagery.statistics import scene_statistics

    name = name or Path(path).name
    with tempfile.TemporaryDirectory(prefix="rsure-inspect-") as folder:
        cog = Path(folder) / "scene.tif"
        facts = convert(Path(path), cog, name, hints or SceneHints())
        counts = count_pixels(cog, valid_ranges(facts, name))
        found = inspect(facts, counts, name, hints, scene_id=scene_id, artifact=artifact)
        with open_scene(found.info, cog) as reader:
            statistics = scene_statistics(reader)
    return finish(found, statistics)


def finish(found: Inspection, statistics: RasterStatistics) -> Inspection:
    """Adds the valid share and what the statistics tell."""
    share = statistics.n_valid_px / statistics.n_px
    info = found.info.model_copy(update={"valid_share": share})
    return Inspection(info, (*found.findings, _valid_finding(statistics)), statistics)


def _valid_finding(statistics: RasterStatistics) -> Finding:
    n, total = statistics.n_valid_px, statistics.n_px
    value = f"{100 * n / total:.1f} % of {total:,} px"
    if n == 0:
        return Finding(
            key="valid", title="Valid pixels", light="block", value="none",
            text="Every pixel is nodata or fill: nothing can be measured. Check the nodata value.",
            fixes=(Fix(label="Set nodata", field="nodata"),),
        )  # fmt: skip
    if n < LOW_VALID_SHARE * total:
        return Finding(
            key="valid", title="Valid pixels", light="warn", value=value,
            text=f"Less than half is valid: {n:,} pixels. Shares and means speak of these alone.",
        )  # fmt: skip
    return Finding(
        key="valid", title="Valid pixels", light="ok", value=value, text=f"{n:,} pixels mean something."
    )


class _Inspector:
    def __init__(
        self,
        facts: RasterFacts,
        counts: RasterCounts,
        name: str,
        hints: SceneHints,
        scene_id: str,
        artifact: str,
    ):
        self.facts, self.counts, self.name, self.hints = facts, counts, name, hints
        self.scene_id, self.artifact = scene_id, artifact
        self.findings: list[Finding] = []
        self.sensor, self.sensor_source = "", "unknown"
        self.profile: profiles.Profile | None = None
        self.codings: list[profiles.Coding | None] = []

    def add(
        self,
        key: str,
        title: str,
        light: Literal["ok", "warn", "block"],
        value: str,
        text: str,
        *fixes: Fix,
        code: str = "",
    ) -> None:
        seen = light == "warn" and key in self.hints.looks_right
        if light == "warn" and not seen:
            fixes = (*fixes, Fix(label="Looks right", hints={"looks_right": [key]}))
        self.findings.append(
            Finding(
                key=key, title=title, light="ok" if seen else light, value=value, text=text, code=code, fixes=fixes
            )
        )

    def run(self) -> Inspection:
        when, when_source = self._date()
        grid = self._grid()
        bands = self._bands(when)
        bands, rules = self._fill(bands)
        gsd, gsd_source = self._gsd(grid)
        self._file()
        order = (
            "precision", "nodata", "saturation", "roles", "wavelengths", "scale", "date", "crs", "gsd", "pages", "kind", "file",
        )  # fmt: skip
        self.findings.sort(
            key=lambda f: ({"block": 0, "warn": 1, "ok": 2}[f.light], order.index(f.key))
        )
        info = SceneInfo(
            scene_id=self.scene_id,
            artifact=self.artifact,
            name=self.name[:255],
            grid=grid,
            dtype=self.facts.dtype,
            bands=tuple(bands),
            fill_rules=tuple(rules),
            gsd_m=gsd,
            gsd_source=gsd_source,
            acquired_at=when,
            acquired_source=when_source,
            sensor=self.sensor[:200],
            sensor_source=self.sensor_source,  # type: ignore[arg-type]
        )
        return Inspection(info, tuple(self.findings))

    # --- date

    def _date(self) -> tuple[datetime | None, Known]:
        ask = Fix(label="Set the date", field="acquired_at")
        if self.hints.acquired_at is not None:
            when = self.hints.acquired_at.astimezone(UTC)
            self.add("date", "Date", "ok", _day(when), "Given by a person.", ask)
            return when, "person"
        found = time_of_tags(self.facts.tags)
        day = day_of_name(self.name)
        # DateTime tells when a file was written, a name mostly when its image was taken
        if found is not None and (found[1] != "TIFFTAG_DATETIME" or day is None):
            when, tag = found
            if tag == "TIFFTAG_DATETIME":
                self.add(
                    "date", "Date", "warn", _day(when),
                    "From the file's DateTime tag: it may tell when the file was made, not when the image was taken.",
                    ask,
                )  # fmt: skip
            else:
                self.add("date", "Date", "ok", _day(when), f"From the file's {tag} tag.", ask)
            return when, "declared"
        if day is not None:
            when = datetime(day.year, day.month, day.day, tzinfo=UTC)
            self.add("date", "Date", "ok", _day(when), "From the file's name.", ask)
            return when, "name"
        self.add(
            "date", "Date", "warn", "not in the file",
            "Questions about change, season or dates stay closed until a date is set.", ask, code="NEEDS_DATES",
        )  # fmt: skip
        return None, "unknown"

    # --- grid

    def _grid(self) -> Grid:
        facts = self.facts
        width, height = facts.width, facts.height
        ask = Fix(label="Set the CRS", field="crs")
        transform = facts.transform
        crs, how = self._crs()
        if crs is None or transform is None:
            if self.hints.crs is not None and transform is None:
                raise UserError(
                    "BAD_ARGUMENT", "A CRS cannot be set here.", "The file has no grid: no pixel has a place on the ground.",
                    "Give the GSD instead, or georeference the image first.",
                )  # fmt: skip
            if transform is not None:
                self.add(
                    "crs", "CRS", "warn", "not in the file",
                    f"There is a grid (pixel {abs(transform[0]):g} × {abs(transform[4]):g} units), but not in which CRS. "
                    "The map shows bare pixels, and areas need a CRS or a GSD.", ask, code="NEEDS_CRS",
                )  # fmt: skip
            else:
                more = f" Its {facts.n_gcps} ground control points are not applied." if facts.n_gcps else ""
                self.add(
                    "crs", "CRS", "warn", "none",
                    f"A picture without a place on the ground.{more} Counts and shares work; the map shows bare pixels.",
                    code="NEEDS_CRS",
                )  # fmt: skip
            plain = Grid(width=width, height=height)
            return plain if transform is None else plain.model_copy(update={"transform": transform})
        grid = Grid(crs=crs, transform=transform, width=width, height=height)
        a, b, _, d, e, _ = transform
        try:
            if a * e - b * d == 0:
                raise ValueError("the grid is degenerate")
            west, south, east, north = grid.lonlat_bounds()
            if not (-361 <= west <= 361 and -90.5 <= south <= north <= 90.5 and abs(east) <= 361):
                raise ValueError("the corners lie beyond the globe")
            if grid.gsd_m is None or not np.isfinite(grid.gsd_m) or grid.gsd_m <= 0:
                raise ValueError("its pixels have no size on the ground")
        except (ValueError, AssertionError, ZeroDivisionError) as error:
            self.add(
                "crs", "CRS", "block", _crs_name(crs),
                f"The CRS does not fit the coordinates: {error}. The CRS or the grid is wrong.", ask, code="NEEDS_CRS",
            )  # fmt: skip
            return Grid(transform=transform, width=width, height=height)
        span = "crosses the 180° meridian; " if west > east or east > 180.001 else ""
        self.add("crs", "CRS", "ok", _crs_name(crs), f"{_crs_title(crs)}, {span}{how}.")
        return grid

    def _crs(self) -> tuple[str | None, str]:
        told = self.hints.crs
        if told is not None:
            try:
                crs = CRS.from_user_input(told)
            except CRSError as error:
                raise UserError(
                    "BAD_ARGUMENT", "This CRS is not known.", f"“{told[:80]}” is no EPSG code and no WKT.",
                    "Write it like EPSG:32630.",
                ) from error  # fmt: skip
            how = "given by a person"
        elif self.facts.crs_wkt:
            try:
                crs = CRS.from_wkt(self.facts.crs_wkt)
            except CRSError:
                return None, ""
            how = "read from the file"
        else:
            return None, ""
        if crs.is_compound:
            crs = crs.sub_crs_list[0]
        if not (crs.is_projected or crs.is_geographic):
            if told is not None:
                raise UserError(
                    "BAD_ARGUMENT", "This CRS cannot be used.", f"“{crs.name}” has no place on the globe.",
                    "Choose a projected or geographic one.",
                )  # fmt: skip
            return None, ""
        epsg = crs.to_epsg(min_confidence=70)
        return (f"EPSG:{epsg}" if epsg else crs.to_wkt()), how

    # --- GSD

    def _gsd(self, grid: Grid) -> tuple[float | None, Known]:
        ask = Fix(label="Set the GSD", field="gsd_m")
        implied = grid.gsd_m if grid.is_georeferenced else None
        told = self.hints.gsd_m
        if told is not None:
            if implied is not None and abs(told / implied - 1) > 0.02:
                self.add(
                    "gsd", "GSD", "warn", f"{told:g} m",
                    f"Given by a person, but the grid's pixels measure {implied:.4g} m on the ground: "
                    "areas follow the grid.", ask,
                )  # fmt: skip
                return implied, "derived"
            self.add("gsd", "GSD", "ok", f"{told:g} m", "Given by a person.", ask)
            return told, "person"
        if implied is None:
            self.add(
                "gsd", "GSD", "warn", "not known",
                "Counts and shares work without it. Areas and distances stay closed until the ground size of a pixel is set.",
                ask, code="NEEDS_GSD",
            )  # fmt: skip
            return None, "unknown"
        self.add("gsd", "GSD", *self._gsd_words(grid, implied))
        return implied, "derived"

    def _gsd_words(self, grid: Grid, gsd: float) -> tuple[Literal["ok", "warn"], str, str]:
        a, b, _, d, e, _ = grid.transform
        x, y = float(np.hypot(a, d)), float(np.hypot(b, e))
        shape = "square" if abs(x / y - 1) < 1e-3 else f"{x:.6g} × {y:.6g}"
        turn = "north up" if b == d == 0 and e < 0 else "south up" if b == d == 0 else "rotated"
        unit = "°" if grid.is_geographic else " units"
        if grid.area_method == "grid":
            km = f"{grid.width * x / 1000:.4g} × {grid.height * y / 1000:.4g} km"
            return "ok", f"{gsd:.4g} m", f"From the grid: pixel {shape}, {turn}. {grid.width} × {grid.height} px, {km}."
        return (
            "ok",
            f"{gsd:.4g} m",
            f"From the place on the ellipsoid: pixel {x:.6g} × {y:.6g}{unit}, {turn}. Areas are taken on the ellipsoid.",
        )

    # --- bands

    def _bands(self, when: datetime | None) -> list[Band]:
        facts, n = self.facts, len(self.facts.bands)
        if self.hints.roles and max(self.hints.roles.values()) > n:
            raise UserError(
                "BAD_ARGUMENT", "A band was named that is not there.",
                f"The highest was {max(self.hints.roles.values())}; the file has {n}.", f"Use 1 to {n}.",
            )  # fmt: skip
        told = profiles.told_profile(self.name, [f"{v}" for v in facts.tags.values()])
        names = [profiles.band_name(b.description) for b in facts.bands]
        written = [b.description for b in facts.bands]
        if n == 1 and names[0] is None:
            names = [profiles.name_band(self.name)]
            written = [profiles.product_name_band(self.name) or ""]
            by: RoleSource = "name"
        else:
            by = "profile"
        self.codings = codings_of(facts, self.name)
        profile = profiles.profile_of(names, told, written)
        if profile is not None:
            self.profile = profile
            self.sensor, self.sensor_source = profile.sensor, "profile"
        elif told is not None:
            self.sensor, self.sensor_source = told.sensor, "name"
        mod13 = profiles.mod13_role(self.name, facts.dtype, n)
        if mod13:
            self.sensor, self.sensor_source = profiles.MOD13_SENSOR, "profile"
        by_product = {c.sensor for c in self.codings if c is not None and c.sensor}
        if not self.sensor and len(by_product) == 1:
            self.sensor, self.sensor_source = by_product.pop(), "profile"
        if not self.sensor and profiles.SENTINEL1_NAME.search(self.name):
            self.sensor, self.sensor_source = "Sentinel-1 SAR", "name"
        if self.hints.sensor:
            self.sensor, self.sensor_source = self.hints.sensor, "person"
        by_person = {index: role for role, index in (self.hints.roles or {}).items()}
        bands = []
        at_odds: list[str] = []
        for i, fact in enumerate(facts.bands):
            role, source, wavelength = self._role(i, names[i], by, mod13)
            if i + 1 in by_person:
                role, source = by_person[i + 1], "person"
            elif role in (self.hints.roles or {}):
                role, source, wavelength = "unknown", "unknown", None  # the person gave that role to another band
            elif fact.wavelength_nm is not None and not profiles.is_of_wavelength(role, fact.wavelength_nm):
                at_odds.append(f"band {i + 1} is called {role} and has {fact.wavelength_nm:.0f} nm")
                role, source, wavelength = "unknown", "unknown", None
            # what a person or a file says of the values is said of what was measured, not of the codes that lie beside it
            is_measured = role not in _CODES
            bands.append(
                Band(
                    index=i + 1,
                    role=role,
                    role_source=source,
                    unit=(self.hints.unit if is_measured else None) or profiles.unit_of(fact.unit) or "DN",
                    scale=1.0 if not is_measured else self.hints.scale if self.hints.scale is not None else fact.scale,
                    offset=0.0 if not is_measured else self.hints.offset if self.hints.offset is not None else fact.offset,
                    nodata=fact.nodata,
                    valid_range=fact.valid_range,
                    description=fact.description[:200],
                    wavelength_nm=wavelength,
                    is_amplitude=self.facts.is_amplitude,
                    scheme=self._scheme(i) if role == "qa" else "",
                )
            )
        bands = self._unseen(self._scale(bands, mod13, when))
        self._roles_finding(bands)
        if at_odds:
            self.add(
                "wavelengths", "Wavelengths", "warn", "names and wavelengths contradict",
                f"By the file {'; '.join(at_odds[:6])}. One of the two is wrong, so these bands have no role until somebody says "
                "it.", Fix(label="Edit roles", field="roles"), code="NEEDS_BANDS",
            )  # fmt: skip
        return bands

    def _unseen(self, bands: list[Band]) -> list[Band]:
        """Nodata that a product has by its guide and its files do not declare: 0 where nothing was seen, beside the swath, around
        the tilted frame, in gaps (USGS, Landsat level 1; ESA, Sentinel-2 products specification, special values). Of Sentinel-2
        in files named as ESA names them, in files of one band, and where 0 would be a reflectance of -0.1; in other stacks, which
        may have been worked on, 0 is told and asked about as anywhere."""
        dtype = self.facts.dtype
        if self.hints.fill == "is_real":
            return bands
        if self._is_landsat_level1(bands) or profiles.is_older_landsat_level1(self.name, dtype):
            is_fill, is_sure = self.profile is not None, True
        else:
            is_fill = self.profile is profiles.SENTINEL2 and dtype in S2_DTYPES
            is_sure = profiles.is_sentinel2_product(self.name) or len(self._shown(bands)) == 1
        return [b.model_copy(update={"nodata": 0.0})
                if is_fill and b.nodata is None and b.role not in (*_CODES, "unknown") and (is_sure or b.offset < 0) else b
                for b in bands]  # fmt: skip

    def _is_landsat_level1(self, bands: list[Band]) -> bool:
        """Whether these are numbers of level 1 of Landsat 8 or 9 as USGS stores them: their name tells it, or a quality band
        that exists at level 1 alone lies beside them."""
        held = zip(bands, self.counts.bands, strict=False)
        high = max((c.high for b, c in held if b.role in profiles.REFLECTIVE and c.high is not None), default=None)
        if profiles.is_landsat_level1(self.name, self.facts.dtype, high):
            return True
        return (self.profile is profiles.LANDSAT8 and self.facts.dtype == "uint16"
                and any(b.scheme in profiles.LEVEL1_CODINGS for b in bands))

    def _scheme(self, i: int) -> str:
        coding = self.codings[i]
        if coding is None or coding.scheme:
            return coding.scheme if coding is not None else ""
        return profiles.bqa_scheme(self.counts.bands[i].high if i < len(self.counts.bands) else None)

    def _role(
        self, i: int, name: str | None, by: RoleSource, mod13: str | None
    ) -> tuple[str, RoleSource, float | None]:
        fact = self.facts.bands[i]
        if fact.color == "alpha":
            return "alpha", "declared", None
        if self.profile is not None and name is not None:
            role, wavelength = self.profile.bands[name]
            return role, by, wavelength
        coding = self.codings[i]
        if coding is not None and coding.role:
            return coding.role, "profile" if coding.role != "unknown" else "unknown", coding.wavelength_nm
        word = profiles.word_role(fact.description)
        if word is not None:
            return word, "declared", None
        if mod13:
            return mod13, "profile", None
        if fact.color == "palette":
            return "class", "declared", None
        colors = [b.color for b in self.facts.bands]
        if fact.color in ("red", "green", "blue") and colors.count(fact.color) == 1 and set(colors) >= {"red", "green", "blue"}:
            return fact.color, "declared", None
        if fact.color == "gray" and self.facts.is_picture:
            return "gray", "declared", None
        if len(colors) == 1:
            word = profiles.index_in_name(self.name)
            if word is not None:
                return word, "name", None
        return "unknown", "unknown", None

    def _scale(self, bands: list[Band], mod13: str | None, when: datetime | None) -> list[Band]:
        hints, facts, counts = self.hints, self.facts, self.counts
        ask = Fix(label="Set scale and offset", field="scale")
        if mod13:
            bands = [
                b.model_copy(update={"valid_range": b.valid_range or profiles.MOD13_RANGE})
                for b in bands
            ]
        if hints.scale is not None or hints.offset is not None:
            shown = next((b for b in bands if b.role not in _CODES), bands[0])
            self.add("scale", "Scale", "ok", _scale_name(shown), "Given by a person.", ask)
            return bands
        if any(b.scale != 1 or b.offset != 0 for b in facts.bands):
            return self._declared_scale(bands, mod13, when, ask)
        if mod13:
            bands = [b.model_copy(update={"scale": profiles.MOD13_SCALE, "unit": "1"}) for b in bands]
            self.add("scale", "Scale", "ok", "× 0.0001", "Values are stored × 10,000, as the MOD13 product does.", ask)
            return bands
        if any(c is not None and _is_physical(c) for c in self.codings):
            return self._product_scale(bands, ask)
        bands = [_without_fill(b, c) for b, c in zip(bands, self.codings, strict=True)]
        high = max((c.high for c in counts.bands if c.high is not None), default=0.0)
        low = min((c.low for c in counts.bands if c.low is not None), default=0.0)
        if {b.role for b in bands} & {"vv", "vh", "hh", "hv"} and facts.dtype.startswith("float"):
            # decibels of backscatter are negative almost everywhere, power never is
            if low < 0 and high < 60:
                bands = [b.model_copy(update={"unit": "dB"}) if b.unit == "DN" else b for b in bands]
                self.add("scale", "Scale", "ok", f"dB, {low:.4g} to {high:.4g}",
                         "Negative values: backscatter in decibels. Ratios are taken of linear values only.", ask)  # fmt: skip
            else:
                span = f"{facts.dtype}, {low:.4g} to {high:.4g}"
                if self.hints.unit == "amplitude":
                    self.add("scale", "Scale", "ok", span, "Amplitudes, as a person said; power is their square.", ask)
                elif facts.is_amplitude:
                    self.add("scale", "Scale", "warn", span,
                             "Amplitude of complex samples, not calibrated: power and decibels are made of it on request, "
                             "and are no backscatter coefficient. Figures are in the file's own units.", ask)  # fmt: skip
                else:
                    self.add("scale", "Scale", "warn", span,
                             "No value is negative: power or amplitude, not decibels. Which of the two is not told; figures are "
                             "in the file's own units.",
                             Fix(label="They are amplitudes", hints={"unit": "amplitude"}), ask)  # fmt: skip
            return bands
        # a low that may be fill says nothing of the values
        is_fill = any(c.value == low for c in counts.fill)
        span = f"{facts.dtype}, up to {high:,.6g}" if is_fill else f"{facts.dtype}, {low:,.6g} to {high:,.6g}"
        if self.profile is profiles.LANDSAT8 and self._is_landsat_level1(bands) \
                and any(b.role in profiles.REFLECTIVE for b in bands):
            shift = {"scale": profiles.LANDSAT_L1_SCALE, "offset": profiles.LANDSAT_L1_OFFSET, "unit": profiles.LANDSAT_L1_UNIT}
            bands = [b.model_copy(update=shift) if b.role in profiles.REFLECTIVE else b for b in bands]
            self.add(
                "scale", "Scale", "warn", "× 2e-05 − 0.1",
                "Level 1 of Landsat 8 and 9: reflectance at the top of the atmosphere, before it is divided by the sine of the "
                "sun's elevation. Ratios such as NDVI are right so; others need the elevation: scale 0.00002 and offset −0.1, "
                "each divided by that sine, unit reflectance.",
                Fix(label="Keep as stored", hints={"scale": 1.0, "offset": 0.0}), ask,
            )  # fmt: skip
            return bands
        is_wide = facts.dtype not in ("uint8", "int8")
        if self.profile is profiles.SENTINEL2 and facts.dtype in S2_DTYPES and high <= 65535:
            with_offset = {"scale": S2_SCALE, "offset": S2_OFFSET * S2_SCALE, "unit": "reflectance"}
            without = Fix(label="No offset", hints={"scale": S2_SCALE, "offset": 0.0, "unit": "reflectance"})
            baseline = profiles.sentinel2_baseline(self.name, facts.tags)
            if baseline is not None:
                has_offset = baseline >= S2_OFFSET_BASELINE
                bands = [_reflective(b, offset=S2_OFFSET * S2_SCALE if has_offset else 0.0) for b in bands]
                self.add(
                    "scale", "Scale", "ok", "(value − 1000) ÷ 10,000" if has_offset else "÷ 10,000",
                    f"Reflectance × 10,000, as Sentinel-2 products of processing baseline {baseline:05.2f} store it, "
                    f"{'with' if has_offset else 'without'} an offset of −1000.", without if has_offset else
                    Fix(label="Take off the offset of 1000", hints=with_offset), ask,
                )  # fmt: skip
            elif when is not None and when >= S2_OFFSET_SINCE:
                bands = [_reflective(b, offset=S2_OFFSET * S2_SCALE) for b in bands]
                self.add(
                    "scale", "Scale", "warn", "(value − 1000) ÷ 10,000",
                    "Sentinel-2 products since January 2022 carry an offset of −1000; older ones do not.", without, ask,
                )  # fmt: skip
            elif when is not None:
                bands = [_reflective(b) for b in bands]
                fill = next((c for c in counts.fill if c.value == low), None)
                least = low if fill is None or fill.next_high is None else fill.next_high
                # of a scene that is not shifted, water and shadow lie far below
                looks_shifted = least >= -S2_OFFSET
                self.add(
                    "scale", "Scale", "warn" if looks_shifted else "ok", "÷ 10,000",
                    "Reflectance × 10,000, as Sentinel-2 products store it." + (
                        f" No value is below {least:g}: older images that were processed anew since January 2022 (baseline 04.00 "
                        "and later) carry an offset of −1000, and the file does not tell its baseline." if looks_shifted else ""),
                    *((Fix(label="Take off the offset of 1000", hints=with_offset),) if looks_shifted else ()), ask,
                )  # fmt: skip
            else:
                bands = [_reflective(b) for b in bands]
                self.add(
                    "scale", "Scale", "warn", "÷ 10,000",
                    "Reflectance × 10,000, as Sentinel-2 products store it. Without a date nobody knows whether the offset "
                    "of −1000 (since January 2022) is in: it would change indices.",
                    Fix(label="Take off the offset of 1000", hints=with_offset), ask,
                )  # fmt: skip
            return bands
        if profiles.is_older_landsat_level1(self.name, facts.dtype) and any(b.role in profiles.REFLECTIVE for b in bands):
            self.add(
                "scale", "Scale", "warn", span,
                "Level 1 of Landsat 4 to 7: each band has a gain and an offset of its own (in its MTL file), so an index of "
                "these numbers is not that of reflectance and does not compare with other dates or sensors.", ask,
            )  # fmt: skip
            return bands
        if is_wide and self._looks_like_reflectance(bands, low, high):
            self.add(
                "scale", "Scale", "warn", span,
                "Looks like reflectance × 10,000. Ratios such as NDVI do not change; thresholds on single bands do.",
                Fix(label="Divide by 10,000", hints={"scale": S2_SCALE, "offset": 0.0, "unit": "reflectance"}),
                Fix(label="Keep as it is", hints={"scale": 1.0, "offset": 0.0}), ask,
            )  # fmt: skip
        else:
            self.add("scale", "Scale", "ok", span, "Values are used as stored.", ask)
        return bands

    def _declared_scale(self, bands: list[Band], mod13: str | None, when: datetime | None, ask: Fix) -> list[Band]:
        """The scale that the file itself declares. What the product's guide says otherwise is told; a divisor that stands where a
        factor belongs, and a band beside the others that declares nothing, get the guide's."""
        out, doubts = [], []
        for band, coding in zip(bands, self.codings, strict=True):
            scale, offset, unit = (coding.scale, coding.offset, coding.unit) if coding is not None else (1.0, 0.0, "DN")
            if mod13:
                scale, offset, unit = profiles.MOD13_SCALE, 0.0, "1"
            named = band.role if band.role != "unknown" else f"band {band.index}"
            is_bare = (band.scale, band.offset) == (1, 0)
            if (scale, offset) != (1, 0) and (is_bare or math.isclose(band.scale * scale, 1, rel_tol=1e-6)):
                if not is_bare:
                    doubts.append(f"The file declares × {band.scale:g}, but by that the product's values are divided: they are.")
                band = band.model_copy(update={
                    "scale": scale, "offset": offset, "unit": unit if band.unit == "DN" else band.unit})  # fmt: skip
            elif (scale, offset) != (1, 0) and not _is_coded_so(band, scale, offset):
                doubts.append(f"The product's guide has × {scale:g} {'+' if offset >= 0 else '−'} {abs(offset):g} for {named}, "
                              f"the file declares {_scale_name(band)}.")  # fmt: skip
            out.append(band.model_copy(update={"unit": unit}) if mod13 and band.unit == "DN" else _declared(band, coding))
        shift: Fix | None = None
        if self.profile is profiles.SENTINEL2 and self.facts.dtype in S2_DTYPES:
            out = [b.model_copy(update={"unit": "reflectance"}) if b.unit == "DN" and b.scale == S2_SCALE
                   and b.role not in (*_CODES, "unknown") else b for b in out]
            shift = self._undeclared_offset(out, when, doubts)
        shown = next((b for b in out if b.role not in _CODES), out[0])
        said = "Declared in the file; applied once, on reading."
        self.add("scale", "Scale", "warn" if doubts else "ok", _scale_name(shown),
                 " ".join([said, *dict.fromkeys(doubts)])[:600], *([shift] if shift else []), ask)  # fmt: skip
        return out

    def _undeclared_offset(self, bands: list[Band], when: datetime | None, doubts: list[str]) -> Fix | None:
        """What settles whether Sentinel-2's offset of −1000 is in values whose file declares a scale that says otherwise."""
        baseline = profiles.sentinel2_baseline(self.name, self.facts.tags)
        has_offset = baseline >= S2_OFFSET_BASELINE if baseline is not None else when is not None and when >= S2_OFFSET_SINCE
        held = {b.offset for b in bands if b.unit == "reflectance" and b.scale == S2_SCALE}
        if has_offset and held == {0.0}:
            doubts.append("Products of processing baseline 04.00 and later carry an offset of −1000, which the file does not "
                          "declare: indices are wrong if its maker did not take it off.")  # fmt: skip
            taken = {"scale": S2_SCALE, "offset": S2_OFFSET * S2_SCALE, "unit": "reflectance"}
            return Fix(label="Take off the offset of 1000", hints=taken)
        if baseline is not None and not has_offset and held and 0.0 not in held:
            doubts.append(f"Products of processing baseline {baseline:05.2f} carry no offset, but the file declares one.")
            return Fix(label="No offset", hints={"scale": S2_SCALE, "offset": 0.0, "unit": "reflectance"})
        return None

    def _product_scale(self, bands: list[Band], ask: Fix) -> list[Band]:
        """Each band by its product's coding; bands without one, and quality bands, stay as stored."""
        out, told = [], {}
        for band, coding in zip(bands, self.codings, strict=True):
            band = _without_fill(band, coding)
            if coding is not None and _is_physical(coding):
                told[coding.product] = f"× {coding.scale:g}" + (
                    f" {'+' if coding.offset > 0 else '−'} {abs(coding.offset):g}" if coding.offset else ""
                ) + f", {coding.unit} ({coding.source})"
                band = band.model_copy(update={
                    "scale": coding.scale, "offset": coding.offset, "unit": self.hints.unit or coding.unit,
                    "valid_range": band.valid_range or coding.valid_range,
                })  # fmt: skip
            out.append(band)
        self.add(
            "scale", "Scale", "ok", "; ".join(v.split(" (")[0] for v in told.values()),
            "By product: " + "; ".join(f"{k} {v}" for k, v in told.items()) + ". Applied once, on reading.",
            Fix(label="Values are physical already", hints={"scale": 1.0, "offset": 0.0}), ask,
        )  # fmt: skip
        return out

    @staticmethod
    def _looks_like_reflectance(bands: list[Band], low: float, high: float) -> bool:
        shown = [b for b in bands if b.role != "alpha"]
        indexed = {"ndvi", "evi", "index", "class", "mask", "elevation", "vv", "vh", "hh", "hv", "lst"}
        return len(shown) >= 3 and low >= -2000 and 2500 < high <= 20000 and not any(b.role in indexed for b in shown)

    def _roles_finding(self, bands: list[Band]) -> None:
        ask = Fix(label="Edit roles", field="roles")
        shown = [b for b in bands if b.role != "alpha"]
        open_ = [b for b in shown if b.role == "unknown"]
        sources = {b.role_source for b in shown if b.role != "unknown"}
        how = {
            "person": "given by a person", "profile": f"by the band names of {self.sensor or 'the product'}",
            "name": f"by the file's name ({self.sensor})" if self.sensor else "by the file's name",
            "declared": "declared in the file",
        }  # fmt: skip
        listed = ", ".join(b.role for b in shown[:13]) + (" …" if len(shown) > 13 else "")
        if not open_:
            self.add(
                "roles", "Band roles", "ok", listed, _begun(f"{' and '.join(how[s] for s in sorted(sources))}."), ask
            )
            return
        if len(shown) == 1:
            self.add(
                "roles", "Band role", "warn", "not known",
                "The file does not say what its one band is. Statistics work; name it for questions about an index or class.",
                ask, code="NEEDS_BANDS",
            )  # fmt: skip
            return
        rest = "none of its bands" if len(open_) == len(shown) else f"bands {', '.join(str(b.index) for b in open_[:8])} not"
        named = [b.description for b in open_ if b.description]
        seen = f" It calls them {', '.join(named[:6])}: several sensors use these names." if named else ""
        self.add(
            "roles", "Band roles", "warn", "not known" if len(open_) == len(shown) else listed,
            f"The file names {rest}.{seen} Questions about indices stay closed until somebody says which is red, "
            "near infrared and so on; nothing is guessed by position.", ask, code="NEEDS_BANDS",
        )  # fmt: skip

    # --- nodata and fill

    def _fill(self, bands: list[Band]) -> tuple[list[Band], list[FillRule]]:
        hints, counts = self.hints, self.counts
        n = counts.n_px
        ask = Fix(label="Set nodata", field="nodata")
        real = Fix(label="They are real values", hints={"fill": "is_real", "fill_value": None})
        rules: list[FillRule] = []
        words: list[str] = []
        own: tuple[Fix, ...] = ()
        if hints.nodata is not None:
            bands = [b if b.role == "alpha" else b.model_copy(update={"nodata": hints.nodata}) for b in bands]
            words.append(f"nodata {hints.nodata:g} given by a person")
        elif hints.nodata_is_real:
            bands = [b.model_copy(update={"nodata": None}) for b in bands]
            words.append("declared nodata taken as real values by a person")
        else:
            of_file = {f.nodata for f in self.facts.bands if f.nodata is not None}
            of_bands = {b.nodata for b in bands if b.nodata is not None}
            if declared := sorted(of_bands & of_file, key=str):
                hit = max((c.n_nodata for c in counts.bands), default=0)
                words.append(f"{', '.join(f'{v:g}' for v in declared)} declared" + (f", {share_text(hit, n)}" if hit else ""))
            for value in sorted(of_bands - of_file, key=str):
                # what stands in all bands was counted, what stands in one of several was not
                seen = next((c.n_px for c in counts.fill if c.value == value), 0) if len(bands) == 1 else 0
                words.append(f"{value:g} is nodata by the product's guide" + (f", {share_text(seen, n)}" if seen else ""))
                own = (Fix(label="They are real values", hints={"nodata_is_real": True}),)
        if counts.n_masked:
            words.append(f"mask or alpha of the file hides {share_text(counts.n_masked, n)}")
        not_finite = max((c.n_not_finite for c in counts.bands), default=0)
        if not_finite:
            words.append(f"{share_text(not_finite, n)} are not numbers")
        ranged = [b for b in bands if b.valid_range is not None]
        if ranged:
            outside = max((c.n_outside_range for c in counts.bands), default=0)
            low, high = ranged[0].valid_range or (0.0, 0.0)
            rules.append(FillRule(kind="outside_range", source="profile", share=outside / n if n else None))
            words.append(f"values outside {low:g} to {high:g} are fill: {share_text(outside, n)}")
        for i, band in enumerate(bands):
            held = counts.bands[i] if i < len(counts.bands) else None
            if (
                band.nodata == 255 and self.facts.dtype == "uint8" and band.role in ("red", "green", "blue", "gray")
                and held and held.n_nodata and hints.nodata is None
            ):  # fmt: skip
                most = max(c.n_nodata for c in counts.bands)
                self.add(
                    "saturation", "255 = nodata?", "warn", f"up to {share_text(most, n)} a band",
                    "255 is declared as nodata, but bright pixels of an 8-bit picture reach 255 too: both are left out.",
                    Fix(label="They are real values", hints={"nodata_is_real": True}),
                )  # fmt: skip
                break
        said = "; ".join(words)
        if hints.fill == "is_fill" and hints.fill_value is not None:
            if _is_missing(hints.fill_value):
                bands = _without(bands, hints.fill_value)
            told = next((c.n_px for c in counts.fill if c.value == hints.fill_value), None)
            rules.append(
                FillRule(
                    kind="all_bands_equal", value=hints.fill_value, source="person", share=None if told is None else told / n
                )
            )
            more = self._more_missing(bands, hints.fill_value)
            rules += more
            size = share_text(told, n) if told is not None else "pixels"
            also = f" {_begun(said)}." if said else ""
            self.add(
                "nodata", "Nodata", "ok", f"{hints.fill_value:g} in all bands",
                f"{size} with {hints.fill_value:g} in every band are fill, as a person said.{_told_more(more)}{also}", ask, real,
            )  # fmt: skip
            return bands, rules
        if hints.fill == "is_real":
            also = f" {_begun(said)}." if said else ""
            self.add("nodata", "Nodata", "ok", said or "none", f"No other fill, as a person said.{also}", ask)
            return bands, rules
        suspect = self._suspect(bands)
        if suspect is None:
            possible = self._possible(bands)
            if possible is not None:
                self.add(
                    "nodata", "Nodata", "warn", said or "none declared",
                    f"{share_text(possible.n_px, n)} are {possible.value:g}, far from the other values and along the edge. "
                    "They count as real values unless you say that they are fill.",
                    Fix(label=f"Set nodata = {possible.value:g}", hints={"fill": "is_fill", "fill_value": possible.value}),
                    ask,
                )  # fmt: skip
            else:
                self.add("nodata", "Nodata", "ok", said or "none", "Nothing looks like undeclared fill." if not said
                         else f"{_begun(said)}.", *own, ask)  # fmt: skip
            return bands, rules
        rules.append(
            FillRule(kind="all_bands_equal", value=suspect.value, source="suspected", share=suspect.n_px / n)
        )
        more = self._more_missing(bands, suspect.value)
        rules += more
        count = "every band" if len(bands) > 1 else "the band"
        masked = suspect.n_px
        if _is_missing(suspect.value):
            # no sensor measures it: a band that holds it is empty there, whatever the others hold
            bands = _without(bands, suspect.value)
            if suspect.n_any_px > suspect.n_px:
                masked, count = suspect.n_any_px, "a band or more"
        effect = self._effect(suspect)
        self.add(
            "nodata", "Nodata", "block", said or "none declared",
            f"{share_text(masked, n)} are {suspect.value:g} in {count} and are left out until you decide."
            f"{_told_more(more)}{effect}",
            Fix(
                label=f"Set nodata = {suspect.value:g}", hints={"fill": "is_fill", "fill_value": suspect.value},
                is_primary=True,
            ),
            real, ask,
        )  # fmt: skip
        return bands, rules

    def _effect(self, suspect: FillCandidate) -> str:
        n, share = self.counts.n_px, suspect.n_px / self.counts.n_px
        if suspect.value != 0 or share < 0.01 or suspect.n_px == n:
            return ""
        return f" If they counted, every mean would read {100 * (1 - share):.0f} % of what it is."

    def _shown(self, bands: list[Band]) -> list[Band]:
        return [b for b in bands if b.role != "alpha"]

    def _suspect(self, bands: list[Band]) -> FillCandidate | None:
        """Undeclared fill that is applied until somebody decides, or None."""
        shown = self._shown(bands)
        declared = {b.nodata for b in shown if b.nodata is not None}
        best: FillCandidate | None = None
        for found in self.counts.fill:
            share = found.n_px / self.counts.n_px
            size = max(found.n_px, found.n_any_px)
            if found.value in declared or found.n_px == self.counts.n_px:
                continue
            if best is not None and max(best.n_px, best.n_any_px) >= size:
                continue
            if _is_missing(found.value):
                if self._stands_apart(found):
                    best = found
            elif len(shown) == 1 or self.facts.has_palette:
                continue  # one band of zeros may be water, background or a class
            elif self.facts.dtype == "uint8" and len(shown) <= 3:
                on_edge = (found.border_share or 0) >= COLOR_FILL_BORDER
                if found.value in (0.0, 255.0) and share >= COLOR_FILL_SHARE and on_edge:
                    best = found
            elif found.value == 0.0 and share >= FILL_SHARE:
                best = found
            elif found.value == 65535.0 and share >= FILL_SHARE and (found.border_share or 0) >= COLOR_FILL_BORDER:
                best = found  # saturation looks the same, but not along the edge
        return best

    def _possible(self, bands: list[Band]) -> FillCandidate | None:
        """A value of a single band that may be fill; told, not applied."""
        shown = self._shown(bands)
        if len(shown) != 1 or shown[0].role in ("class", "mask", "qa") or self.facts.has_palette:
            return None
        if shown[0].nodata is not None or self.facts.has_mask:
            return None
        for found in self.counts.fill:
            share = found.n_px / self.counts.n_px
            is_common = found.value in (0.0, 65535.0, 32767.0) and 0.005 <= share < 1
            if is_common and (found.border_share or 0) >= 0.5 and self._stands_apart(found):
                return found
        return None

    def _stands_apart(self, found: FillCandidate) -> bool:
        """Whether the nearest other values lie far off, against the span of the rest."""
        low = min((c.low for c in self.counts.bands if c.low is not None), default=0.0)
        high = max((c.high for c in self.counts.bands if c.high is not None), default=0.0)
        # a file may hold several such values; they are no neighbours of each other, and the span is that of the rest
        others = {c.value: c for c in self.counts.fill if _is_missing(c.value) or c.value == found.value}

        def past(value: float | None, side: Literal["next_low", "next_high"]) -> float | None:
            seen = set()
            while value is not None and value in others and value not in seen:
                seen.add(value)
                value = getattr(others[value], side)
            return value

        rest_low, rest_high = past(low, "next_high"), past(high, "next_low")
        span = max((high if rest_high is None else rest_high) - (low if rest_low is None else rest_low), 1e-12)
        if self.facts.dtype[0] in "iu" and span < CLASS_SPAN:
            return False
        ends = (past(found.next_low, "next_low"), past(found.next_high, "next_high"))
        near = [abs(v - found.value) for v in ends if v is not None]
        return bool(near) and min(near) > 0.05 * span

    def _more_missing(self, bands: list[Band], chosen: float) -> list[FillRule]:
        """Rules of the other values for "nothing here" that the file holds beside the chosen one."""
        declared = {b.nodata for b in bands if b.nodata is not None} | {chosen}
        return [FillRule(kind="all_bands_equal", value=c.value, source="suspected", share=c.n_px / self.counts.n_px)
                for c in self.counts.fill if _is_missing(c.value) and c.value not in declared and 0 < c.n_px < self.counts.n_px
                and self._stands_apart(c)]  # fmt: skip

    # --- file

    def _file(self) -> None:
        facts = self.facts
        ends = [v for c in self.counts.bands for v in (c.low, c.high) if v is not None]
        if facts.dtype in ("int64", "uint64") and any(abs(v) > EXACT_WHOLE for v in ends):
            self.add(
                "precision", "Numbers", "block", f"up to {max(map(abs, ends)):.4g}",
                f"Whole numbers beyond {EXACT_WHOLE:,.0f} are not told apart here: differences and deviations would be wrong. "
                "Subtract a constant, or store them in another unit, and upload that.",
            )  # fmt: skip
        if facts.has_palette:
            self.add(
                "kind", "Kind", "ok", "palette", "Values are classes with colours of their own; they are not averaged."
            )
        changes = f" {' '.join(facts.changes)}" if facts.changes else ""
        if facts.n_images > 1:
            self.add(
                "pages", "Images", "warn", f"1 of {facts.n_images}",
                f"The file holds {facts.n_images} images; only the first is read. Save each as a file of its own to use "
                "the others.",
            )  # fmt: skip
        self.add(
            "file", "File", "ok", f"{facts.format}, {facts.n_bytes:,} bytes",
            f"{facts.width:,} × {facts.height:,} px, {len(facts.bands)} bands of {facts.dtype}. "
            f"Opened alone, in a limited process. Stored as COG, overviews made.{changes}",
        )  # fmt: skip


def _without_fill(band: Band, coding: profiles.Coding | None) -> Band:
    """The band with its product's fill value as nodata, where the file declares none."""
    if coding is None or coding.nodata is None or band.nodata is not None:
        return band
    return band.model_copy(update={"nodata": coding.nodata})


def _begun(text: str) -> str:
    """With a capital first letter; names within keep theirs (Landsat 8/9 OLI-TIRS)."""
    return text[:1].upper() + text[1:]


def _told_more(rules: list[FillRule]) -> str:
    values = ", ".join(f"{r.value:g}" for r in rules if r.value is not None)
    return f" So {'is' if len(rules) == 1 else 'are'} {values}, which no sensor measures." if values else ""


def _is_missing(value: float) -> bool:
    """Whether programs write the value for "nothing here" and no sensor measures it."""
    return value in MISSING or value < -3e38


def _without(bands: list[Band], value: float) -> list[Band]:
    """The bands with ``value`` as nodata of each that declares none of its own."""
    return [b if b.role == "alpha" or b.nodata is not None else b.model_copy(update={"nodata": value}) for b in bands]


def _is_physical(coding: profiles.Coding) -> bool:
    """Whether stored values so coded are something else than numbers as they stand."""
    return (coding.scale, coding.offset) != (1, 0) or coding.unit != "DN"


def _is_coded_so(band: Band, scale: float, offset: float) -> bool:
    return math.isclose(band.scale, scale, rel_tol=1e-4) and math.isclose(band.offset, offset, rel_tol=1e-4, abs_tol=1e-9)


def _declared(band: Band, coding: profiles.Coding | None) -> Band:
    """A band whose scale the file declares, with the unit and fill of its product where that codes values just so."""
    if coding is None or not _is_coded_so(band, coding.scale, coding.offset):
        return band
    band = _without_fill(band, coding)
    return band.model_copy(update={"unit": coding.unit if band.unit == "DN" else band.unit,
                                   "valid_range": band.valid_range or coding.valid_range})


def _reflective(band: Band, offset: float = 0.0) -> Band:
    # aerosol, water vapour, probabilities and angles lie beside the reflectances in many stacks
    if band.role in ("qa", "unknown", "alpha", "class", "mask"):
        return band
    return band.model_copy(update={"scale": S2_SCALE, "offset": offset, "unit": "reflectance"})


def _scale_name(band: Band) -> str:
    shift = f" {'+' if band.offset > 0 else '−'} {abs(band.offset):g}" if band.offset else ""
    return f"× {band.scale:g}{shift}, {band.unit}"


def _day(when: datetime) -> str:
    return when.strftime("%Y-%m-%d") if (when.hour, when.minute) == (0, 0) else when.strftime("%Y-%m-%d %H:%M UTC")


def _crs_name(crs: str) -> str:
    return crs if crs.startswith("EPSG:") else CRS.from_user_input(crs).name[:60]


def _crs_title(crs: str) -> str:
    return str(CRS.from_user_input(crs).name)
