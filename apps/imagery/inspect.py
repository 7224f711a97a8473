"""From what a file says, what its pixels count and what a person said, to a SceneInfo and its findings. Pure.

``inspect_file(path, name, hints)`` does all of it for one trusted file; ingest does the same in its own
process. What cannot be known stays unknown and is asked for: no band gets a role by its position, no date a
guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import RasterCounts, RasterFacts, RasterStatistics
from apps.imagery.findings import Check, Finding, Fix
from apps.imagery.hints import SceneHints
from apps.imagery.inspect_bands import bands_of, valid_ranges
from apps.imagery.inspect_fill import filled
from apps.imagery.inspect_place import date_of, grid_of, gsd_of

# Figures are made in float64, which tells whole numbers apart up to here.
EXACT_WHOLE = 2.0**53
# Below this share of valid pixels a scene is called mostly empty.
LOW_VALID_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Inspection:
    info: SceneInfo
    findings: tuple[Finding, ...]
    statistics: RasterStatistics | None = None


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
    check = Check(facts, counts, name, hints or SceneHints(), scene_id, artifact)
    when, when_source = date_of(check)
    grid = grid_of(check)
    bands = bands_of(check, when)
    bands, rules = filled(check, bands)
    gsd, gsd_source = gsd_of(check, grid)
    _file(check)
    order = (
        "precision", "nodata", "saturation", "roles", "wavelengths", "scale", "date", "crs", "gsd", "pages", "kind", "file",
    )  # fmt: skip
    check.findings.sort(key=lambda f: ({"block": 0, "warn": 1, "ok": 2}[f.light], order.index(f.key)))
    info = SceneInfo(
        scene_id=check.scene_id,
        artifact=check.artifact,
        name=check.name[:255],
        grid=grid,
        dtype=check.facts.dtype,
        bands=tuple(bands),
        fill_rules=tuple(rules),
        gsd_m=gsd,
        gsd_source=gsd_source,
        acquired_at=when,
        acquired_source=when_source,
        sensor=check.sensor[:200],
        sensor_source=check.sensor_source,  # type: ignore[arg-type]
    )
    return Inspection(info, tuple(check.findings))


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
    return Finding(key="valid", title="Valid pixels", light="ok", value=value, text=f"{n:,} pixels mean something.")


def _file(check: Check) -> None:
    facts = check.facts
    ends = [v for c in check.counts.bands for v in (c.low, c.high) if v is not None]
    if facts.dtype in ("int64", "uint64") and any(abs(v) > EXACT_WHOLE for v in ends):
        check.add(
            "precision", "Numbers", "block", f"up to {max(map(abs, ends)):.4g}",
            f"Whole numbers beyond {EXACT_WHOLE:,.0f} are not told apart here: differences and deviations would be wrong. "
            "Subtract a constant, or store them in another unit, and upload that.",
        )  # fmt: skip
    if facts.has_palette:
        check.add("kind", "Kind", "ok", "palette", "Values are classes with colours of their own; they are not averaged.")
    changes = f" {' '.join(facts.changes)}" if facts.changes else ""
    if facts.n_images > 1:
        check.add(
            "pages", "Images", "warn", f"1 of {facts.n_images}",
            f"The file holds {facts.n_images} images; only the first is read. Save each as a file of its own to use "
            "the others.",
        )  # fmt: skip
    check.add(
        "file", "File", "ok", f"{facts.format}, {facts.n_bytes:,} bytes",
        f"{facts.width:,} × {facts.height:,} px, {len(facts.bands)} bands of {facts.dtype}. "
        f"Opened alone, in a limited process. Stored as COG, overviews made.{changes}",
    )  # fmt: skip
