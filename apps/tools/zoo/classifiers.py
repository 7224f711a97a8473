"""Scene classifiers: pictures in, calibrated probabilities and a scope score out; one load a process, behind a lock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ToolAbstainedError
from apps.tools.zoo.cards import ModelCard
from apps.tools.zoo.registry import verified
from apps.tools.zoo.runtime import OneLoad, device_name, torch_module

# architecture → (input side in pixels, mean, deviation) over RGB in 0..1
INPUT: dict[str, tuple[int, tuple[float, float, float], tuple[float, float, float]]] = {
    "efficientnet_lite0": (224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "lite0_short": (64, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "small_resnet": (64, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))}
VIEWS = 4
_loaded: OneLoad[Classifier] = OneLoad()


class Classifier:
    """A classifier of this project's own format, on ``device``."""

    def __init__(self, card: ModelCard, path: Path, device: str = ""):
        from apps.tools.zoo.states import load_state

        self.card, self.device = card, device or device_name()
        model, about = load_state(path)
        self.model = model.to(self.device)
        self.architecture = str(about["architecture"])
        held = about["scope"]
        self.scope = None if held is None else {k: v.double().numpy() for k, v in held.items()}
        if tuple(about["classes"]) != card.class_names or self.architecture not in INPUT:
            raise ToolAbstainedError(f"The weights of {card.name} know other classes than its card says.", code="MODEL_MISSING")

    def look(self, images: Sequence[NDArray[np.uint8]], batch: int = 16, views: int = VIEWS
             ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(logits (n, classes), features (n, d)): means over quarter turns of pictures uint8 (rows, columns, 3) RGB of any
        size."""
        torch = torch_module()
        logits, features = [], []
        with _loaded.lock, torch.inference_mode():
            for at in range(0, len(images), batch):
                seen = self.seen(images[at:at + batch], views)
                logits.append(seen[0].double().cpu().numpy())
                features.append(seen[1].double().cpu().numpy())
        return np.concatenate(logits), np.concatenate(features)

    def seen(self, images: Sequence[NDArray[np.uint8]], views: int) -> tuple[Any, Any]:
        """(logits, features) of one batch as tensors on the device."""
        torch = torch_module()
        side, mean, deviation = INPUT[self.architecture]
        middle, spread = torch.tensor(mean).view(1, 3, 1, 1), torch.tensor(deviation).view(1, 3, 1, 1)
        x = ((torch.cat([_sized(i, side) for i in images]) - middle) / spread).to(self.device)
        features = [self.model.features(torch.rot90(x, k, (2, 3))) for k in range(views)]
        return torch.stack([self.model.head(f) for f in features]).mean(0), torch.stack(features).mean(0)

    def probabilities(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Softmax at the card's temperature."""
        z = logits / (self.card.temperature or 1.0)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def scope_score(self, features: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Low where a picture is like none of the classes; None where the weights hold no scope.

        Minus the squared distance to the nearest class centre in the training pictures' principal subspace, whitened within
        classes (Lee et al. 2018), and the distance from that subspace (Wang et al. 2022), each over what is usual in training.
        """
        if self.scope is None:
            return None
        s = self.scope
        centred = features - s["mean"]
        inside = centred @ s["basis"]
        rest = (centred**2).sum(1) - (inside**2).sum(1)
        white = inside @ s["whiten"]
        near = ((white[:, None] - s["centres"][None]) ** 2).sum(2).min(1)
        return np.asarray(-(near / s["usual"][0] + rest / s["usual"][1]) / 2)


def _sized(image: NDArray[np.uint8], side: int) -> object:
    torch = torch_module()
    x = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()[None] / 255
    if x.shape[-2:] != (side, side):
        x = torch.nn.functional.interpolate(x, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
    return x


def load_classifier(card: ModelCard, path: Path) -> Classifier:
    """The classifier of a card, loaded once a process. Raises ToolAbstainedError (MODEL_MISSING) where it cannot be loaded."""
    if card.format != "rsw":
        raise ToolAbstainedError(f"{card.name}: scene classifiers are read in the format rsw only.", code="MODEL_MISSING")
    return _loaded.get((card.name, card.sha256), lambda: Classifier(card, verified(card, path)))
