"""The benchmark beside SAHI: its scoring by hand, and that the mosaic's labels lie on the mosaic's vehicles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio

from apps.evaluation.benchmarks import detection


def test_recall_and_precision_by_hand() -> None:
    truth = np.array([[0.0, 0, 10, 10], [20, 0, 30, 10], [50, 50, 60, 60]])
    found = np.array([
        [0.0, 0, 10, 9, 0.9],       # IoU 0.9
        [0.0, 0, 10, 10, 0.8],      # the same again: its true frame is taken
        [21.0, 0, 31, 10, 0.7],     # IoU 9/11
        [54.0, 54, 64, 64, 0.6],    # IoU 36/164
    ])
    assert detection.recall_and_precision(found, truth) == (2 / 3, 2 / 4)
    assert detection.recall_and_precision(np.zeros((0, 5)), truth) == (0.0, 0.0)


@pytest.mark.parametrize("mosaics", [1, 2])
def test_labels_of_the_mosaic_lie_where_its_pictures_were_laid(shared_data: Path, tmp_path: Path, mosaics: int) -> None:
    mosaic, trucks = detection.labelled_pictures(shared_data, tmp_path, mosaics)
    assert len(trucks.truth) == 64 and len(mosaic.truth) == 466 * mosaics**2
    with rasterio.open(mosaic.path) as d:
        picture = d.read()
    side = detection.TEST_SIDE_PX
    assert picture.shape == (3, 4 * mosaics * side, 7 * mosaics * side)
    first = sorted((shared_data / "training/detector/images/test").glob("veh_*"))
    with rasterio.open(next(p for p in first if rasterio.open(p).width == side)) as d:
        assert np.array_equal(picture[:, :side, :side], d.read([1, 2, 3]))
    inside = mosaic.truth
    assert inside[:, :2].min() >= -1 and inside[:, 2].max() <= picture.shape[2] + 1 and inside[:, 3].max() <= picture.shape[1] + 1
    assert (inside[:, 2:] > inside[:, :2]).all()
    assert mosaic.mpx == pytest.approx(picture.shape[1] * picture.shape[2] * 1.25**2 / 1e6)


def test_it_is_skipped_with_a_message_where_the_peer_or_the_data_are_missing(monkeypatch: pytest.MonkeyPatch,
                                                                             capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(detection, "training_folder", lambda: None)
    assert detection.against_sahi(None) == []
    assert "skipped: SAHI" in capsys.readouterr().err
