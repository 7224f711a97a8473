"""Trains the shipped overhead detector: a YOLO11n on partially labelled nadir pictures.

Data: a folder with images/{train,val,test} and labels/{train,val,test} in YOLO text (class cx cy w h, fractions), file names
``<domain>_…``; optionally pseudo/{images,labels}/train. A domain tells which classes were annotated in it: the class loss of the
others is masked, so an unlabelled car on an airport picture is never a negative for ``vehicle``. Mosaics stay in one domain.

Every sample of every step is drawn from a generator seeded by (seed, step, place): the run is resumable at any checkpoint and
sees the same pictures as an unbroken one.
"""

from __future__ import annotations

import argparse
import math
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.tools.zoo.runtime import torch_module, ultralytics_module
from apps.tools.zoo.states import FORMAT
from apps.tools.zoo.training.checkpoints import resume_from, save_checkpoint, warm_start, write_whole
from apps.tools.zoo.training.steps import average_into, check_pictures, log_step, rate, run_parser, take_step, whole

CLASSES = ("vehicle", "plane", "ship")
# Classes annotated per domain; 0: not annotated there, left out of the class loss and of the scores.
ANNOTATED: dict[str, tuple[int, int, int]] = {
    "veh": (1, 1, 1), "bg": (1, 1, 1), "pln": (0, 1, 1), "shp": (0, 1, 1), "ucm": (1, 0, 0)}
# Share of samples per source (domain and first letters of the rest), and the range of median long sides in network pixels
# (or, with ``False``, of plain zooms) at which its pictures are shown.
SOURCES: dict[str, tuple[float, tuple[float, float], bool]] = {
    "veh_M": (0.19, (18.0, 62.0), True), "veh_DJI": (0.20, (18.0, 62.0), True), "veh_avdc": (0.03, (20.0, 60.0), True),
    "ucm": (0.17, (0.55, 1.7), False), "pln": (0.23, (20.0, 72.0), True), "shp": (0.13, (0.7, 2.2), False),
    "bg": (0.05, (0.6, 1.8), False)}
GREY = 114


def domain_of(name: str) -> str:
    return name.split("_")[0]


def source_of(name: str) -> str:
    return next((s for s in SOURCES if name.startswith(s)), domain_of(name))


@dataclass(frozen=True, slots=True)
class Picture:
    """One tile in memory: ``image`` uint8 (rows, columns, 3) BGR as cv2 reads it; ``boxes`` float32 (n, 5): class, x0, y0, x1, y1
    in pixels."""

    name: str
    image: NDArray[np.uint8]
    boxes: NDArray[np.float32]

    @property
    def median_side(self) -> float:
        if not len(self.boxes):
            return 30.0
        sides = np.maximum(self.boxes[:, 3] - self.boxes[:, 1], self.boxes[:, 4] - self.boxes[:, 2])
        return float(max(np.median(sides), 6.0))


def read_split(folder: Path, split: str) -> list[Picture]:
    """Pictures of images/<split> with labels/<split>, in name order. UserError UNREADABLE where the folder has none."""
    import cv2

    cv2.setNumThreads(1)
    out = []
    for path in sorted((folder / "images" / split).iterdir()):
        image = cv2.imread(str(path))
        if image is None:
            continue
        h, w = image.shape[:2]
        text = folder / "labels" / split / f"{path.stem}.txt"
        rows = [[float(v) for v in line.split()] for line in text.read_text().splitlines()] if text.exists() else []
        boxes = np.array([[r[0], (r[1] - r[3] / 2) * w, (r[2] - r[4] / 2) * h, (r[1] + r[3] / 2) * w, (r[2] + r[4] / 2) * h]
                          for r in rows if len(r) == 5], np.float32).reshape(-1, 5)
        out.append(Picture(path.stem, image, boxes))
    check_pictures(len(out), split)
    return out


class Sampler:
    """Draws augmented samples: (image uint8 (size, size, 3) BGR, boxes float32 (n, 5) in pixels, domain)."""

    def __init__(self, pictures: Sequence[Picture], size: int):
        self.size = size
        self.by_source: dict[str, list[Picture]] = {}
        for p in pictures:
            self.by_source.setdefault(source_of(p.name), []).append(p)
        self.sources = [s for s in SOURCES if s in self.by_source]
        weights = np.array([SOURCES[s][0] for s in self.sources])
        self.weights = weights / weights.sum()

    def sample(self, rng: np.random.Generator, *, mosaic: bool) -> tuple[NDArray[np.uint8], NDArray[np.float32], str]:
        source = self.sources[int(rng.choice(len(self.sources), p=self.weights))]
        size = self.size
        if mosaic and rng.random() < 0.35:
            canvas = np.full((size, size, 3), GREY, np.uint8)
            cx, cy = (int(size * v) for v in rng.uniform(0.3, 0.7, 2))
            boxes = []
            for x0, y0, x1, y1 in ((0, 0, cx, cy), (cx, 0, size, cy), (0, cy, cx, size), (cx, cy, size, size)):
                image, found = self._crop(rng, source, x1 - x0, y1 - y0)
                canvas[y0:y1, x0:x1] = image
                boxes.append(found + np.array([0, x0, y0, x0, y0], np.float32))
            return self._finish(rng, canvas, np.concatenate(boxes), source)
        image, found = self._crop(rng, source, size, size)
        return self._finish(rng, image, found, source)

    def _crop(self, rng: np.random.Generator, source: str, width: int, height: int
              ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        import cv2

        of = self.by_source[source]
        p = of[int(rng.integers(len(of)))]
        _, (low, high), is_size = SOURCES[source]
        zoom = math.exp(rng.uniform(math.log(low), math.log(high)))
        if is_size:
            zoom = zoom / p.median_side
        zoom = float(np.clip(zoom, 0.3, 5.0))
        aspect = float(math.exp(rng.normal(0, 0.06)))
        zx, zy = zoom * aspect, zoom / aspect
        h, w = p.image.shape[:2]
        cw, ch = width / zx, height / zy          # the window in source pixels
        if len(p.boxes) and rng.random() < 0.7:
            b = p.boxes[int(rng.integers(len(p.boxes)))]
            ox = (b[1] + b[3]) / 2 - cw * rng.uniform(0.15, 0.85)
            oy = (b[2] + b[4]) / 2 - ch * rng.uniform(0.15, 0.85)
        else:
            ox, oy = rng.uniform(0, max(w - cw, 0) or 1e-3), rng.uniform(0, max(h - ch, 0) or 1e-3)
        ox = float(np.clip(ox, min(0.0, w - cw), max(0.0, w - cw)))
        oy = float(np.clip(oy, min(0.0, h - ch), max(0.0, h - ch)))
        matrix = np.array([[zx, 0, -ox * zx], [0, zy, -oy * zy]], np.float64)
        if zoom < 0.8:                             # area averaging first: warpAffine alone would alias
            k = 1 / zoom
            blurred = cv2.GaussianBlur(p.image, (0, 0), 0.45 * k)
        else:
            blurred = p.image
        image = cv2.warpAffine(blurred, matrix, (width, height), flags=cv2.INTER_CUBIC if zoom > 1 else cv2.INTER_LINEAR,
                               borderMode=cv2.BORDER_CONSTANT, borderValue=(GREY, GREY, GREY))
        boxes = p.boxes.copy()
        if len(boxes):
            boxes[:, [1, 3]] = (boxes[:, [1, 3]] - ox) * zx
            boxes[:, [2, 4]] = (boxes[:, [2, 4]] - oy) * zy
            full = (boxes[:, 3] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 2])
            boxes[:, [1, 3]] = boxes[:, [1, 3]].clip(0, width)
            boxes[:, [2, 4]] = boxes[:, [2, 4]].clip(0, height)
            bw, bh = boxes[:, 3] - boxes[:, 1], boxes[:, 4] - boxes[:, 2]
            boxes = boxes[(bw * bh > 0.3 * full) & (bw > 3) & (bh > 3)]
        return np.asarray(image, np.uint8), boxes

    def _finish(self, rng: np.random.Generator, image: NDArray[np.uint8], boxes: NDArray[np.float32], source: str
                ) -> tuple[NDArray[np.uint8], NDArray[np.float32], str]:
        import cv2

        size = self.size
        for _ in range(int(rng.integers(4))):      # quarter turns
            image = np.ascontiguousarray(np.rot90(image))
            if len(boxes):
                c, x0, y0, x1, y1 = boxes.T
                boxes = np.stack([c, y0, size - x1, y1, size - x0], 1)
        if rng.random() < 0.5:
            image = np.ascontiguousarray(image[:, ::-1])
            if len(boxes):
                boxes[:, [1, 3]] = size - boxes[:, [3, 1]]
        out: NDArray[Any] = image.astype(np.float32)
        if rng.random() < 0.8:                     # sun, haze and sensor: gain, offset, gamma, tint
            out = (out - 114) * rng.uniform(0.65, 1.4) + 114 + rng.uniform(-28, 28)
            out = out * rng.uniform(0.92, 1.08, 3).astype(np.float32)
            out = 255 * (out.clip(0, 255) / 255) ** rng.uniform(0.75, 1.35)
        if rng.random() < 0.35:
            grey = out.mean(2, keepdims=True)
            out = grey + (out - grey) * rng.uniform(0.0, 1.5)
        if rng.random() < 0.15:
            out = cv2.GaussianBlur(out, (0, 0), float(rng.uniform(0.4, 1.3)))
        if rng.random() < 0.15:
            out = out + rng.normal(0, rng.uniform(2, 9), out.shape).astype(np.float32)
        image = out.clip(0, 255).astype(np.uint8)
        if rng.random() < 0.2:
            ok, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(35, 85))])
            if ok:
                image = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)
        return image, boxes.astype(np.float32), domain_of(source)


def batches(sampler: Sampler, seed: int, start: int, steps: int, size: int, close_mosaic: int) -> Iterator[dict[str, Any]]:
    """Batches from step ``start`` on, drawn ahead by one thread."""
    torch = torch_module()
    ahead: queue.Queue[dict[str, Any]] = queue.Queue(maxsize=3)
    stop = threading.Event()

    def draw() -> None:
        for step in range(start, steps):
            images, masks = [], []
            rows: list[list[float]] = []
            for i in range(size):
                rng = np.random.default_rng([seed, step, i])
                image, boxes, domain = sampler.sample(rng, mosaic=step < close_mosaic)
                images.append(image[:, :, ::-1])
                masks.append(ANNOTATED[domain])
                s = float(sampler.size)
                rows.extend([i, b[0], (b[1] + b[3]) / 2 / s, (b[2] + b[4]) / 2 / s, (b[3] - b[1]) / s, (b[4] - b[2]) / s]
                            for b in boxes)
            t = torch.tensor(rows, dtype=torch.float32).view(-1, 6)
            stacked = np.ascontiguousarray(np.stack(images).transpose(0, 3, 1, 2))
            item = {"img": torch.from_numpy(stacked), "batch_idx": t[:, 0], "cls": t[:, 1:2], "bboxes": t[:, 2:6],
                    "mask": torch.tensor(masks, dtype=torch.float32).view(size, 1, len(CLASSES))}
            while not stop.is_set():
                try:
                    ahead.put(item, timeout=1)
                    break
                except queue.Full:
                    continue
            if stop.is_set():
                return

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        for _ in range(start, steps):
            yield ahead.get()
    finally:
        stop.set()


def build(init: Path | None) -> Any:
    """A YOLO11n for CLASSES; weights from ``init`` (an Ultralytics .pt of the user's own, or a state of this project)."""
    ultralytics_module()
    torch = torch_module()
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolo11n.yaml", ch=3, nc=len(CLASSES), verbose=False)
    if init is not None:
        if init.suffix == ".pt":
            from ultralytics import YOLO

            state = YOLO(str(init)).model.float().state_dict()
        else:
            state = {k: v.float() for k, v in torch.load(init, map_location="cpu", weights_only=True)["state"].items()}
        warm_start(model, state)
    model.args = get_cfg()
    model.names = dict(enumerate(CLASSES))
    return model


def train(data: Path, out: Path, *, init: Path | None, steps: int, batch: int, size: int, lr: float, freeze: int, seed: int,
          resume: bool, save_every: int = 100, threads: int = 2, stop_after: int | None = None) -> Path:
    """Runs or resumes the training; returns the path of the final weights (a state dict in half precision).

    ``out`` gets last.pt (to resume from; written whole, then renamed), log.jsonl, and final.rsw.
    """
    torch = torch_module()
    ultralytics_module()
    from ultralytics.utils.loss import v8DetectionLoss

    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures = read_split(data, "train")
    if (data / "pseudo/images/train").is_dir():
        pictures += read_split(data / "pseudo", "train")
    sampler = Sampler(pictures, size)
    print({s: len(v) for s, v in sampler.by_source.items()}, flush=True)
    model = build(init).to(device)
    layers = model.model
    for i, layer in enumerate(layers):
        for p in layer.parameters():
            p.requires_grad = i >= freeze
    layers[-1].dfl.requires_grad_(False)
    decay = [p for n, p in model.named_parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for n, p in model.named_parameters() if p.requires_grad and p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 5e-4}, {"params": plain, "weight_decay": 0.0}], lr=lr)
    last = out / "last.pt"
    mean, start = resume_from(last, model, optimizer, resume=resume, device=device)
    criterion = v8DetectionLoss(model)
    model.to(memory_format=torch.channels_last)
    warm, close = max(1, min(80, steps // 10)), int(steps * 0.88)
    began, sums = time.time(), np.zeros(3)
    for step, item in enumerate(batches(sampler, seed, start, steps, batch, close), start=start):
        # ultralytics leaves torch on one thread of two; take them back
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        scale = min(1.0, (step + 1) / warm) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = lr * scale
        model.train()
        for layer in layers[:freeze]:
            layer.eval()
        x = item["img"].to(device).to(memory_format=torch.channels_last).float() / 255
        criterion.class_weights = item["mask"].to(device)
        losses, items = criterion(model(x), {k: v.to(device) for k, v in item.items()})
        loss = losses.sum()
        take_step(loss, optimizer, decay + plain, most_norm=10.0)
        average_into(mean, model, step, most=0.998, lag=20)
        sums += np.array([float(v) for v in (items.values() if isinstance(items, dict) else items)])[:3]
        if (step + 1) % 20 == 0:
            log_step(out, step + 1, steps, {"box_cls_dfl": [round(v / 20, 3) for v in sums.tolist()]}, began=began,
                     taken=step + 1 - start, digits=2)
            sums[:] = 0
        if (step + 1) % save_every == 0 or step + 1 in (steps, stop_after):
            save_checkpoint(last, model, optimizer, mean, step + 1)
            write_state(mean, out / "ema.rsw")
        if step + 1 == stop_after:
            break
    final = out / "final.rsw"
    write_state(mean, final)
    return final


def write_state(state: dict[str, Any], path: Path) -> None:
    """Weights as tensors alone, in half precision: readable with ``weights_only``, no code inside."""
    half = {k: (v.half() if v.dtype.is_floating_point else v).contiguous().cpu() for k, v in state.items()}
    write_whole({"format": FORMAT, "architecture": "yolo11n", "classes": list(CLASSES), "state": half}, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--init", type=Path, default=None, help="warm start: an Ultralytics .pt that you trust, or .rsw weights")
    parser.add_argument("--steps", type=whole(1), default=1500)
    parser.add_argument("--batch", type=whole(1), default=16)
    parser.add_argument("--imgsz", type=whole(32, step=32), default=416, help="side of a sample in pixels")
    parser.add_argument("--lr", type=rate, default=1.5e-3)
    parser.add_argument("--freeze", type=whole(0), default=5, help="first layers kept as they are")
    parser.add_argument("--threads", type=whole(1), default=2, help="of torch; 1 where the cores are shared with other work")


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The recipe's options; needs no torch."""
    return run_parser(__doc__, add_arguments, prog)


def run(a: argparse.Namespace) -> None:
    """Trains as the options say and prints where the weights lie."""
    print(train(a.data, a.out, init=a.init, steps=a.steps, batch=a.batch, size=a.imgsz, lr=a.lr, freeze=a.freeze, seed=a.seed,
                resume=a.resume, threads=a.threads))


def main(argv: Sequence[str] | None = None) -> None:
    run(parser().parse_args(argv))


if __name__ == "__main__":
    main()
