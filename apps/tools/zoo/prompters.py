"""SAM-type models that a person adds: a picture and prompts in, one mask out; one load a process, behind a lock.

Their files hold tensors alone and are read as such (``weights_only``): nothing in them can run. The network is the library's
(Ultralytics: SAM, MobileSAM, SAM 2), chosen by the architecture that the card names. What the encoder made of a picture is kept,
so that a further prompt on the same picture runs the decoder alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.digests import digest_bytes
from apps.core.errors import ToolAbstainedError
from apps.tools.zoo.cards import ModelCard
from apps.tools.zoo.registry import models, verified
from apps.tools.zoo.runtime import OneLoad, device_name, torch_module, ultralytics_module

# What one model may keep of pictures it has looked at: about 30 of SAM's embeddings, or 7 of SAM 2's.
KEPT_BYTES = 128 * 2**20
_loaded: OneLoad[Prompter] = OneLoad()


def prompt_models() -> list[tuple[ModelCard, Path]]:
    """(card, weights) of the promptable models at hand."""
    return [(card, path) for card, path in models() if card.task == "prompt"]


def load_prompter(card: ModelCard, path: Path) -> Prompter:
    """The model of a card, loaded once a process. ToolAbstainedError (MODEL_MISSING) where it cannot be loaded."""
    return _loaded.get((card.name, card.sha256), lambda: Prompter(card, verified(card, path)))


class Embeddings:
    """What an encoder made of the latest pictures, by the digest of their pixels; the longest unused go first, so that all
    together hold at most ``limit_bytes``."""

    def __init__(self, limit_bytes: int = KEPT_BYTES):
        self.limit_bytes, self.n_bytes, self.n_made = limit_bytes, 0, 0
        self._held: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def of(self, key: str, make: Callable[[], Any]) -> Any:
        """The embedding of that key, made where it is not held; one larger than the limit is not kept."""
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key][0]
        made, self.n_made = make(), self.n_made + 1
        size = _n_bytes(made)
        if size <= self.limit_bytes:
            self._held[key], self.n_bytes = (made, size), self.n_bytes + size
            while self.n_bytes > self.limit_bytes:
                self.n_bytes -= self._held.popitem(last=False)[1][1]
        return made

    def __len__(self) -> int:
        return len(self._held)


def _n_bytes(tensors: Any) -> int:
    """Bytes of a tensor, or of all in a dictionary or list of them."""
    if isinstance(tensors, dict):
        return sum(_n_bytes(v) for v in tensors.values())
    if isinstance(tensors, (list, tuple)):
        return sum(_n_bytes(v) for v in tensors)
    return int(tensors.nelement() * tensors.element_size())


class Prompter:
    """One promptable model, ready to look. ``embeddings`` holds what its encoder made; its key is the picture's own pixels, which
    asset, window, bands and stretch all decide."""

    def __init__(self, card: ModelCard, path: Path):
        torch = torch_module()
        ultralytics_module()
        self.card, self.device = card, device_name()
        self.embeddings, self._picture = Embeddings(), ""
        threads = torch.get_num_threads()
        try:
            saved = torch.load(path, map_location="cpu", weights_only=True)
            state = saved["model"] if isinstance(saved.get("model"), dict) else saved
            network = _builders()[card.architecture]()
            network.load_state_dict(state)
            self._predictor = self._ready(network)
        except ToolAbstainedError:
            raise
        except Exception as e:   # whatever a stranger's file raises
            raise ToolAbstainedError(f"{card.name} cannot be loaded as {card.architecture or 'a promptable model'}: "
                                     f"{type(e).__name__}: {str(e)[:160]}", code="MODEL_MISSING",
                                     needs={"model": card.name}) from e
        finally:
            torch.set_num_threads(threads)

    def _ready(self, network: Any) -> Any:
        from ultralytics.models.sam.predict import Predictor, SAM2Predictor

        kind = SAM2Predictor if self.card.architecture.startswith("sam2") else Predictor
        predictor = kind(overrides={"mode": "predict", "imgsz": self.card.tile_px, "save": False, "verbose": False,
                                    "device": self.device})
        predictor.setup_model(model=network, verbose=False)
        # a mask of low quality is told with its score, not left out
        predictor.args.conf = -1e9
        encode = predictor.get_im_features
        predictor.get_im_features = lambda im: self.embeddings.of(self._picture, lambda: encode(im))
        return predictor

    def mask(self, image: NDArray[np.uint8], *, inside: Sequence[tuple[float, float]] = (),
             outside: Sequence[tuple[float, float]] = (), box: tuple[float, float, float, float] | None = None
             ) -> tuple[NDArray[np.bool_], float]:
        """(mask (rows, columns), the model's own guess of its IoU) of one thing on ``image``, uint8 (rows, columns, 3) RGB.

        Points (x, y) and the box are in pixels of the image. ToolAbstainedError where the model gives no mask.
        """
        torch = torch_module()
        points = [[*map(float, p)] for p in (*inside, *outside)]
        labels = [1] * len(inside) + [0] * len(outside)
        given: dict[str, Any] = {"points": [points], "labels": [labels]} if points else {}
        if box is not None:
            given["bboxes"] = [list(map(float, box))]
        threads = torch.get_num_threads()
        picture = digest_bytes(repr(image.shape).encode() + image.tobytes())
        with _loaded.lock:
            self._picture = picture
            self._predictor.reset_image()
            found = self._predictor(source=np.ascontiguousarray(image[:, :, ::-1]), **given)[0]
            torch.set_num_threads(threads)
        if found.masks is None or not len(found.masks):
            raise ToolAbstainedError(f"{self.card.name} gave no mask for these prompts.", code="TOOL_FAILED")
        best = int(found.boxes.conf.argmax())
        return found.masks.data[best].cpu().numpy().astype(bool), float(found.boxes.conf[best])


def _builders() -> dict[str, Callable[[], Any]]:
    from ultralytics.models.sam import build

    return {"sam_h": build.build_sam_vit_h, "sam_l": build.build_sam_vit_l, "sam_b": build.build_sam_vit_b,
            "mobile_sam": build.build_mobile_sam, "sam2_t": build.build_sam2_t, "sam2_s": build.build_sam2_s,
            "sam2_b": build.build_sam2_b, "sam2_l": build.build_sam2_l}
