"""The fields of the plan's form, what they may hold, and why there may be no plan."""

from typing import Any, Literal

from pydantic import Field

from apps.core.evidence.observation import Frozen, JsonMap

What = Literal[
    "statistic", "area", "share", "count", "exists", "date", "difference", "trend", "distance", "compare", "length", "density",
    "ratio", "zone",
]  # fmt: skip
Relation = Literal[
    "", "inside", "overlaps", "touches", "within", "north_of", "south_of", "east_of", "west_of", "between", "nearest",
    "wholly_inside", "outside", "beyond", "not_overlapping", "apart",
]  # fmt: skip
Measured = Literal["statistic", "area", "share", "count"]
Statistic = Literal["mean", "median", "min", "max", "std"]

# What the planner can do, said to whoever asked for something else.
# Characters of a thing's key: a part of a file is called by the values that it was chosen by.
MAX_KEY = 1000
# Pieces of fewer pixels are noise when the question is whether there is any of a target.
EXISTS_MIN_PX = 9
# Rows of a table at most, as the tools have it.
MAX_ROWS = 1000
STATISTIC_TITLES: dict[str, str] = {
    "mean": "Mean",
    "median": "Median",
    "min": "Minimum",
    "max": "Maximum",
    "std": "Standard deviation",
}
TASK_TYPES: dict[What, str] = {
    "statistic": "index_statistic",
    "area": "area_measurement",
    "share": "area_measurement",
    "count": "object_counting",
    "exists": "object_presence",
    "date": "time_property",
    "difference": "change_detection",
    "trend": "trend_analysis",
    "distance": "distance_measurement",
    "compare": "zonal_comparison",
    "length": "distance_measurement",
    "density": "object_counting",
    "ratio": "attribute_comparison",
    "zone": "zonal_comparison",
}
# Questions about things themselves: what their target is need not be found in an image.
MEASURES = frozenset({"count", "area", "share", "exists", "distance", "length", "density", "ratio"})
RELATION_WORDS: dict[str, str] = {
    "inside": "inside", "overlaps": "that overlap", "touches": "that touch", "north_of": "north of", "south_of": "south of",
    "east_of": "east of", "west_of": "west of", "between": "between", "nearest": "nearest to",
    "wholly_inside": "wholly inside", "outside": "outside of", "beyond": "farther away than a distance from",
    "not_overlapping": "that do not overlap", "apart": "that have no point in common with",
}  # fmt: skip


class Where(Frozen):
    """One more condition on the target's instances: a relation to a thing, or a figure of each compared with a number."""

    relation: Literal[
        "", "inside", "overlaps", "touches", "within", "north_of", "south_of", "east_of", "west_of", "wholly_inside", "outside",
        "beyond", "not_overlapping", "apart",
    ] = ""  # fmt: skip
    reference: str = Field(default="", max_length=MAX_KEY, description="the thing that the relation is to")
    relation_m: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    figure: Literal["", "area", "length", "outline"] = ""
    op: Literal[">", ">=", "<", "<="] = ">"
    value: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    unit: str = Field(default="", max_length=20)
    pick: Literal["", "min", "max"] = Field(default="", description="of figure: the one with the extreme, instead of a limit")
    is_given: bool = Field(default=False, description="of a share: it holds for the whole too")


class Form(Frozen):
    """One question as fields. Empty strings and None: not said. See ``form_fields`` for the choices at hand."""

    what: What
    of: Literal["", "statistic", "area", "share", "count", "length", "density", "distance"] = Field(
        default="", description="what is compared, differenced, dated or tested; '' follows from quantity and target"
    )
    quantity: str = Field(default="", max_length=40, description="an index (ndvi, …) or the role of a band")
    target: str = Field(
        default="", max_length=MAX_KEY,
        description="water, vegetation, vehicle, …, 'class 21' of a class map, or a thing: vector:ID, vector:ID:NAME, "
        "place:LONGITUDE,LATITUDE, px:COLUMN,ROW",
    )  # fmt: skip
    reference: str = Field(default="", max_length=MAX_KEY, description="the second target, for distance, relations and compare")
    others: tuple[str, ...] = Field(default=(), max_length=10, description="further targets, for compare and between")
    relation: Relation = Field(default="", description="of the target to the reference")
    relation_m: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="metres, for the relations within and beyond"
    )
    where: tuple[Where, ...] = Field(default=(), max_length=5, description="conditions that hold beside the relation")
    clip: bool = Field(default=False, description="the target is cut where the relation ends; else it is chosen whole")
    each: Literal["", "zones", "reference", "target"] = Field(
        default="", description="a table: a figure for each feature of the zones, of the reference or of the target itself"
    )
    denominator: Literal["", "reference"] = Field(default="", description="a share with clip is one of the reference's area")
    by: str = Field(default="", max_length=60, description="for each: the attribute whose values are the rows; '': its names")
    length_of: Literal["", "outline", "extent"] = Field(
        default="", description="for the length of polygons: of their outline (perimeter), or the long side of each"
    )
    over: Literal["", "mean", "median", "minimum", "maximum"] = Field(
        default="", description="for area and length: of the single instances, instead of all together"
    )
    rows_as: Literal["", "count", "share", "names"] = Field(
        default="", description="with each of zones: how many, which share or which of them have a figure beyond the limit"
    )
    is_named: bool = Field(default=False, description="with each: the names of those that the conditions leave are asked for")
    rank: int = Field(default=1, ge=1, le=1000, description="for zone: 2 for the second largest, …")
    top: int = Field(default=1, ge=1, le=1000, description="for zone: how many of the first are named")
    is_change: bool = Field(default=False, description="for zone: of the change between two dates")
    change_sign: Literal["", "drop", "rise"] = Field(default="", description="for is_change: only losses, or only gains, count")
    second: JsonMap | None = Field(default=None, description="a second form, whose figure this one's is compared with")
    second_as: Literal["difference", "compare"] = Field(default="difference", description="how the two figures are compared")
    nearest_k: int = Field(default=1, ge=1, le=1000, description="how many, for the relation nearest")
    zones: tuple[str, ...] = Field(default=(), max_length=20, description="areas in which the image is read: vector:ID[:NAME]")
    buffer_m: float = Field(default=0.0, ge=0, le=100_000, description="zones are grown by so many metres")
    is_outside: bool = Field(default=False, description="what lies in none of the zones, instead of in them")
    statistic: Statistic = "mean"
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    upper: float | None = Field(
        default=None, allow_inf_nan=False, description="with threshold: from threshold to this, both included"
    )
    side: Literal["above", "below"] = "above"
    is_not: bool = Field(default=False, description="of an area or a share: what is valid and not the target")
    is_closed: bool = Field(default=False, description="the threshold itself counts too (at least, at most)")
    change: Literal["", "drop", "rise"] = Field(default="", description="the threshold is one of a change between two dates")
    pick: Literal["max", "min"] = "max"
    is_relative: bool = Field(default=False, description="the change in per cent of the first value")
    distance_statistic: Literal["minimum", "mean", "maximum", "farthest"] = Field(
        default="minimum", description="of each to its nearest; farthest: of all pairs the one farthest apart"
    )
    limit: float | None = Field(default=None, allow_inf_nan=False, description="for exists: the number that decides yes or no")
    limit_op: Literal[">", ">=", "<", "<="] = ">"
    unit: str = Field(default="", max_length=20)
    dates: tuple[str, ...] = Field(default=(), max_length=20, description="days, months, years or periods 'start..end'")
    scenes: tuple[str, ...] = Field(default=(), max_length=400, description="scene ids; empty: all that fit")
    region: JsonMap | None = None
    region_crs: str = "EPSG:4326"
    tolerance: float | None = Field(default=None, gt=0, le=1, description="for multiple choice over numbers")
    mask: Literal["", "clear", "clear_cirrus"] = Field(
        default="",
        description="clear: without the pixels that the scene's quality band flags as cloud or shadow; clear_cirrus: without "
        "cirrus too",
    )


class RefusalError(Exception):
    """Inside of the planner: there is no plan, and why."""

    def __init__(self, reason: str, code: str = "NO_ANSWER", needs: dict[str, Any] | None = None):
        self.reason, self.code, self.needs = reason, code, needs or {}
        super().__init__(reason)
