"""Words of the command line."""

import json
from pathlib import Path

import pytest
import shapely

from apps.core.errors import UserError
from apps.runs.arguments import choices_from_text, dates_from_words, region_from_text, roles_from_text
from apps.runs.services import question_text


def test_roles() -> None:
    assert roles_from_text("blue=1, green=2,red=3,NIR=4") == {"blue": 1, "green": 2, "red": 3, "nir": 4}
    assert roles_from_text("") == {}


@pytest.mark.parametrize("text", ["red", "red=0", "red=3,green=3", "red=3,red=4", "3=red", "purple=1", "red=-1"])
def test_roles_that_cannot_be_used(text: str) -> None:
    with pytest.raises(UserError) as caught:
        roles_from_text(text)
    assert caught.value.code == "BAD_ARGUMENT"


def test_choices() -> None:
    assert choices_from_text('["a", 2]') == {"A": "a", "B": "2"}
    for text in ("{", '"x"', "{}", '{"A": {}}'):
        with pytest.raises(UserError):
            choices_from_text(text)


@pytest.mark.parametrize("text", ["mean\x00 NDVI", "caf\udce9", "", " \n", "x" * 5000])
def test_a_question_that_cannot_be_kept(text: str) -> None:
    with pytest.raises(UserError) as caught:
        question_text(text, None)
    assert caught.value.code == "BAD_QUESTION"


def test_dates_are_utc_and_one_a_file() -> None:
    (date,) = dates_from_words(["2019-06-01"], 1)
    assert date is not None and date.isoformat() == "2019-06-01T00:00:00+00:00"
    assert dates_from_words([], 2) == [None, None]
    for words, n in ((["2019-06-01"], 2), (["1 June"], 1), (["2019-02-30"], 1)):
        with pytest.raises(UserError):
            dates_from_words(words, n)


SQUARE = "POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))"


def test_regions_by_wkt_geojson_and_file(tmp_path: Path) -> None:
    wkt = region_from_text(SQUARE)
    assert wkt["type"] == "Polygon"
    feature = (
        '{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [[[0,0],[1,0],[1,1],[0,1],[0,0]]]}}'
    )
    path = tmp_path / "region.geojson"
    path.write_text(feature)
    assert region_from_text(feature)["coordinates"] == region_from_text(str(path), may_read_files=True)["coordinates"]
    with pytest.raises(UserError, match="neither WKT nor GeoJSON"):
        region_from_text(str(path))  # a path from a browser reads nothing of the server


@pytest.mark.parametrize(
    "text",
    [
        "POINT(1 1)",
        "POLYGON EMPTY",
        "POLYGON((0 0, 1 1",
        "no such file",
        "x" * 5000,
        '{"a":' * 5000,
        '{"type": "Polygon"}',
        "POLYGON((0 0, 1 0, 2 0, 0 0))",
        "POLYGON((500000 5000000, 500100 5000000, 500100 5000100, 500000 5000000))",
        '{"type": 3}',
        "{}",
    ],
)
def test_regions_that_cannot_be_used(text: str) -> None:
    with pytest.raises(UserError) as caught:
        region_from_text(text)
    assert caught.value.code == "BAD_REGION"


def test_a_bow_tie_is_mended_and_keeps_its_area() -> None:
    from shapely.geometry import shape

    mended = shape(region_from_text("POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))"))
    assert mended.is_valid
    assert mended.area == pytest.approx(0.5)


@pytest.mark.parametrize("word", ["0001-01-01", "9999-12-31", "1492-10-12", "2019-13-01", "yesterday"])
def test_a_day_on_which_no_image_was_taken_is_refused(word: str) -> None:
    with pytest.raises(UserError) as caught:
        dates_from_words([word], 1)
    assert caught.value.code == "BAD_ARGUMENT"


@pytest.mark.shared_data
def test_a_region_from_a_vector_file_in_a_crs_of_its_own(shared_data: Path) -> None:
    region = region_from_text(str(shared_data / "terrain_landcover/spDataLarge_zion.gpkg"), may_read_files=True)
    west, south, east, north = shapely.from_geojson(json.dumps(region)).bounds
    # Zion National Park, from the park service's own map
    assert (west, south, east, north) == pytest.approx((-113.23, 37.14, -112.86, 37.51), abs=0.02)
