"""What a catalogue lists is what was asked for: place, period, sensor and level, and gaps by the listed dates."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from apps.verification.checks import CHECKS
from tests.unit.verification.samples import Sample
from tests.unit.verification.samples_new import months, told

CHECK = "consistency.catalog_matches_scenes"


@lru_cache
def searched() -> Sample:
    """The half-yearly part of twelve MODIS dates over their place, from all catalogues."""
    place = (-55.5, -12.0, -55.0, -11.5)
    return months("Which images are in the catalogue in 2014?", "asset.catalog", source="all", bbox=place, start="2014-01-01",
                  end="2014-06-30", revisit_days=16)  # fmt: skip


def outcome(sample: Sample) -> tuple[str, str]:
    found = CHECKS[CHECK].look(sample.case())
    return found.outcome, found.message


def test_a_list_that_is_as_asked_passes() -> None:
    items: Any = searched().observation.result.items
    assert [i["date"] for i in items] == [f"2014-0{m}-{d}" for m, d in ((1, 17), (2, 18), (3, 22), (4, 23), (5, 25), (6, 26))]
    assert outcome(searched())[0] == "passed"


@pytest.mark.parametrize(("change", "says"), [
    ({"/result/items/2/date": "2013-11-17"}, "another date"),
    ({"/result/items/2/date": None}, "another date"),
    ({"/result/items/2/bbox": [10.0, 50.0, 11.0, 51.0]}, "another place"),
    ({"/result/items/2/bbox": None}, "another place"),
    ({"/result/value": 7}, "number"),
    ({"/result/items/2/date": "2014-05-24"}, "other gaps"),
])  # fmt: skip
def test_a_list_that_holds_something_else_fails(change: dict[str, Any], says: str) -> None:
    found, message = outcome(searched().but(change))
    assert found == "failed" and says in message


def test_a_gap_that_is_left_out_is_seen() -> None:
    found, message = outcome(told(searched(), "asset.catalog", gaps=[]))
    assert found == "failed" and "other gaps" in message


@pytest.mark.parametrize(("item", "asked", "is_there"), [
    ({"sensor": "Landsat 8 OLI"}, {"sensor": "landsat-8"}, True), ({"sensor": "Landsat 9 OLI"}, {"sensor": "landsat 8"}, False),
    ({"level": "L2A"}, {"level": "L2A"}, True), ({"level": "L1C"}, {"level": "L2A"}, False),
    ({"bbox": [179.0, -18.0, -179.0, -16.0]}, {"bbox": [-180.0, -17.0, -179.5, -16.5]}, True),
    ({"bbox": [178.0, -18.0, 179.0, -16.0]}, {"bbox": [179.5, -17.0, -179.5, -16.5]}, False),
])  # fmt: skip
def test_sensors_levels_and_places_over_the_antimeridian(item: dict[str, Any], asked: dict[str, Any], is_there: bool) -> None:
    from apps.verification.checks.scenes import _unasked

    assert (_unasked(item, asked, "", "") == "") is is_there
