"""Where and when a scene was taken: its date, grid, CRS and GSD, each with where it is known from. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import numpy as np
from pyproj import CRS
from pyproj.exceptions import CRSError

from apps.core.errors import UserError
from apps.core.geo.grid import Grid
from apps.core.geo.scene import Known
from apps.imagery.dates import day_of_name, time_of_tags
from apps.imagery.findings import Check, Fix


def date_of(check: Check) -> tuple[datetime | None, Known]:
    """When the image was taken, and where that is known from."""
    ask = Fix(label="Set the date", field="acquired_at")
    if check.hints.acquired_at is not None:
        when = check.hints.acquired_at.astimezone(UTC)
        check.add("date", "Date", "ok", _day(when), "Given by a person.", ask)
        return when, "person"
    found = time_of_tags(check.facts.tags)
    day = day_of_name(check.name)
    # DateTime tells when a file was written, a name mostly when its image was taken
    if found is not None and (found[1] != "TIFFTAG_DATETIME" or day is None):
        when, tag = found
        if tag == "TIFFTAG_DATETIME":
            check.add(
                "date", "Date", "warn", _day(when),
                "From the file's DateTime tag: it may tell when the file was made, not when the image was taken.",
                ask,
            )  # fmt: skip
        else:
            check.add("date", "Date", "ok", _day(when), f"From the file's {tag} tag.", ask)
        return when, "declared"
    if day is not None:
        when = datetime(day.year, day.month, day.day, tzinfo=UTC)
        check.add("date", "Date", "ok", _day(when), "From the file's name.", ask)
        return when, "name"
    check.add(
        "date", "Date", "warn", "not in the file",
        "Questions about change, season or dates stay closed until a date is set.", ask, code="NEEDS_DATES",
    )  # fmt: skip
    return None, "unknown"


def grid_of(check: Check) -> Grid:
    """The grid of the scene; without a CRS where the file's does not fit its coordinates."""
    facts = check.facts
    width, height = facts.width, facts.height
    ask = Fix(label="Set the CRS", field="crs")
    transform = facts.transform
    crs, how = _crs(check)
    if crs is None or transform is None:
        if check.hints.crs is not None and transform is None:
            raise UserError(
                "BAD_ARGUMENT", "A CRS cannot be set here.", "The file has no grid: no pixel has a place on the ground.",
                "Give the GSD instead, or georeference the image first.",
            )  # fmt: skip
        if transform is not None:
            check.add(
                "crs", "CRS", "warn", "not in the file",
                f"There is a grid (pixel {abs(transform[0]):g} × {abs(transform[4]):g} units), but not in which CRS. "
                "The map shows bare pixels, and areas need a CRS or a GSD.", ask, code="NEEDS_CRS",
            )  # fmt: skip
        else:
            more = f" Its {facts.n_gcps} ground control points are not applied." if facts.n_gcps else ""
            check.add(
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
        check.add(
            "crs", "CRS", "block", _crs_name(crs),
            f"The CRS does not fit the coordinates: {error}. The CRS or the grid is wrong.", ask, code="NEEDS_CRS",
        )  # fmt: skip
        return Grid(transform=transform, width=width, height=height)
    span = "crosses the 180° meridian; " if west > east or east > 180.001 else ""
    check.add("crs", "CRS", "ok", _crs_name(crs), f"{_crs_title(crs)}, {span}{how}.")
    return grid


def _crs(check: Check) -> tuple[str | None, str]:
    told = check.hints.crs
    if told is not None:
        try:
            crs = CRS.from_user_input(told)
        except CRSError as error:
            raise UserError(
                "BAD_ARGUMENT", "This CRS is not known.", f"“{told[:80]}” is no EPSG code and no WKT.",
                "Write it like EPSG:32630.",
            ) from error  # fmt: skip
        how = "given by a person"
    elif check.facts.crs_wkt:
        try:
            crs = CRS.from_wkt(check.facts.crs_wkt)
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


def gsd_of(check: Check, grid: Grid) -> tuple[float | None, Known]:
    """Ground size of a pixel in metres, and where that is known from."""
    ask = Fix(label="Set the GSD", field="gsd_m")
    implied = grid.gsd_m if grid.is_georeferenced else None
    told = check.hints.gsd_m
    if told is not None:
        if implied is not None and abs(told / implied - 1) > 0.02:
            check.add(
                "gsd", "GSD", "warn", f"{told:g} m",
                f"Given by a person, but the grid's pixels measure {implied:.4g} m on the ground: "
                "areas follow the grid.", ask,
            )  # fmt: skip
            return implied, "derived"
        check.add("gsd", "GSD", "ok", f"{told:g} m", "Given by a person.", ask)
        return told, "person"
    if implied is None:
        check.add(
            "gsd", "GSD", "warn", "not known",
            "Counts and shares work without it. Areas and distances stay closed until the ground size of a pixel is set.",
            ask, code="NEEDS_GSD",
        )  # fmt: skip
        return None, "unknown"
    check.add("gsd", "GSD", *_gsd_words(check, grid, implied))
    return implied, "derived"


def _gsd_words(check: Check, grid: Grid, gsd: float) -> tuple[Literal["ok", "warn"], str, str]:
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


def _day(when: datetime) -> str:
    return when.strftime("%Y-%m-%d") if (when.hour, when.minute) == (0, 0) else when.strftime("%Y-%m-%d %H:%M UTC")


def _crs_name(crs: str) -> str:
    return crs if crs.startswith("EPSG:") else CRS.from_user_input(crs).name[:60]


def _crs_title(crs: str) -> str:
    return str(CRS.from_user_input(crs).name)
