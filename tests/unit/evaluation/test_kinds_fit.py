"""The fit of the second look at kinds of place: on pictures made by the test, split by name, scored on what it never saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from apps.core.errors import UserError
from apps.evaluation.kinds_fit import FOLDS, LOOKS, figures, fit, fit_looks, labelled
from apps.verification.kinds import view_of

KINDS = ("stripes", "spots", "plain")


def picture(kind: str, rng: np.random.Generator) -> np.ndarray:
    """64 × 64 pixels, noisy, in colours that say nothing of the kind."""
    rows, columns = np.mgrid[:64, :64]
    grey = {
        "stripes": 40.0 * ((columns + int(rng.integers(9))) // 6 % 2),
        "spots": 60.0 * (((rows % 12) - 6) ** 2 + ((columns % 12) - 6) ** 2 < 9),
        "plain": np.zeros((64, 64)),
    }[kind]
    colour = rng.uniform(60, 150, 3)
    return np.asarray((grey[:, :, None] + colour + rng.normal(0, 8, (64, 64, 3))).clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    top = tmp_path_factory.mktemp("pictures")
    for kind in KINDS:
        (top / kind).mkdir()
        for n in range(60):
            Image.fromarray(picture(kind, rng)).save(top / kind / f"{kind}_{n}.jpg", quality=95)
    return top


def test_what_is_told_of_the_test_is_so(folder: Path) -> None:
    files = labelled(folder)
    x = figures(files, 64, lambda text: None)
    look = fit("made", files, x, side=64, ground_m=640.0, white=0.0)
    told: Any = look.report
    tests = [(kind, path) for split, kind, path in files if split == "test"]
    assert told["pictures"] == {"fitted on": len(files) - len(tests), "test": len(tests)} and len(tests) > 20
    views = [view_of(np.asarray(Image.open(p), dtype=float), 64) for _, p in tests]
    p, odd = look.seen(views)
    at = np.array([look.classes.index(kind) for kind, _ in tests])
    rows = np.arange(len(at))
    assert told["accuracy_test"] == pytest.approx((p.argmax(axis=1) == at).mean(), abs=1e-4) and told["accuracy_test"] > 0.9
    assert told["right_labels_agreed"] == pytest.approx((p[rows, at] >= look.agree_at).mean(), abs=1e-4)
    assert told["right_labels_contradicted"] == pytest.approx((p[rows, at] < look.contradict_at).mean(), abs=1e-4)
    assert look.contradict_at <= look.agree_at and (odd > look.odd_at).mean() < 0.2
    assert look.layers[0][0].shape == (187, FOLDS * 48)
    # the same pictures give the same look, and what the test split holds moves nothing but the report
    again = fit("made", files, x, side=64, ground_m=640.0, white=0.0)
    other = x.copy()
    other[[k for k, f in enumerate(files) if f[0] == "test"]] = 0
    blind = fit("made", files, other, side=64, ground_m=640.0, white=0.0)
    for held in (again, blind):
        assert np.array_equal(held.layers[0][0], look.layers[0][0]) and held.agree_at == look.agree_at


def test_a_folder_without_labelled_pictures_is_refused(tmp_path: Path, folder: Path) -> None:
    assert set(LOOKS) == {"aerial-0.3m", "sentinel2-10m"}
    for wrong in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError) as caught:
            fit_looks({"aerial-0.3m": wrong})
        assert caught.value.code == "BAD_ARGUMENT"
    few = labelled(folder, 3)
    assert len(few) <= 9 * 3 and {kind for _, kind, _ in few} == set(KINDS)
