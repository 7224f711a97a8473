"""Faults that a record proves by itself. Each is a sign that is 1, with a sentence that says what is wrong and what to change.

They were chosen by what the tools' own contracts and physics say; ``docs/evaluation.md`` counts what they meet in recorded runs.
"""

from __future__ import annotations

from collections.abc import Mapping

FAULTS: dict[str, str] = {
    "silent_failure": "The tool reports success and its output is an error text or nothing: nothing was observed. "
    "Call another tool, or the same one once it answers.",
    "not_finite": "The output holds NaN or infinity: no valid pixel entered it. Check mask, band order and nodata of the inputs.",
    "fill_value": "The output holds a fill value of the product: nodata entered the statistic. Mask nodata first.",
    "index_fill": "The index reaches sizes that only a fill value gives. Mask nodata first.",
    "impossible_temperature": "No land surface has this mean temperature, in kelvin or degrees Celsius: nodata or zeros "
    "entered the mean. Mask them first.",
    "kelvin_range": "The operand is no temperature in the unit that the tool converts from.",
    "one_raster_two_roles": "One raster is given for two different roles: the product is not the one that was asked for. "
    "Give each role its own file.",
    "dates_mixed": "Rasters of different dates are combined in one product. Pair the files by date.",
    "day_for_night": "A night raster is given as day, or the reverse. Swap the files.",
    "role_mismatch": "A file's name says that it holds another band or quantity than the argument asks for.",
    "box_convention": "Corners [x1, y1, x2, y2] were given to a tool that reads [x, y, width, height]: the area is x2 · y2.",
}  # fmt: skip


def faults_in(signs: Mapping[str, float]) -> tuple[str, ...]:
    """Names of the faults that these signs prove, in the table's order."""
    return tuple(name for name in FAULTS if signs.get(name) == 1.0)
