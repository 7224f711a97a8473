"""The recipe of the scene classifiers: the split by name, the views, and a run that was cut off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apps.tools.zoo.training.patches import views_of
from apps.tools.zoo.training.scene import read_split, split_of, train


def patches_of(folder: Path, each: int = 60) -> Path:
    """Two classes that a colour tells apart, as <class>/*.png."""
    from PIL import Image

    rng = np.random.default_rng(3)
    for name, colour in (("green", (30, 160, 40)), ("red", (170, 40, 30))):
        (folder / name).mkdir(parents=True)
        for k in range(each):
            picture = np.clip(np.array(colour) + rng.normal(0, 25, (64, 64, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(folder / name / f"{name}_{k}.png")
    return folder


def test_the_split_is_by_name_in_the_stated_shares_and_without_overlap(tmp_path: Path) -> None:
    names = [f"Forest_{k}.jpg" for k in range(5000)]
    share = {s: sum(split_of(n) == s for n in names) / len(names) for s in ("train", "val", "test")}
    assert share["train"] == pytest.approx(0.7, abs=0.02) and share["val"] == pytest.approx(0.1, abs=0.02)
    data = patches_of(tmp_path / "data")
    parts = {s: read_split(data, s) for s in share}
    assert sum(len(p[0]) for p in parts.values()) == 120 and all(p[2] == ["green", "red"] for p in parts.values())
    digests = [x.tobytes() for p in parts.values() for x in p[0]]
    assert len(set(digests)) == 120


def test_a_folder_without_pictures_and_a_batch_that_they_do_not_fill_are_told(tmp_path: Path) -> None:
    from apps.core.errors import UserError
    from apps.tools.zoo.training.steps import check_batch

    (tmp_path / "green").mkdir()
    with pytest.raises(UserError, match="no pictures of the split “val”"):
        read_split(tmp_path, "val")
    (tmp_path / "val" / "green").mkdir(parents=True)
    (tmp_path / "val" / "green" / "1.jpg").write_text("no picture")
    with pytest.raises(UserError, match=r"green/1\.jpg is no picture"):
        read_split(tmp_path, "val")
    check_batch(16, 16)
    with pytest.raises(UserError, match="There are 15 pictures"):
        check_batch(15, 16)


def test_views_are_drawn_from_their_generator_and_keep_the_picture() -> None:
    rng = np.random.default_rng(0)
    patches = rng.integers(40, 200, (5, 64, 64, 3)).astype(np.uint8)
    one, again = (views_of(patches, np.random.default_rng([1, 2])) for _ in range(2))
    assert np.array_equal(one, again) and one.shape == patches.shape and one.min() >= 0 and one.max() <= 255
    assert not np.array_equal(one, views_of(patches, np.random.default_rng([1, 3])))
    assert np.abs(one.mean((1, 2)) / patches.mean((1, 2)) - 1).max() < 0.25


@pytest.mark.ml
@pytest.mark.parametrize("architecture, batch, epochs, cut", [("lite0_short", 16, 4, 9), ("efficientnet_lite0", 2, 1, 4)])
def test_a_run_that_was_cut_off_ends_as_an_unbroken_one(
    tmp_path: Path, architecture: str, batch: int, epochs: int, cut: int
) -> None:
    torch = pytest.importorskip("torch")
    data = patches_of(tmp_path / "data", 60 if architecture == "lite0_short" else 10)
    options = {"architecture": architecture, "init": None, "batch": batch, "lr": 0.02, "seed": 4, "threads": 1}
    whole = train(data, tmp_path / "whole", epochs=epochs, resume=False, **options)  # type: ignore[arg-type]
    first = tmp_path / "parts"
    train(data, first, epochs=epochs, resume=False, stop_after=cut, **options)  # type: ignore[arg-type]
    saved = torch.load(first / "last.pt", weights_only=True)
    assert saved["step"] == cut
    resumed = train(data, first, epochs=epochs, resume=True, **options)  # type: ignore[arg-type]
    assert_equal_states(whole, resumed, "state")
    assert_equal_states(tmp_path / "whole/last.pt", first / "last.pt", "model")
    assert_equal_states(tmp_path / "whole/last.pt", first / "last.pt", "mean")
    assert torch.load(first / "last.pt", weights_only=True)["step"] > cut


def assert_equal_states(one: Path, other: Path, key: str) -> None:
    import torch

    a, b = (torch.load(p, weights_only=True)[key] for p in (one, other))
    assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
