"""Limits of the checks: each a documented field, frozen, versioned with the policy that uses them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Limits(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    # numbers that must be equal
    rel_tolerance: float = Field(default=1e-3, description="relative difference below which a recomputed value is the same")
    abs_tolerance: float = Field(default=1e-6, description="absolute difference below which a recomputed value is the same")
    area_rel_tolerance: float = Field(
        default=2e-3, description="areas of one mask by two lawful methods (grid, geodesic) agree so"
    )
    gsd_rel_tolerance: float = Field(default=0.02, description="GSD stated and GSD implied by the CRS agree within this share")
    sample_sigmas: float = Field(default=6.0, description="a sampled estimate may lie this many standard errors from the value")
    sample_floor: float = Field(default=1e-3, description="…and this share of the data's spread, for sums in another order")
    seen_ground: float = Field(
        default=0.01, description="share by which the ground of a density may exceed the ground whose pixels could be seen"
    )
    length_rel_tolerance: float = Field(
        default=0.3, description="a mask's length by its skeleton and by area and outline of its pieces agree so"
    )
    length_far: float = Field(default=2.0, description="a length this many times off is no matter of the method and blocks")
    p_value_tolerance: float = Field(default=0.01, description="a p value and the one that belongs to its z score agree so")
    # geometry
    edge_px: float = Field(default=1.0, description="boxes may reach this far over the image's edge (resampling)")
    min_box_px: float = Field(default=0.5, description="shortest side of a box in pixels")
    duplicate_iou: float = Field(default=0.5, description="two boxes of one class over this IoU are one object counted twice")
    duplicate_share: float = Field(default=0.02, description="share of boxes that may be such duplicates (crowded crowns)")
    max_pairs: int = Field(default=4_000_000, description="pairs of boxes looked at; above, neighbours only")
    turned_gain: float = Field(
        default=3.0, description="how many times more boxes part the picture, turned, from which they are of another frame"
    )
    moved_gain: float = Field(
        default=1.5, description="how many times more boxes part the picture where they lie than in the middle of other places"
    )
    least_parted: float = Field(
        default=0.04,
        description="squared distance, in spreads, below which boxes part nothing that can be seen (a small effect: Cohen 1988)",
    )
    shift_share: float = Field(default=0.25, description="a shift between two images is at most this share of the shorter side")
    shift_likeness: float = Field(default=0.5, description="correlation of two images' edges from which a shift is believed")
    pan_shift_px: float = Field(default=1.0, description="pixels of the bands by which a panchromatic band may lie beside them")
    cover_px: float = Field(default=2.0, description="a new grid may fall short of its source by so many of its pixels")
    # radiometry
    index_bound: float = Field(default=1.0, description="normalised differences of non-negative bands lie in ± this")
    index_extreme: float = Field(
        default=1.2, description="an extreme of one may reach this far where a reflectance is a little below zero"
    )
    out_of_range_share: float = Field(
        default=0.02, description="share of values beyond the physical range above which what rests on them is not said"
    )
    reflectance_range: tuple[float, float] = Field(default=(-0.2, 2.0), description="plausible mean surface reflectance")
    kelvin_range: tuple[float, float] = Field(default=(170.0, 400.0), description="plausible temperature of a surface or cloud")
    decibel_range: tuple[float, float] = Field(default=(-60.0, 30.0), description="plausible mean backscatter")
    valid_px_tolerance: float = Field(default=2e-3, description="share of pixels by which a valid count may exceed the scene's")
    # completeness
    min_valid_share: float = Field(default=0.02, description="below this share of valid pixels nothing is said of the scene")
    low_valid_share: float = Field(default=0.5, description="below this share of valid pixels the result is warned of")
    cloudy_share: float = Field(
        default=0.05, description="share of flagged pixels above which a figure without them is asked for"
    )
    least_region_share: float = Field(default=0.5, description="share of a region that must lie on the image for a figure of it")
    least_period_share: float = Field(
        default=0.5, description="share of a year or season that the dates must stand for, for a figure of it"
    )
    other_date_days: int = Field(default=40, description="another date that may be asked for lies at most so far away")
    hole_factor: float = Field(default=2.5, description="a gap in a series longer than this times the median gap is a hole")
    # plausibility
    least_separability: float = Field(
        default=0.7, description="share of the variance that lies between the sides of a threshold; of a single heap 0.64 does"
    )
    noise_share: float = Field(
        default=0.9, description="mean square of neighbours' differences over twice the variance from which a picture is noise"
    )
    season_days: int = Field(default=45, description="dates so many days of the year apart are of one season")
    hours_apart: float = Field(default=4.0, description="hours of the sun so far apart are two times of the day")
    red_over_nir_share: float = Field(
        default=0.5, description="share of a scene brighter in red than ground can be from which its bands are exchanged"
    )
    nir_apart: float = Field(
        default=0.15, description="correlation by which near infrared may go with green and with blue more than red does"
    )
    red_leads_share: float = Field(
        default=0.15, description="share of a scene 1.3 times as bright in red as in green and in near infrared that is odd…"
    )
    red_leads_apart: float = Field(
        default=0.08, description="…where near infrared goes with visible bands so much more than red does"
    )
    degenerate_share: float = Field(default=1e-4, description="a share this near to 0 or 1 is called degenerate")
    size_spread: float = Field(default=25.0, description="largest over median object area that is still one class")
    empty_part_expected: float = Field(
        default=9.0, description="detections expected in a quarter of the scene from which an empty quarter is remarkable"
    )
    empty_part_chance: float = Field(
        default=1e-3, description="chance, over all four quarters, of so few detections below which one counts as empty"
    )
    empty_part_share: float = Field(
        default=0.25, description="share of the detections expected in a quarter up to which it counts as empty"
    )
    empty_part_shift: float = Field(
        default=0.5, description="a quarter is like the others where its mean lies within theirs, widened by so many deviations"
    )
    # second look
    full_look_px: int = Field(
        default=1_000_000,
        description="up to this many pixels of a scene layers are compared over their whole extent, above in windows; figures "
        "are made from samples of the whole extent",
    )
    dense_look_px: int = Field(
        default=100_000,
        description="up to this many pixels every one is looked at, above one by lot in each cell of a net of so many cells",
    )
    look_windows: int = Field(default=4, description="windows in which layers of larger scenes are compared")
    look_window_px: int = Field(default=32, description="side of such a window; 4 × 32² = 4,096 pixels")
    witness_points: int = Field(default=12, description="pixels that the tool says it read, compared in a large scene")
    witness_tolerance: float = Field(default=1e-5, description="relative difference of such a pixel that still is the same")
    shift_gain: float = Field(
        default=0.01, description="how much better a mask from prompts may part the picture's colours some pixels off its place"
    )
    prompt_agreement: float = Field(
        default=0.95,
        description="overlap (IoU) that every mask grown again from marks a little aside or by other settings must have with the "
        "first; a drawn disc keeps it, masks on labelled water and buildings do not, the right ones no more than the wrong "
        "ones",
    )
    prompt_sureness: float = Field(
        default=0.95, description="mean sureness of the walker (0: even odds, 1: certain) that a mask from marks must have"
    )
    change_gain: float = Field(
        default=0.02, description="how much better a mask of change may order the differences some pixels off its place"
    )
    max_layer_px: int = Field(default=4_000_000, description="result layers up to this many pixels are read whole")
    mask_agreement: float = Field(default=0.995, description="share of pixels on which mask and own recomputation must agree")
    validity_agreement: float = Field(default=0.995, description="share of pixels on which validity and own nodata policy agree")
    stand_in_agreement: float = Field(
        default=0.95,
        description="overlap (IoU) that a mask by another method must have with the rejected method's own recomputation",
    )
    raster_agreement: float = Field(default=0.995, description="share of valid pixels that must equal the own recomputation")
    raster_tolerance: float = Field(default=2e-4, description="difference, in units of the data's spread, that still is equal")
    stored_max_stretch: float = Field(default=1.5, description="a value this many times beyond the scene's range is impossible")
    # sizes in m² by class: the smallest and largest median of detected objects
    object_sizes_m2: dict[str, tuple[float, float]] = Field(
        default_factory=lambda: {
            "car": (2.0, 40.0),
            "vehicle": (2.0, 150.0),
            "truck": (8.0, 150.0),
            "bus": (12.0, 120.0),
            "plane": (30.0, 8000.0),
            "airplane": (30.0, 8000.0),
            "ship": (8.0, 30000.0),
            "boat": (3.0, 3000.0),
            "tree": (0.2, 500.0),
            "building": (6.0, 100000.0),
            "house": (20.0, 2000.0),
            "storage tank": (10.0, 12000.0),
            "tank": (10.0, 12000.0),
            "swimming pool": (6.0, 2500.0),
            "tennis court": (120.0, 1200.0),
            "solar panel": (0.5, 5000.0),
        },
        description="area of one object of the class, smallest and largest believable median",
    )
