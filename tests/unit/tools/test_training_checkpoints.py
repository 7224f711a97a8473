"""What the training recipes share: the running mean, and a checkpoint that a kill in the middle of writing cannot lose."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (./rsure setup)")

from apps.tools.zoo.runtime import has_ultralytics  # noqa: E402
from apps.tools.zoo.training.checkpoints import resume_from, save_checkpoint, warm_start, write_whole  # noqa: E402
from apps.tools.zoo.training.steps import average_into, batch_at, log_step, run_parser, seed_step  # noqa: E402

pytestmark = pytest.mark.ml


def small(seed: int = 0):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def steps_of(model, optimizer, mean, start: int, end: int) -> None:
    for step in range(start, end):
        x = torch.from_numpy(np.random.default_rng([7, step]).normal(size=(12, 8)).astype(np.float32))
        seed_step(3, step)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average_into(mean, model, step, most=0.9, lag=10)


@pytest.mark.parametrize("most, lag", [(0.998, 10), (0.995, 10), (0.998, 20)])
def test_the_running_mean_is_the_one_that_numpy_makes(most: float, lag: int) -> None:
    model = torch.nn.BatchNorm1d(3).double()
    mean = {k: v.clone() for k, v in model.state_dict().items()}
    rng = np.random.default_rng(1)
    told = np.ones(3)
    for step in range(0, 6000, 500):  # the share reaches ``most`` on the way
        weights = rng.normal(size=3)
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(weights))
            model.num_batches_tracked.fill_(step)
        average_into(mean, model, step, most=most, lag=lag)
        share = min(most, (1 + step) / (lag + step))
        told = share * told + (1 - share) * weights
        np.testing.assert_allclose(mean["weight"].numpy(), told, rtol=1e-14)
        assert int(mean["num_batches_tracked"]) == step


def test_without_resume_or_without_a_file_a_run_starts_anew(tmp_path: Path) -> None:
    model, optimizer = small()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    other, its = small(5)
    save_checkpoint(tmp_path / "last.pt", other, its, other.state_dict(), 9)
    for path, resume in ((tmp_path / "last.pt", False), (tmp_path / "absent.pt", True)):
        mean, start = resume_from(path, model, optimizer, resume=resume)
        assert start == 0 and all(torch.equal(mean[k], v) and torch.equal(model.state_dict()[k], v) for k, v in before.items())
        assert all(mean[k].data_ptr() != v.data_ptr() for k, v in model.state_dict().items())


def test_a_resumed_run_is_the_unbroken_one_bit_by_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = small()
    mean, start = resume_from(tmp_path / "last.pt", model, optimizer, resume=True)
    steps_of(model, optimizer, mean, start, 4)
    save_checkpoint(tmp_path / "last.pt", model, optimizer, mean, 4)
    steps_of(model, optimizer, mean, 4, 11)
    again, its = small(99)  # other weights, another state of the generator
    resumed, at = resume_from(tmp_path / "last.pt", again, its, resume=True)
    assert at == 4 and "resumed at step 4" in capsys.readouterr().out
    steps_of(again, its, resumed, at, 11)
    for one, other in ((model.state_dict(), again.state_dict()), (mean, resumed)):
        assert one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"]


def test_a_warm_start_takes_what_fits_and_says_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = small(1)
    other, _ = small(2)
    given = {**other.state_dict(), "3.weight": torch.zeros(5, 16), "unknown": torch.zeros(2)}
    before = model.state_dict()["3.weight"].clone()
    warm_start(model, given)
    assert torch.equal(model.state_dict()["0.weight"], other.state_dict()["0.weight"])
    assert torch.equal(model.state_dict()["3.weight"], before)
    n = len(other.state_dict())
    assert capsys.readouterr().out == f"warm start: {n - 1} of {n} tensors\n"


def test_an_epoch_sees_every_picture_once_and_the_next_in_another_order() -> None:
    first, second = (np.concatenate([batch_at(4, step, 12, 4) for step in range(3 * k, 3 * k + 3)]) for k in (0, 1))
    assert sorted(first) == sorted(second) == list(range(12)) and list(first) != list(second)
    assert np.array_equal(batch_at(4, 1, 12, 4), np.random.default_rng([4, 0]).permutation(12)[4:8])


def test_a_line_of_the_log_and_the_arguments_of_a_run(tmp_path: Path) -> None:
    import json
    import time

    log_step(tmp_path, 20, 300, {"loss": 1.25}, began=time.time() - 50, taken=10, digits=2)
    (line,) = (tmp_path / "log.jsonl").read_text().splitlines()
    held = json.loads(line)
    assert list(held) == ["step", "of", "loss", "s_per_step"]
    assert (held["step"], held["of"], held["loss"]) == (20, 300, 1.25) and held["s_per_step"] == pytest.approx(5.0, abs=0.05)

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--lr", type=float, default=0.1)

    parser = run_parser("A recipe.", add)
    told = parser.parse_args(["--data", "d", "--out", "o", "--resume"])
    assert (told.data, told.out, told.resume, told.seed, told.lr) == (Path("d"), Path("o"), True, 0, 0.1)


KILLED = """
import resource, signal, sys
from pathlib import Path
import torch
from apps.tools.zoo.training.checkpoints import save_checkpoint

last = Path(sys.argv[1])
model = torch.nn.Linear(400, 400)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.nn.init.constant_(model.weight, 1.0)
save_checkpoint(last, model, optimizer, model.state_dict(), 1)
torch.nn.init.constant_(model.weight, 2.0)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
half = last.stat().st_size // 2
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (half, half))
save_checkpoint(last, model, optimizer, model.state_dict(), 2)
"""


def test_a_kill_in_the_middle_of_writing_leaves_the_former_checkpoint(tmp_path: Path) -> None:
    """The kernel kills the process at the byte where the second checkpoint is half written."""
    last = tmp_path / "last.pt"
    done = subprocess.run([sys.executable, "-c", KILLED, str(last)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGXFSZ, done.stderr
    part = tmp_path / "last.part"
    assert 0 < part.stat().st_size < last.stat().st_size
    model = torch.nn.Linear(400, 400)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mean, start = resume_from(last, model, optimizer, resume=True)
    assert start == 1 and bool((model.weight == 1).all()) and bool((mean["weight"] == 1).all())
    save_checkpoint(last, model, optimizer, mean, 2)  # what lies there from the kill is in nobody's way
    assert not part.exists() and resume_from(last, model, optimizer, resume=True)[1] == 2


def test_the_new_file_is_on_the_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[tuple[str, bool]] = []
    real = os.fsync

    def watched(handle: int) -> None:
        flushed.append((Path(os.readlink(f"/proc/self/fd/{handle}")).name, (tmp_path / "w.rsw").exists()))
        real(handle)

    monkeypatch.setattr(os, "fsync", watched)
    write_whole({"a": torch.ones(3)}, tmp_path / "w.rsw")
    assert flushed == [("w.part", False), (tmp_path.name, True)]


@pytest.mark.skipif(not has_ultralytics(), reason="ultralytics is not installed (./rsure setup)")
def test_the_detector_cut_off_and_resumed_ends_as_an_unbroken_run(tmp_path: Path) -> None:
    import cv2

    from apps.tools.zoo.training.detector import train

    rng = np.random.default_rng(5)
    for kind in ("images", "labels"):
        (tmp_path / "data" / kind / "train").mkdir(parents=True)
    for k in range(4):
        name = f"{('ucm', 'bg', 'shp', 'pln')[k]}_{k}"
        cv2.imwrite(str(tmp_path / f"data/images/train/{name}.png"), rng.integers(0, 255, (96, 96, 3)).astype(np.uint8))
        (tmp_path / f"data/labels/train/{name}.txt").write_text("0 0.5 0.5 0.3 0.2\n2 0.3 0.6 0.2 0.3\n")

    def run(out: str, *, resume: bool = False, stop_after: int | None = None) -> Path:
        return train(
            tmp_path / "data", tmp_path / out, init=None, steps=6, batch=2, size=64, lr=1e-3, freeze=1, seed=2,
            resume=resume, threads=1, stop_after=stop_after,
        )  # fmt: skip

    whole = run("whole")
    run("parts", stop_after=3)
    assert torch.load(tmp_path / "parts/last.pt", weights_only=True)["step"] == 3
    resumed = run("parts", resume=True)
    for one, other, keys in (
        (whole, resumed, ("state",)),
        (tmp_path / "whole/last.pt", tmp_path / "parts/last.pt", ("model", "mean")),
        (tmp_path / "whole/ema.rsw", tmp_path / "parts/ema.rsw", ("state",)),
    ):
        a, b = torch.load(one, weights_only=True), torch.load(other, weights_only=True)
        for key in keys:
            assert a[key].keys() == b[key].keys() and all(torch.equal(a[key][k], b[key][k]) for k in a[key])
    assert torch.load(tmp_path / "parts/last.pt", weights_only=True)["step"] == 6
