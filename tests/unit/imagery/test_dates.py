"""Dates from tags and names."""

from datetime import UTC, date, datetime

import pytest

from apps.imagery.dates import day_of_name, read_time, time_of_tags


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("TERRA_MODIS_012010_NDVI_2014-02-18.jp2", date(2014, 2, 18)),
        ("landsat7_p15r32_2002-07-20.tif", date(2002, 7, 20)),
        ("LC82320832016040LGN00_band2.tif", date(2016, 2, 9)),
        ("LC08_L1TP_232083_20160209_20170330_01_T1_B4.TIF", date(2016, 2, 9)),
        ("MOD13Q1.A2014049.h12v10.006.hdf.tif", date(2014, 2, 18)),
        ("S2A_MSIL1C_20190912T105031_N0208_R051.tif", date(2019, 9, 12)),
        ("S2A_MSIL2A_20190101T100031_N0500_R122_T33UUP_20230101T100031.tif", date(2019, 1, 1)),
        ("S1A_IW_GRDH_1SDV_20200101T235959_20200102T000024_030628_03825B_A991.tif", date(2020, 1, 1)),
        ("scene_20200229.tif", date(2020, 2, 29)),
        ("scene_20210229.tif", None),
        ("from_2020-01-01_to_2020-02-01.tif", None),
        ("2019_YELL_2_541000_4977000_image_crop.png", None),
        ("img_18990101.tif", None),
        ("12345678901234.tif", None),
    ],
)
def test_names(name: str, day: date | None) -> None:
    assert day_of_name(name) == day


def test_tags_best_first() -> None:
    tags = {"TIFFTAG_DATETIME": "2021:05:06 07:08:09", "DATE_ACQUIRED": "2002-07-20", "SCENE_CENTER_TIME": '"15:31:02.1Z"'}
    assert time_of_tags(tags) == (datetime(2002, 7, 20, 15, 31, 2, tzinfo=UTC), "DATE_ACQUIRED")
    assert time_of_tags({"TIFFTAG_DATETIME": "2021:05:06 07:08:09"}) == (
        datetime(2021, 5, 6, 7, 8, 9, tzinfo=UTC),
        "TIFFTAG_DATETIME",
    )
    assert time_of_tags({"DATE_ACQUIRED": "soon"}) is None


def test_times_that_cannot_be_are_none() -> None:
    assert read_time("1066-10-14") is None
    assert read_time("2020-13-01") is None
    assert read_time("9999-01-01") is None
