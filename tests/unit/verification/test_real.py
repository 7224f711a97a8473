"""The checks on real data: hand-made labels are not blamed, and real scenes with a real slip are."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.core.geo.bands import FillRule
from apps.verification.checks import run_checks
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.verification import samples as s

pytestmark = pytest.mark.shared_data
ROLES = {"blue": 1, "green": 2, "red": 3, "nir": 4}
ZEROS = [FillRule(kind="all_bands_equal", value=0, share=0.3294)]


def failed(sample: s.Sample) -> set[str]:
    return {c.check for c in run_checks(sample.case())[0] if c.outcome in ("failed", "errored")}


def neon(boxes: list[tuple[float, float, float, float]], width: int, height: int) -> s.Sample:
    """A detector that found exactly the hand-drawn crowns of a 10 cm picture."""
    info, stored = scene(
        np.zeros((3, height, width), np.uint8) + np.uint8(90), ("red", "green", "blue"), pixel=0.1, crs="EPSG:32617"
    )
    return s.objects([s.box(*b) for b in boxes], Bench((info, stored))).but({"/evidence/intermediate/passes": []})


def test_hand_labelled_crowns_are_no_duplicates_and_of_possible_size(shared_data: Path) -> None:
    root = ET.parse(shared_data / "trees/2019_YELL_2_541000_4977000_image_crop.xml").getroot()
    boxes: list[Any] = [tuple(float(b.findtext(k) or 0) for k in ("xmin", "ymin", "xmax", "ymax")) for b in root.iter("bndbox")]
    assert len(boxes) == 279
    assert failed(neon(boxes, 1249, 1035)) == set()
    doubled = [*boxes, *((x + 1, y + 1, X + 1, Y + 1) for x, y, X, Y in boxes[::20])]
    assert "geometry.no_duplicate_detections" in failed(neon(doubled, 1250, 1036))
    with (shared_data / "trees/OSBS_029.csv").open() as file:
        rows: list[Any] = [tuple(float(r[k]) for k in ("xmin", "ymin", "xmax", "ymax")) for r in csv.DictReader(file)]
    assert failed(neon(rows, 400, 400)) == set()
    corners = [(x, y, x + X, y + Y) for x, y, X, Y in rows]  # corners taken for width and height
    assert "geometry.boxes_in_image" in failed(neon(corners, 400, 400))


def fishbourne(shared_data: Path, fill: list[FillRule]) -> s.Sample:
    info, stored = from_file(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif", ROLES, fill=fill)
    bench = Bench((info.model_copy(update={"valid_share": 40574 / 60501}), stored))
    return s.ask(
        bench,
        "What is the mean NDVI?",
        "number",
        "execute",
        s.graph(s.S, s.NDVI, ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"})),
    )


def test_the_island_with_its_fill_masked_passes_and_with_fill_counted_is_caught(shared_data: Path) -> None:
    right = fishbourne(shared_data, ZEROS)
    assert right.observation.result.value == pytest.approx(0.5303, abs=5e-4)
    assert failed(right) == set()
    # a tool that took the 19,927 zero pixels for an NDVI of 0: 0.356
    wrong = right.but({"/result/value": 0.3556, "/evidence/intermediate/valid_px": 60501})
    assert failed(wrong) >= {
        "radiometry.fill_not_counted",
        "consistency.value_matches_source",
        "consistency.statistic_recomputes",
    }


def test_the_flood_is_measured_on_the_ellipsoid(shared_data: Path) -> None:
    info, stored = from_file(
        shared_data / "water_flood/Spain_7370579_S2Hand.tif",
        {"green": 3, "red": 4, "nir": 8, "swir1": 12},
        unit="reflectance",
        scale=1e-4,
        nodata=0,
    )
    right = s.ask(
        Bench((info, stored)),
        "How many km2 have NDWI above 0?",
        "area",
        "execute",
        s.graph(
            s.S,
            ("i", "raster.product.index", ("s1",), {"index": "ndwi"}),
            ("m", "raster.product.threshold", ("i",), {"op": ">", "value": 0.0}),
            ("out", "raster.summarize.area", ("m",), {"unit": "km2"}),
        ),
    )
    assert right.observation.result.value == pytest.approx(4.37, abs=0.02)
    assert failed(right) == set()
    # 10 m pixels assumed on a grid in degrees: 5.56 km2 in place of 4.37
    planar = float(right.observation.evidence.intermediate["numerator"]) * 100 / 1e6  # type: ignore[arg-type]
    assert planar > 5.5
    assert failed(right.but({"/result/value": planar})) >= {"consistency.area_recomputes"}


def test_the_landsat_pair_swapped_is_caught(shared_data: Path) -> None:
    def pair(day: str, name: str) -> Any:
        return from_file(shared_data / f"change/landsat7_p15r32_{day}.tif", ROLES, scene_id=name, date=day)

    bench = Bench(pair("2002-07-20", "a"), pair("2002-11-25", "b"))
    nodes = [
        ("s1", "asset.scene", (), {"scene": "a"}),
        ("s2", "asset.scene", (), {"scene": "b"}),
        ("i", "raster.product.index", ("s1",), {"index": "ndvi"}),
        ("j", "raster.product.index", ("s2",), {"index": "ndvi"}),
    ]
    out = ("out", "raster.summarize.statistic", ("d",), {"statistic": "mean"})
    question = "What is the NDVI change from July to November?"
    right = s.ask(bench, question, "number", "execute", s.graph(*nodes, ("d", "raster.product.difference", ("i", "j"), {}), out))
    assert right.observation.result.value == pytest.approx(-0.218, abs=1e-3)
    assert failed(right) == set()
    wrong = s.ask(bench, question, "number", "execute", s.graph(*nodes, ("d", "raster.product.difference", ("j", "i"), {}), out))
    assert "plausibility.before_precedes_after" in failed(wrong)
    hidden = right.but({"/result/value": -float(right.observation.result.value or 0)})
    assert "consistency.value_matches_source" in failed(hidden)
