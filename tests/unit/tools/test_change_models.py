"""perceive, mode change, with a two-image model that a person added: its mask against the same arithmetic done here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.core.evidence.observation import Observation
from apps.tools.zoo.registry import model_add
from tests.unit.tools.rasters import Bench, scene
from tests.unit.tools.test_perceive_modes import ROLES, texture

pytestmark = pytest.mark.ml
KERNEL, GAIN, OFFSET = np.ones((3, 3)) / 27, 40.0, -6.0


@pytest.fixture(autouse=True)
def _own_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "home"))


def difference(kind: str) -> Any:
    """A torch module: the mean absolute difference of 3 × 3 pixels and three bands; as logits, probabilities, two channels or one
    input of six; ``restless`` sees change everywhere, ``coarse`` answers at a quarter of the size."""
    torch = pytest.importorskip("torch")

    class Difference(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 1, 3, padding=1, padding_mode="replicate")
            with torch.no_grad():
                self.conv.weight.copy_(torch.tensor(np.broadcast_to(KERNEL * GAIN, (1, 3, 3, 3)).copy()))
                self.conv.bias.fill_(8.0 if kind == "restless" else OFFSET)

    class Two(Difference):
        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return self.conv((one - other).abs())

    class Sure(Difference):
        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return torch.sigmoid(self.conv((one - other).abs()))

    class Classes(Difference):
        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            x = self.conv((one - other).abs())
            return torch.cat([-x / 2, x / 2], 1)

    class Six(Difference):
        def forward(self, both: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return self.conv((both[:, :3] - both[:, 3:]).abs())

    class Coarse(Difference):
        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return torch.nn.functional.avg_pool2d(self.conv((one - other).abs()), 4)

    class Ten(Difference):
        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
            return self.conv(one - other).repeat(1, 10, 1, 1)

    known = {"sure": Sure, "classes": Classes, "six": Six, "coarse": Coarse, "ten": Ten}
    return known.get(kind, Two)().eval()


def added(tmp_path: Path, kind: str, *, onnx: bool = False, **more: Any) -> str:
    """Adds the model as TorchScript or ONNX; its name."""
    torch = pytest.importorskip("torch")
    file = tmp_path / f"change-{kind}.{'onnx' if onnx else 'torchscript'}"
    module = difference(kind)
    if onnx:
        pytest.importorskip("onnx")
        inputs = (torch.zeros(1, 3, 64, 64),) * 2
        torch.onnx.export(module, inputs, str(file), input_names=["before", "after"], output_names=["change"], dynamo=False)
    else:
        torch.jit.script(module).save(str(file))
    return model_add(file, task="change", **more).name


def pair() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A landscape twice, the second time with a new building and a little noise; larger than one tile and no multiple of it."""
    rng = np.random.default_rng(5)
    one = texture((340, 410))
    two = one + rng.normal(0, 1, one.shape)
    two[:, 200:240, 225:290] = 15
    return one.round().astype(np.uint8), two.clip(0, 255).round().astype(np.uint8)


def change(name: str, one: NDArray[Any], two: NDArray[Any], pixel: float = 0.5, **method: Any) -> tuple[Observation, Bench]:
    b = Bench(scene(one, ROLES, scene_id="a", pixel=pixel, date="2020-01-01"),
              scene(two, ROLES, scene_id="b", pixel=pixel, date="2021-01-01"))
    arguments: dict[str, Any] = {"image_paths": ["a", "b"], "objective": "new buildings", "mode": "change",
                                 "options": {"model": name}}
    if method:
        arguments["regions_method"] = method
    return b.call("perceive", arguments), b


def expected(one: NDArray[np.uint8], two: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Logits by numpy alone: nine shifted sums of the mean absolute difference."""
    d = np.pad(np.abs(one.astype(float) - two.astype(float)).sum(axis=0) / 255, 1, mode="edge")
    total = sum(d[i:i + one.shape[1], j:j + one.shape[2]] for i in range(3) for j in range(3))
    return np.asarray(total / 27 * GAIN + OFFSET)


@pytest.mark.parametrize(("kind", "onnx"), [("two", False), ("sure", False), ("classes", False), ("six", False), ("two", True)])
def test_the_mask_is_what_the_models_arithmetic_gives(tmp_path: Path, kind: str, onnx: bool) -> None:
    one, two = pair()
    o, b = change(added(tmp_path, kind, onnx=onnx, gsd_m=(0.2, 1.0)), one, two)
    assert o.status.state == "ok", o.status.reason
    mask, valid = b.layers.read_mask(o.result.layers[0])
    logits = expected(one, two)
    assert valid.all() and np.array_equal(mask, logits >= 0)
    assert 40 * 65 * 0.9 < mask.sum() < 42 * 67 * 1.1
    p = b.layers.read_raster(o.result.layers[1]).data[0]
    # tiles hide their neighbours from the kernel at their edge pixels, which weigh least
    assert np.abs(p - 1 / (1 + np.exp(-logits))).max() < 0.02
    assert o.evidence.intermediate["model_gives"] == ("probabilities" if kind == "sure" else "logits")
    assert o.evidence.validity["is_registered"] is True and o.evidence.intermediate["shift_px"] is not None
    assert o.evidence.intermediate["tiles"] == (48 if onnx else 4)      # 64 px as the ONNX file says, else 256
    assert o.configuration.fine.endswith("/model") and o.evidence.validity["experimental"] is True
    assert any("nothing is known of its scores" in line.message for line in o.status.log)


def test_identical_dates_give_no_change(tmp_path: Path) -> None:
    one, _ = pair()
    o, _ = change(added(tmp_path, "two"), one, one.copy())
    assert o.status.state == "ok" and o.result.layers[0].n == 0 and o.evidence.intermediate["mask_px"] == 0
    assert o.evidence.intermediate["change_with_itself"] == 0.0


def test_a_coarser_answer_is_laid_on_the_pixels(tmp_path: Path) -> None:
    one, two = pair()
    o, b = change(added(tmp_path, "coarse"), one, two)
    mask, _ = b.layers.read_mask(o.result.layers[0])
    truth = np.zeros(mask.shape, dtype=bool)
    truth[200:240, 225:290] = True
    assert 2 * (mask & truth).sum() / (mask.sum() + truth.sum()) > 0.9


def test_a_given_probability_is_the_threshold(tmp_path: Path) -> None:
    one, two = pair()
    o, b = change(added(tmp_path, "two"), one, two, threshold=0.9)
    mask, _ = b.layers.read_mask(o.result.layers[0])
    assert np.array_equal(mask, expected(one, two) >= np.log(9))
    o, _ = change("change-two", one, two, threshold=3.0)
    assert o.status.state == "failed" and "probability" in o.status.reason


def test_a_model_that_sees_change_everywhere_gives_no_answer(tmp_path: Path) -> None:
    one, two = pair()
    o, _ = change(added(tmp_path, "restless"), one, two)
    assert o.status.state == "failed" and o.result.value is None
    assert "compared with itself" in o.status.reason


def test_what_no_change_model_can_do_is_said(tmp_path: Path) -> None:
    one, two = pair()
    o, _ = change(added(tmp_path, "ten"), one, two)
    assert o.status.state == "failed" and "1×10×256×256" in o.status.reason
    name = added(tmp_path, "two", gsd_m=(0.2, 1.0))
    o, _ = change(name, one, two, pixel=10.0)
    assert o.status.state == "failed" and "not for 10 m" in o.status.reason
    o, _ = change(name, one, two, kind="index_threshold", index="ndvi")
    assert o.status.state == "failed" and "not by both" in o.status.reason
    o, _ = change("nadir3", one, two)
    assert o.status.state == "failed" and ("no change model" in o.status.reason or "not for" in o.status.reason)
    b = Bench(*(scene(x[:2], ["red", "nir"], scene_id=i, pixel=0.5) for i, x in (("a", one), ("b", two))))
    o = b.call("perceive", {"image_paths": ["a", "b"], "objective": "change", "mode": "change", "options": {"model": name}})
    assert o.status.state == "failed" and "green, blue" in o.status.reason
    pickle = tmp_path / "weights.pt"
    pickle.write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match="change model"):
        model_add(pickle, task="change", allow_pickle=True)


def test_a_shift_is_told_before_the_models_word(tmp_path: Path) -> None:
    one, _ = pair()
    o, _ = change(added(tmp_path, "two"), one, np.roll(one, (4, 0), axis=(1, 2)))
    assert o.evidence.validity["is_registered"] is False and o.evidence.validity["geometry_valid"] is False
