"""Questions with known answers over shipped samples and, where it is present, the shared data folder."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from apps.evaluation.faultbench import given, truth
from apps.evaluation.faultbench.truth import Plain, plain

Value = float | bool | str
# The right answer of a question that has none: to say so
NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class BenchCase:
    """One question. ``files`` and ``vectors`` are paths relative to the samples, the shared folder or the bench's own; ``roles``
    by 1-based band. ``truth`` gets the paths of both, in that order.

    ``truth`` gives the right answer in ``unit``; an answer is right within ``tolerance`` (relative) or ``within`` (absolute).
    ``needs`` names a package without which the case is left out; ``is_slow`` cases are asked for by name; ``gsd_m`` is told where
    the file does not say it; ``only`` limits a case to faults of some families.
    """

    name: str
    files: tuple[str, ...]
    question: str
    truth: Callable[[list[Path]], Value]
    unit: str = "1"
    roles: dict[int, str] = field(default_factory=dict)
    region: dict[str, Any] | None = None
    tolerance: float = 0.01
    within: float = 0.0
    is_shared: bool = False
    gsd_m: float | None = None
    needs: str = ""
    only: tuple[str, ...] = ()
    choices: dict[str, str] = field(default_factory=dict)
    vectors: tuple[str, ...] = ()
    is_slow: bool = False

    def is_right(self, value: Value, right: Value) -> bool:
        """Whether a value in the case's unit answers the question."""
        if isinstance(right, (bool, str)):
            return value == right
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return abs(float(value) - float(right)) <= max(self.tolerance * abs(float(right)), self.within)


# Nobody says what counts as water: McFeeters' threshold of 0 and one cut by the histogram are both lawful, and differ by this
WATER = 0.03

FISH = "geopandas_s2a_l2a_fishbourne.tif"
FISH_ROLES = {1: "blue", 2: "green", 3: "red", 4: "nir"}
LANDSAT = ("landsat7_p15r32_2002-07-20.tif", "landsat7_p15r32_2002-11-25.tif")
SINOP = tuple(
    f"TERRA_MODIS_012010_NDVI_{d}.jp2"
    for d in (
        "2013-09-14",
        "2013-10-16",
        "2013-11-17",
        "2013-12-19",
        "2014-01-17",
        "2014-02-18",
        "2014-03-22",
        "2014-04-23",
        "2014-05-25",
        "2014-06-26",
        "2014-07-28",
        "2014-08-29",
    )
)
FLOOD = "water_flood/Spain_7370579_S2Hand.tif"
S2_CROP = "multispectral/s2_l1c_crop512_13band_32618.tif"
S2_ROLES = {
    1: "coastal",
    2: "blue",
    3: "green",
    4: "red",
    5: "rededge1",
    6: "rededge2",
    7: "rededge3",
    8: "nir",
    9: "nir08",
    10: "watervapour",
    11: "cirrus",
    12: "swir1",
    13: "swir2",
}
FISH_BOX = (-1.225, 50.729, -1.205, 50.741)
LANDSAT_BOX = (-76.27, 40.50, -76.22, 40.54)


def box_polygon(w: float, s: float, e: float, n: float) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[w, s], [e, s], [e, n], [w, n], [w, s]]]}


def _fish(paths: list[Path]) -> Plain:
    return plain(paths[0], zeros_are_fill=True)


def _sinop(paths: list[Path]) -> list[tuple[dt.date, float]]:
    out = []
    for p in sorted(paths):
        day = dt.date.fromisoformat(re.findall(r"\d{4}-\d\d-\d\d", p.name)[-1])
        out.append((day, truth.mean(plain(p, low=-2000, high=10000, scale=1e-4).band(1))))
    return out


def _ndvi(p: Path) -> Any:
    return plain(p).ratio(4, 3)


def _drop(paths: list[Path]) -> Any:
    return _ndvi(paths[1]) - _ndvi(paths[0])


def _inside(scene: Plain, values: Any, where: tuple[float, float, float, float]) -> Any:
    return np.where(scene.rows_cols(*where), values, np.nan)


def _fish_cases() -> list[BenchCase]:
    def case(name: str, question: str, right: Callable[[Plain], Value], unit: str = "1", **more: Any) -> BenchCase:
        return BenchCase(f"fish-{name}", (FISH,), question, lambda p: right(_fish(p)), unit, FISH_ROLES, **more)

    ndvi = "What is the {} NDVI?"
    return [
        case("ndvi-mean", ndvi.format("mean"), lambda s: truth.mean(s.ratio(4, 3))),
        case("ndvi-median", ndvi.format("median"), lambda s: float(np.nanmedian(s.ratio(4, 3)))),
        case("ndvi-max", ndvi.format("maximum"), lambda s: float(np.nanmax(s.ratio(4, 3)))),
        case("ndvi-min", ndvi.format("minimum"), lambda s: float(np.nanmin(s.ratio(4, 3)))),
        case("ndvi-std", "What is the standard deviation of NDVI?", lambda s: float(np.nanstd(s.ratio(4, 3)))),
        case("ndwi-mean", "What is the mean NDWI?", lambda s: truth.mean(s.ratio(2, 4))),
        case("ndvi-area", "How many hectares have NDVI above 0.4?", lambda s: truth.area(s, s.ratio(4, 3) > 0.4) / 1e4, "ha"),
        case("ndvi-area-km2", "What area in km2 has NDVI above 0.6?", lambda s: truth.area(s, s.ratio(4, 3) > 0.6) / 1e6, "km2"),
        case("ndvi-low-area", "How many hectares have NDVI below 0.2?", lambda s: truth.area(s, s.ratio(4, 3) < 0.2) / 1e4, "ha"),
        case(
            "ndvi-share", "What share of the area has NDVI above 0.4?", lambda s: truth.share(s.ratio(4, 3), s.ratio(4, 3) > 0.4)
        ),
        case(
            "water-area",
            "How many hectares of water are there?",
            lambda s: truth.area(s, s.ratio(2, 4) > 0) / 1e4,
            "ha",
            tolerance=WATER,
        ),
        case(
            "water-share",
            "What share of the area is water?",
            lambda s: truth.share(s.ratio(2, 4), s.ratio(2, 4) > 0),
            tolerance=WATER,
        ),
        case("water-any", "Is there any water?", lambda s: bool((s.ratio(2, 4) > 0).any())),
        case("nir-mean", "What is the mean of the nir band?", lambda s: truth.mean(s.band(4)), "DN"),
        case(
            "region-ndvi",
            "What is the mean NDVI in the region?",
            lambda s: truth.mean(_inside(s, s.ratio(4, 3), FISH_BOX)),
            region=box_polygon(*FISH_BOX),
        ),
        case(
            "region-area",
            "How many hectares in the region have NDVI above 0.4?",
            lambda s: truth.area(s, _inside(s, s.ratio(4, 3), FISH_BOX) > 0.4) / 1e4,
            "ha",
            region=box_polygon(*FISH_BOX),
        ),
        case(
            "region-water",
            "How many hectares of water are in the region?",
            lambda s: truth.area(s, _inside(s, s.ratio(2, 4), FISH_BOX) > 0) / 1e4,
            "ha",
            region=box_polygon(*FISH_BOX),
            tolerance=WATER,
        ),
        case(
            "region-share",
            "What percentage of the region has NDVI above 0.5?",
            lambda s: truth.share(_inside(s, s.ratio(4, 3), FISH_BOX), _inside(s, s.ratio(4, 3), FISH_BOX) > 0.5),
            region=box_polygon(*FISH_BOX),
        ),
        case("choice", "What is the mean NDVI?", lambda s: "B", choices={"A": "0.356", "B": "0.530", "C": "0.61", "D": "0.44"}),
    ]


def _landsat_cases() -> list[BenchCase]:
    def case(
        name: str,
        question: str,
        right: Callable[[list[Path]], Value],
        unit: str = "1",
        files: tuple[str, ...] = LANDSAT,
        **more: Any,
    ) -> BenchCase:
        return BenchCase(f"landsat-{name}", files, question, right, unit, **more)

    july, november = LANDSAT[:1], LANDSAT[1:]
    return [
        case("ndvi-july", "What is the mean NDVI?", lambda p: truth.mean(_ndvi(p[0])), files=july),
        case("ndvi-november", "What is the mean NDVI?", lambda p: truth.mean(_ndvi(p[0])), files=november),
        case(
            "change", "What is the NDVI change between 2002-07-20 and 2002-11-25?", lambda p: truth.mean(_drop(p)), within=0.002
        ),
        case(
            "drop-area",
            "What area in km2 has a NDVI drop of more than 0.2?",
            lambda p: truth.area(plain(p[0]), _drop(p) < -0.2) / 1e6,
            "km2",
        ),
        case(
            "drop-hectares",
            "How many hectares have a drop in NDVI of more than 0.3?",
            lambda p: truth.area(plain(p[0]), _drop(p) < -0.3) / 1e4,
            "ha",
        ),
        case("highest", "On which date is NDVI highest?", lambda p: "2002-07-20"),
        case("lowest", "On which date is NDVI lowest?", lambda p: "2002-11-25"),
        case(
            "area-july",
            "How many km2 have NDVI above 0.4?",
            lambda p: truth.area(plain(p[0]), _ndvi(p[0]) > 0.4) / 1e6,
            "km2",
            files=july,
        ),
        case(
            "share-november",
            "What share of the area has NDVI above 0.2?",
            lambda p: truth.share(_ndvi(p[0]), _ndvi(p[0]) > 0.2),
            files=november,
        ),
        case(
            "region-change",
            "What is the NDVI change in the region between 2002-07-20 and 2002-11-25?",
            lambda p: truth.mean(_inside(plain(p[0]), _drop(p), LANDSAT_BOX)),
            region=box_polygon(*LANDSAT_BOX),
            within=0.002,
        ),
        case("ndbi", "What is the mean NDBI?", lambda p: truth.mean(plain(p[0]).ratio(5, 4)), files=july),
    ]


def _sinop_cases() -> list[BenchCase]:
    def case(
        name: str, question: str, right: Callable[[list[tuple[dt.date, float]]], Value], unit: str = "1", **more: Any
    ) -> BenchCase:
        return BenchCase(f"sinop-{name}", SINOP, question, lambda p: right(_sinop(p)), unit, **more)

    return [
        case("mean", "What is the mean NDVI?", lambda s: float(np.mean([v for _, v in s]))),
        case("lowest", "On which date is NDVI lowest?", lambda s: min(s, key=lambda r: r[1])[0].isoformat()),
        case("highest", "On which date is NDVI highest?", lambda s: max(s, key=lambda r: r[1])[0].isoformat()),
        case(
            "trend",
            "What is the linear trend of NDVI per year?",
            lambda s: truth.slope_per_year([d for d, _ in s], [v for _, v in s]),
            "1/year",
            tolerance=0.02,
        ),
        case("january", "What is the mean NDVI on 2014-01-17?", lambda s: dict(s)[dt.date(2014, 1, 17)]),
        case(
            "spring",
            "What is the mean NDVI between 2013-09-01 and 2013-12-31?",
            lambda s: float(np.mean([v for d, v in s if d < dt.date(2014, 1, 1)])),
        ),
    ]


def _shared_cases() -> list[BenchCase]:
    def flood(name: str, question: str, right: Callable[[Plain], Value], unit: str = "1", **more: Any) -> BenchCase:
        return BenchCase(
            f"flood-{name}", (FLOOD,), question, lambda p: right(plain(p[0])), unit, S2_ROLES, is_shared=True, **more
        )

    def crop(name: str, question: str, right: Callable[[Plain], Value], unit: str = "1", **more: Any) -> BenchCase:
        return BenchCase(
            f"s2crop-{name}", (S2_CROP,), question, lambda p: right(plain(p[0])), unit, S2_ROLES, is_shared=True, **more
        )

    return [
        flood(
            "area", "How much water is there in km2?", lambda s: truth.area(s, s.ratio(3, 8) > 0) / 1e6, "km2", tolerance=WATER
        ),
        flood(
            "share", "What share of the area is water?", lambda s: truth.share(s.ratio(3, 8), s.ratio(3, 8) > 0), tolerance=WATER
        ),
        flood("ndvi", "What is the mean NDVI?", lambda s: truth.mean(s.ratio(8, 4))),
        flood("mndwi", "What is the mean MNDWI?", lambda s: truth.mean(s.ratio(3, 12))),
        crop("ndvi", "What is the mean NDVI?", lambda s: truth.mean(s.ratio(8, 4))),
        crop("ndvi-area", "How many hectares have NDVI above 0.4?", lambda s: truth.area(s, s.ratio(8, 4) > 0.4) / 1e4, "ha"),
        crop("ndmi", "What is the mean NDMI?", lambda s: truth.mean(s.ratio(8, 12))),
        crop(
            "nbr-share", "What share of the area has NBR above 0.3?", lambda s: truth.share(s.ratio(8, 13), s.ratio(8, 13) > 0.3)
        ),
    ]


def _object_cases() -> list[BenchCase]:
    """Objects by hand labels (the count that a person drew); a detector is right within a quarter."""
    return [
        BenchCase("trees-count", ("OSBS_029.tif",), "How many trees are there?", lambda p: 61.0, tolerance=0.25),
        BenchCase("trees-any", ("OSBS_029.tif",), "Are there any trees?", lambda p: True),
        BenchCase(
            "vehicles-count",
            ("objects/dota_P1888_trucks.png",),
            "How many vehicles are there?",
            lambda p: 64.0,
            tolerance=0.25,
            is_shared=True,
            gsd_m=0.266170468393,
            needs="torch",
            only=("detections",),
            is_slow=True,
        ),
    ]


def _given_cases() -> list[BenchCase]:
    """Vector files alone, against each other, and as zones of an image."""
    fields, paths, sites = given.FIELDS_FILE, given.PATHS_FILE, given.SITES_FILE

    def case(name: str, vectors: tuple[str, ...], question: str, right: Value, unit: str = "1", **more: Any) -> BenchCase:
        return BenchCase(f"given-{name}", (), question, lambda p: right, unit, vectors=vectors, **more)

    near = given.to_paths_m()
    return [
        case(
            "area",
            (fields,),
            f"What is the area of {fields} in ha?",
            sum(map(given.area_m2, given.FIELDS.values())) / 1e4,
            "ha",
            tolerance=1e-3,
        ),
        case(
            "copse",
            (fields,),
            "What is the area of Copse in ha?",
            given.area_m2(given.FIELDS["Copse"]) / 1e4,
            "ha",
            tolerance=1e-3,
        ),
        case("count", (fields,), f"How many polygons are in {fields}?", float(len(given.FIELDS)), tolerance=0),
        case(
            "length",
            (paths,),
            f"What is the length of {paths} in km?",
            sum(map(given.length_m, given.PATHS)) / 1e3,
            "km",
            tolerance=1e-3,
        ),
        case(
            "near",
            (sites, paths),
            f"How many of the points in {sites} lie within 150 m of {paths}?",
            float(sum(d <= 150 for d in near)),
            tolerance=0,
        ),
        BenchCase(
            "given-ndvi",
            (FISH,),
            f"What is the mean NDVI inside {fields}?",
            lambda p: truth.mean(np.where(given.in_the_fields(_fish(p)), _fish(p).ratio(4, 3), np.nan)),
            roles=FISH_ROLES,
            vectors=(fields,),
        ),
        BenchCase(
            "given-census",
            (),
            "What is the area of colorado-counties.geojson in km2?",
            lambda p: truth.census_area_km2(p[0]),
            "km2",
            vectors=("vector/colorado-counties.geojson",),
            is_shared=True,
            tolerance=2e-3,
        ),
    ]


def _place_cases() -> list[BenchCase]:
    """Kinds of place by the name of the folder that a person put the picture in, none of them a training picture; and a picture
    of nothing, of which no kind of place is right."""
    question, faults = "What kind of place is this?", ("class", "silent")

    def case(name: str, number: int) -> BenchCase:
        file = f"training/scene/ucmerced/test/{name}/{name}{number}.jpg"
        return BenchCase(
            f"place-{name}", (file,), question, lambda p: name, is_shared=True, gsd_m=0.3, needs="torch", only=faults
        )

    return [
        case("forest", 88),
        case("parkinglot", 88),
        case("freeway", 88),
        BenchCase(
            "place-nothing", (given.NOISE_FILE,), question, lambda p: NO_ANSWER, gsd_m=0.3, needs="torch", only=faults
        ),
    ]


def bench_cases() -> list[BenchCase]:
    """All cases, in a fixed order; those with ``is_shared`` need the shared data folder."""
    return [
        *_fish_cases(),
        *_landsat_cases(),
        *_sinop_cases(),
        *_object_cases(),
        *_shared_cases(),
        *_given_cases(),
        *_place_cases(),
    ]
