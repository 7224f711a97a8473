"""Weights of this project's own format (``.rsw``): tensors alone, read with ``weights_only``, no code inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.core.errors import ToolAbstainedError
from apps.tools.zoo.runtime import torch_module, ultralytics_module

FORMAT = "rsure-state/1"


def load_state(path: Path) -> tuple[Any, dict[str, Any]]:
    """(torch module in eval mode, {'architecture', 'classes', 'scope'}) of an ``.rsw`` file.

    Raises ToolAbstainedError where the file is no such state or its architecture is unknown.
    """
    torch = torch_module()
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:
        raise ToolAbstainedError(f"{path.name} holds no readable weights: {type(e).__name__}.", code="MODEL_MISSING") from e
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise ToolAbstainedError(f"{path.name} is not of the format {FORMAT}.", code="MODEL_MISSING")
    packed: dict[str, Any] = saved["state"]
    state = {}
    for name, value in packed.items():
        if name.endswith(":scale"):
            continue
        if value.dtype == torch.int8:
            scale = packed[name + ":scale"]
            value = value.float() * scale.view(-1, *[1] * (value.ndim - 1))
        state[name] = value.float() if value.dtype.is_floating_point else value
    classes = [str(c) for c in saved["classes"]]
    architecture = str(saved["architecture"])
    model = _build(architecture, classes)
    model.load_state_dict(state)
    model.eval()
    for p in model.parameters():
        p.requires_grad_(False)
    return model, {"architecture": architecture, "classes": classes, "scope": saved.get("scope")}


def _build(architecture: str, classes: list[str]) -> Any:
    from apps.tools.zoo.networks import efficientnet_lite0, lite0_short, small_resnet

    if architecture == "efficientnet_lite0":
        return efficientnet_lite0(len(classes))
    if architecture == "lite0_short":
        return lite0_short(len(classes))
    if architecture == "small_resnet":
        return small_resnet(len(classes))
    if architecture == "yolo11n":
        ultralytics_module()
        from ultralytics.nn.tasks import DetectionModel

        model = DetectionModel("yolo11n.yaml", ch=3, nc=len(classes), verbose=False)
        model.names = dict(enumerate(classes))
        model.task = "detect"
        return model
    raise ToolAbstainedError(f"no architecture {architecture!r} is known here.", code="MODEL_MISSING")


def write_ultralytics(source: Path, target: Path, *, side_px: int = 640) -> Path:
    """The YOLO of an ``.rsw`` file as an Ultralytics ``.pt`` in float32: for exports (ONNX, TorchScript) and for other programs.

    Raises ToolAbstainedError where torch or ultralytics is off or the file holds no such network.
    """
    torch = torch_module()
    ultralytics_module()
    from ultralytics.cfg import get_cfg

    network, about = load_state(source)
    if not str(about["architecture"]).startswith("yolo"):
        raise ToolAbstainedError(f"{source.name} holds no YOLO.", code="MODEL_MISSING")
    network.args = vars(get_cfg())
    torch.save({"model": network, "train_args": {"task": "detect", "imgsz": side_px}}, target)
    return target
