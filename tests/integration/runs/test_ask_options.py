"""What a file does not tell of its numbers is said to ``./rsure ask`` as on the page of the image."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.core.management import call_command

from tests.integration.conftest import SAMPLES

QUESTION = "What is the mean of the red band?"


def asked(capsys: pytest.CaptureFixture[str], path: Path, **options: Any) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        call_command("ask", str(path), question=QUESTION, roles="blue=1,green=2,red=3,nir=4", **options)
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out + told.err


@pytest.fixture
def fish_file() -> Path:
    return next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))


def test_scale_and_offset_make_values_of_what_is_stored(db: None, fish_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with rasterio.open(fish_file) as file:
        bands = file.read().astype(np.float64)
    stored = bands[2][bands.any(axis=0)]  # beside the picture all bands are 0
    status, out = asked(capsys, fish_file, scale=0.0002, offset=-0.1, unit="reflectance", json=True)
    answer = json.loads(out)["answer"]
    assert status == 0 and answer["value"] == pytest.approx(float(stored.mean()) * 0.0002 - 0.1, rel=1e-6)


@pytest.mark.parametrize(("options", "told"), [({"scale": 0.0}, "erase the values"), ({"offset": float("nan")}, "finite")])
def test_an_impossible_scale_is_bad_input(
    db: None, fish_file: Path, capsys: pytest.CaptureFixture[str], options: dict[str, float], told: str
) -> None:
    status, out = asked(capsys, fish_file, **options)
    assert status == 2 and told in out and "Traceback" not in out
