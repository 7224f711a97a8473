"""Where models run: one load a process, a GPU where there is one that works, and nothing left on the processor by mistake.

Machines of the tests seldom have a GPU. What needs none is tested with torch's fake tensors: they know their device, compute
nothing, and refuse a sum over two devices as a GPU would. Where a GPU is there, its answers are compared with the processor's.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.tools.zoo import runtime
from apps.tools.zoo.registry import model_named
from apps.tools.zoo.runtime import OneLoad
from tests.shared import ROOT
from tests.unit.tools.rasters import Bench, from_file

STREET = Path(__file__).resolve().parents[3] / "apps/imagery/samples/riotiler_hro_colorado_26913.tif"
RNG = np.random.default_rng(3)


# --- one load a process ---------------------------------------------------------------------------------------------------
def test_ten_threads_that_ask_at_once_load_once() -> None:
    held: OneLoad[list[int]] = OneLoad()
    loads: list[int] = []

    def load() -> list[int]:
        time.sleep(0.02)
        loads.append(1)
        return [0]

    got: list[list[int]] = []
    threads = [threading.Thread(target=lambda: got.append(held.get("model", load))) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(loads) == 1 and len(got) == 10 and all(g is got[0] for g in got)


def test_what_cannot_be_loaded_is_not_kept() -> None:
    held: OneLoad[int] = OneLoad()

    def broken() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        held.get("model", broken)
    assert held.get("model", lambda: 7) == 7


def test_a_forked_child_begins_with_nothing_and_with_a_free_lock() -> None:
    """A worker's child may be forked while another thread looks; memory of a GPU would be another's."""
    held: OneLoad[int] = OneLoad()
    held.get("model", lambda: 1)
    is_held, may_end = threading.Event(), threading.Event()

    def look() -> None:
        with held.lock:
            is_held.set()
            may_end.wait(20)

    thread = threading.Thread(target=look)
    thread.start()
    is_held.wait(20)
    child = os.fork()
    if child == 0:
        is_free = held.lock.acquire(timeout=2)
        os._exit(0 if is_free and len(held) == 0 and held.get("model", lambda: 2) == 2 else 1)
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert held.get("model", lambda: 3) == 1


class _Told:
    """Says when it is destroyed; a session of ONNX waits there for threads that a child has not."""

    def __init__(self, pipe: int):
        self.pipe = pipe

    def __del__(self) -> None:
        os.write(self.pipe, b"destroyed")


def test_a_forked_child_destroys_nothing_that_it_inherits() -> None:
    read, write = os.pipe()
    held: OneLoad[_Told] = OneLoad()
    held.get("model", lambda: _Told(write))
    child = os.fork()
    if child == 0:
        is_empty = len(held) == 0
        gc.collect()
        os.write(write, b"end")
        os._exit(0 if is_empty else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.read(read, 100) == b"end"
    held.forget()
    assert os.read(read, 100) == b"destroyed"
    os.close(read)
    os.close(write)


def test_a_worker_forks_its_children_before_torch_is_loaded() -> None:
    """A GPU that was used before a fork cannot be used after it: what a worker loads when it starts holds no torch."""
    code = ("import sys\nfrom rsure_web.celery import app\napp.loader.import_default_modules()\n"
            "assert [t for t in app.tasks if not t.startswith('celery.')], list(app.tasks)\n"
            "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'ultralytics', 'onnxruntime'}))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


# --- which device ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_device", "")


@pytest.fixture
def gpu(unasked: None) -> str:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return runtime.device_name()


@pytest.mark.ml
def test_a_gpu_that_cannot_be_used_leaves_the_models_on_the_processor(unasked: None, monkeypatch: pytest.MonkeyPatch,
                                                                      caplog: pytest.LogCaptureFixture) -> None:
    """torch says that there is a GPU; the first sum on it fails, as with an old driver."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("a GPU is there")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with caplog.at_level(logging.WARNING, logger="apps.tools.zoo.runtime"):
        assert runtime.device_name() == "cpu" == runtime.device_name()
    assert [r.getMessage().startswith("a GPU is there but cannot be used") for r in caplog.records] == [True]


@pytest.mark.ml
def test_onnx_runs_on_a_gpu_only_where_its_runtime_can(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(runtime, "_device", "cuda:0")
    for providers, device in ((["CPUExecutionProvider"], "cpu"), (["CUDAExecutionProvider", "CPUExecutionProvider"], "cuda:0")):
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda told=providers: told)
        assert runtime.onnx_device_name() == device


@pytest.mark.ml
def test_the_device_is_in_the_provenance(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "training/scene/ucmerced/test/harbor/harbor85.jpg", {"red": 1, "green": 2, "blue": 3})
    o = Bench((info.model_copy(update={"gsd_m": 0.3}), stored)).call(
        "perceive", {"image_paths": ["s"], "objective": "kind of place", "mode": "scene"})
    assert o.result.value == "harbor" and o.provenance.device == runtime.device_name()


# --- nothing is left behind -----------------------------------------------------------------------------------------------
def moved_by_fakes(module: Any, mode: Any) -> None:
    """The module's tensors as fakes on a GPU that need not exist."""
    import torch

    for holder in module.modules():
        for name, p in list(holder._parameters.items()):
            if p is not None:
                holder._parameters[name] = torch.nn.Parameter(mode.from_tensor(p.data).to("cuda:0"), requires_grad=False)
        for name, b in list(holder._buffers.items()):
            if b is not None:
                holder._buffers[name] = mode.from_tensor(b).to("cuda:0")


@pytest.mark.ml
@pytest.mark.parametrize("name", ["place21", "cover10"])
def test_a_classifier_looks_wholly_on_its_device(name: str) -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from apps.tools.zoo.classifiers import Classifier

    classifier = Classifier(*model_named(name), device="cpu")
    pictures = [RNG.integers(0, 255, (70, 90, 3)).astype(np.uint8) for _ in range(3)]
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.inference_mode():
        moved_by_fakes(classifier.model, mode)
        with pytest.raises(RuntimeError, match="device"):        # the pictures stay on the processor: told
            classifier.seen(pictures, 4)
        classifier.device = "cuda:0"
        logits, features = classifier.seen(pictures, 4)
        assert str(logits.device) == str(features.device) == "cuda:0" and logits.shape == (3, len(classifier.card.classes))


@pytest.mark.ml
def test_the_detector_looks_wholly_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from apps.tools.zoo.detectors import StateDetector

    monkeypatch.setenv("RSURE_ARITHMETIC", "float32")
    detector = StateDetector(*model_named("nadir3"), device="cpu")
    pictures = RNG.integers(0, 255, (2, 96, 128, 3)).astype(np.uint8)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.inference_mode():
        moved_by_fakes(detector._model, mode)
        detector._model.model[-1].stride = [8.0, 16.0, 32.0]     # read as numbers, which fakes have not
        with pytest.raises(RuntimeError, match="device"):
            detector.raw(pictures)
        detector.device = "cuda:0"
        raw = detector.raw(pictures)
        assert str(raw.device) == "cuda:0" and raw.shape == (2, 7, 12 * 16 + 6 * 8 + 3 * 4)


# --- a real GPU -----------------------------------------------------------------------------------------------------------
@pytest.mark.ml
def test_boxes_on_a_gpu_are_those_of_the_processor(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.tools.zoo.detectors import StateDetector

    monkeypatch.setenv("RSURE_ARITHMETIC", "float32")
    assert gpu == "cuda:0"
    _, stored = from_file(STREET, {"red": 1, "green": 2, "blue": 3})
    picture = np.ascontiguousarray(stored[:3].transpose(1, 2, 0))
    card, path = model_named("nadir3")
    one, other = (StateDetector(card, path, device=d).detect([picture, picture[:100]], 0.05) for d in ("cpu", "cuda:0"))
    for a, b in zip(one, other, strict=True):
        a, b = a.pick(a.score > 0.06), b.pick(b.score > 0.05)
        assert len(a) >= 2
        for box, score in zip(a.xyxy, a.score, strict=True):
            k = int(np.abs(b.xyxy - box).sum(1).argmin())
            assert np.abs(b.xyxy[k] - box).max() < 0.5 and abs(b.score[k] - score) < 0.005


@pytest.mark.ml
@pytest.mark.parametrize("name", ["place21", "cover10"])
def test_probabilities_on_a_gpu_are_those_of_the_processor(name: str, gpu: str) -> None:
    from apps.tools.zoo.classifiers import Classifier

    assert gpu == "cuda:0"
    _, stored = from_file(STREET, {"red": 1, "green": 2, "blue": 3})
    whole = np.ascontiguousarray(stored[:3].transpose(1, 2, 0))
    pictures = [whole, whole[:200, :200], RNG.integers(0, 255, (64, 64, 3)).astype(np.uint8)]
    card, path = model_named(name)
    one, other = (Classifier(card, path, device=d) for d in ("cpu", "cuda:0"))
    (la, fa), (lb, fb) = one.look(pictures), other.look(pictures)
    assert np.abs(one.probabilities(la) - other.probabilities(lb)).max() < 1e-3
    a, b = one.scope_score(fa), other.scope_score(fb)
    assert a is not None and b is not None and np.abs(a - b).max() < 1e-2
