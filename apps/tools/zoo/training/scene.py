"""Trains a scene classifier: EfficientNet-Lite0 fine-tuned (UC Merced), or a small residual network from nothing (EuroSAT).

The data lie in folders <split>/<class>/*.jpg (train, val, test), or in <class>/*.jpg, which are split by a digest of the file's
name: 70 % train, 10 % val, 20 % test, the same on every machine. Neighbours on the ground may fall on both sides of such a split.
Every picture of every step is drawn from a generator seeded by (seed, step, place), so a run is resumable. The temperature is
fitted on val; the test split is only scored.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.tools.zoo.classifiers import INPUT
from apps.tools.zoo.networks import efficientnet_lite0, lite0_short, small_resnet
from apps.tools.zoo.runtime import torch_module
from apps.tools.zoo.states import FORMAT, load_state
from apps.tools.zoo.training.checkpoints import resume_from, save_checkpoint, warm_start, write_whole
from apps.tools.zoo.training.patches import train_patches
from apps.tools.zoo.training.steps import (
    average_into,
    batch_at,
    check_batch,
    check_pictures,
    log_step,
    rate,
    run_parser,
    seed_step,
    take_step,
    whole,
)


def build(architecture: str, n_classes: int) -> Any:
    known = {"efficientnet_lite0": efficientnet_lite0, "lite0_short": lite0_short, "small_resnet": small_resnet}
    return known[architecture](n_classes)


def split_of(name: str) -> str:
    """The split of a file by the digest of its name: tenths 0 to 6 train, 7 val, 8 and 9 test."""
    tenth = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10
    return "train" if tenth < 7 else "val" if tenth == 7 else "test"


def read_split(data: Path, split: str) -> tuple[list[NDArray[np.uint8]], NDArray[np.int64], list[str]]:
    """(pictures as RGB uint8, class numbers, class names) of data/<split>/<class>/, or of data/<class>/ split by ``split_of``.

    UserError UNREADABLE where there is none, or one cannot be read.
    """
    from PIL import Image, UnidentifiedImageError

    whole = not (data / split).is_dir()
    top = data if whole else data / split
    classes = sorted(p.name for p in top.iterdir() if p.is_dir())
    pictures, numbers = [], []
    for k, name in enumerate(classes):
        for path in sorted((top / name).iterdir()):
            if whole and split_of(path.name) != split:
                continue
            try:
                with Image.open(path) as image:
                    pictures.append(np.asarray(image.convert("RGB")))
            except (UnidentifiedImageError, ValueError) as error:
                raise UserError("UNREADABLE", f"{name}/{path.name} is no picture that can be read.", str(type(error).__name__),
                                "Take it out of the folder, or export it again.") from error
            numbers.append(k)
    check_pictures(len(pictures), split)
    return pictures, np.array(numbers), classes


def augment(image: NDArray[np.uint8], side: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """One random view (side, side, 3), float 0..255: a turned and mirrored crop with other light."""
    import cv2

    h, w = image.shape[:2]
    cut = math.sqrt(rng.uniform(0.45, 1.0)) * min(h, w)
    zx = side / cut * math.exp(rng.normal(0, 0.08))
    zy = side / cut * math.exp(rng.normal(0, 0.08))
    if rng.random() < 0.5:
        zx = -zx
    turn = math.radians(90 * int(rng.integers(4)) + rng.normal(0, 6))
    c, s = math.cos(turn), math.sin(turn)
    a = np.array([[c * zx, -s * zy], [s * zx, c * zy]])
    room = max(0.0, min(h, w) - cut) / 2
    centre = np.array([w / 2 + rng.uniform(-room, room), h / 2 + rng.uniform(-room, room)])
    m = np.concatenate([a, (np.array([side / 2, side / 2]) - a @ centre)[:, None]], 1)
    out = cv2.warpAffine(image, m, (side, side), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101).astype(np.float32)
    out = (out - 110) * rng.uniform(0.7, 1.35) + 110 + rng.uniform(-22, 22)
    out = out * rng.uniform(0.93, 1.07, 3).astype(np.float32)
    grey = out.mean(2, keepdims=True)
    out = grey + (out - grey) * rng.uniform(0.5, 1.3)
    return np.asarray(out.clip(0, 255), np.float32)


def as_input(images: Sequence[NDArray[Any]], architecture: str) -> Any:
    """Pictures (rows, columns, 3) 0..255 → normalised tensor (n, 3, side, side)."""
    import cv2

    torch = torch_module()
    side, mean, deviation = INPUT[architecture]
    x = np.stack([i if i.shape[:2] == (side, side) else cv2.resize(np.asarray(i), (side, side), interpolation=cv2.INTER_AREA)
                  for i in images]).astype(np.float32) / 255
    x = (x - np.array(mean, np.float32)) / np.array(deviation, np.float32)
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


def logits_of(model: Any, images: Sequence[NDArray[Any]], architecture: str, *, views: int = 4, batch: int = 32
              ) -> NDArray[np.float64]:
    """Mean logits (n, classes) over ``views`` quarter turns."""
    torch = torch_module()
    model.eval()
    out = []
    with torch.inference_mode():
        for at in range(0, len(images), batch):
            x = as_input(images[at:at + batch], architecture)
            out.append(torch.stack([model(torch.rot90(x, k, (2, 3))) for k in range(views)]).mean(0).double().numpy())
    return np.concatenate(out)


def softmax(logits: NDArray[np.float64], temperature: float = 1.0) -> NDArray[np.float64]:
    z = logits / temperature
    z = z - z.max(1, keepdims=True)
    e = np.exp(z)
    return np.asarray(e / e.sum(1, keepdims=True))


def fit_temperature(logits: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """The temperature of least negative log-likelihood (Guo et al. 2017), by a fine scan."""
    scan = np.exp(np.linspace(math.log(0.2), math.log(5.0), 400))
    nll = [-np.log(softmax(logits, t)[np.arange(len(truth)), truth] + 1e-12).mean() for t in scan]
    return float(scan[int(np.argmin(nll))])


def calibration_error(p: NDArray[np.float64], truth: NDArray[np.int64], bins: int = 10) -> float:
    """Expected calibration error of the top class over equal-width bins."""
    top, right = p.max(1), p.argmax(1) == truth
    at = np.minimum((top * bins).astype(int), bins - 1)
    return float(sum((at == b).mean() * abs(top[at == b].mean() - right[at == b].mean()) for b in range(bins) if (at == b).any()))


def scores(model: Any, data: Path, architecture: str) -> dict[str, Any]:
    """Accuracy, top-3, calibration and confusions on test, at the temperature fitted on val."""
    val, val_truth, classes = read_split(data, "val")
    test, truth, _ = read_split(data, "test")
    temperature = fit_temperature(logits_of(model, val, architecture), val_truth)
    began = time.time()
    z = logits_of(model, test, architecture)
    each = (time.time() - began) / len(test)
    p = softmax(z, temperature)
    order = np.argsort(-p, axis=1)
    hit = order[:, 0] == truth
    wrong = [(classes[t], classes[o]) for t, o in zip(truth[~hit], order[~hit, 0], strict=True)]
    return {"temperature": round(temperature, 4), "n_test": len(test), "accuracy": round(float(hit.mean()), 4),
            "top3": round(float((order[:, :3] == truth[:, None]).any(1).mean()), 4),
            "ece": round(calibration_error(p, truth), 4), "ece_uncalibrated": round(calibration_error(softmax(z), truth), 4),
            "per_class": {c: round(float(hit[truth == k].mean()), 3) for k, c in enumerate(classes)},
            "confusions": [[a, b, wrong.count((a, b))] for a, b in sorted(set(wrong), key=lambda q: -wrong.count(q))[:10]],
            "seconds_per_picture": round(each, 4)}


def train(data: Path, out: Path, *, architecture: str, init: Path | None, epochs: int, batch: int, lr: float, seed: int,
          resume: bool, threads: int = 2, stop_after: int | None = None) -> Path:
    """Runs or resumes the training; ``out`` gets last.pt, log.jsonl, scores.json and final.rsw (returned)."""
    torch = torch_module()
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    out.mkdir(parents=True, exist_ok=True)
    pictures, truth, classes = read_split(data, "train")
    check_batch(len(pictures), batch)
    side = INPUT[architecture][0]
    model = build(architecture, len(classes))
    if init is not None:
        given = torch.load(init, map_location="cpu", weights_only=True)
        warm_start(model, given)
    if side == 64:
        stack = np.stack([p if p.shape[:2] == (side, side) else _resized(p, side) for p in pictures])
        mean = train_patches(stack, truth, model, out, architecture=architecture, epochs=epochs, batch=batch, lr=lr, seed=seed,
                             resume=resume, is_warm=init is not None, stop_after=stop_after)
        return _finished(mean, data, out, architecture, classes)
    head = [p for n, p in model.named_parameters() if n.startswith(("_fc", "fc"))]
    body = [p for n, p in model.named_parameters() if not n.startswith(("_fc", "fc"))]
    factor = 0.4 if init is not None else 1.0
    optimizer = torch.optim.AdamW([{"params": body}, {"params": head}], lr=lr, weight_decay=0.02)
    steps = epochs * (len(pictures) // batch)
    last = out / "last.pt"
    mean, start = resume_from(last, model, optimizer, resume=resume)
    model.to(memory_format=torch.channels_last)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    began = time.time()
    total = 0.0
    for step in range(start, steps):
        at = batch_at(seed, step, len(pictures), batch)
        views = [augment(pictures[j], side, np.random.default_rng([seed, step, i])) for i, j in enumerate(at)]
        x, y = as_input(views, architecture).to(memory_format=torch.channels_last), torch.from_numpy(truth[at])
        scale = min(1.0, (step + 1) / (steps * 0.08)) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = lr * factor * scale, lr * scale
        model.train()
        seed_step(seed, step)
        rng = np.random.default_rng([seed, step, 10_000])
        if rng.random() < 0.5 and step < steps * 0.85:     # mix-up (Zhang et al. 2018)
            share, other = float(rng.beta(0.3, 0.3)), torch.from_numpy(rng.permutation(batch))
            logits = model(x * share + x[other] * (1 - share))
            loss = share * loss_of(logits, y) + (1 - share) * loss_of(logits, y[other])
        else:
            loss = loss_of(model(x), y)
        take_step(loss, optimizer, model.parameters(), most_norm=5.0)
        average_into(mean, model, step, most=0.995, lag=10)
        total += float(loss.detach())
        if (step + 1) % 20 == 0:
            log_step(out, step + 1, steps, {"loss": round(total / 20, 3)}, began=began, taken=step + 1 - start, digits=2)
            total = 0.0
        if (step + 1) % 60 == 0 or step + 1 in (steps, stop_after):
            save_checkpoint(last, model, optimizer, mean, step + 1)
        if step + 1 == stop_after:
            break
    return _finished(mean, data, out, architecture, classes)


def _resized(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    import cv2

    return np.asarray(cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA), np.uint8)


def _finished(mean: dict[str, Any], data: Path, out: Path, architecture: str, classes: Sequence[str]) -> Path:
    """Writes final.rsw and its scores.json; the scores are those of the packed weights that are shipped."""
    final = out / "final.rsw"
    write_state(mean, final, architecture, classes)
    result = scores(load_state(final)[0], data, architecture)
    (out / "scores.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result), flush=True)
    return final


def fit_scope(features: NDArray[np.float64], truth: NDArray[np.int64], k: int = 96) -> dict[str, NDArray[np.float64]]:
    """What ``Classifier.scope_score`` needs, from training features (n, d): mean, basis (d, k), whiten (k, k), centres (c, k) and
    the usual values of the two distances."""
    mean = features.mean(0)
    centred = features - mean
    _, _, v = np.linalg.svd(centred, full_matrices=False)
    basis = v[:k].T
    inside = centred @ basis
    centres = np.stack([inside[truth == c].mean(0) for c in range(int(truth.max()) + 1)])
    within = inside - centres[truth]
    covariance = within.T @ within / len(within)
    covariance += 0.1 * np.trace(covariance) / k * np.eye(k)
    whiten = np.linalg.inv(np.linalg.cholesky(covariance)).T
    near = (((inside @ whiten)[:, None] - (centres @ whiten)[None]) ** 2).sum(2).min(1)
    rest = (centred**2).sum(1) - (inside**2).sum(1)
    return {"mean": mean, "basis": basis, "whiten": whiten, "centres": centres @ whiten,
            "usual": np.array([np.median(near), np.median(rest)])}


def add_scope(path: Path, scope: dict[str, NDArray[np.float64]]) -> None:
    """Writes the scope into a file of weights, in half precision where it is large."""
    torch = torch_module()
    saved = torch.load(path, map_location="cpu", weights_only=True)
    saved["scope"] = {k: torch.from_numpy(np.ascontiguousarray(v)).to(torch.float16 if v.size > 20_000 else torch.float32)
                      for k, v in scope.items()}
    write_whole(saved, path)


def write_state(state: dict[str, Any], path: Path, architecture: str, classes: Sequence[str]) -> None:
    """Weights as tensors alone: big matrices as int8 with a scale per output channel, the rest in half precision."""
    torch = torch_module()
    packed: dict[str, Any] = {}
    for k, v in state.items():
        v = v.detach().cpu()
        if v.dtype.is_floating_point and v.ndim >= 2 and v.numel() >= 4096 and v[0].numel() >= 16:
            scale = v.flatten(1).abs().amax(1).clamp(min=1e-8) / 127
            packed[k] = (v / scale.view(-1, *[1] * (v.ndim - 1))).round().clamp(-127, 127).to(torch.int8).contiguous()
            packed[k + ":scale"] = scale.float()
        else:
            packed[k] = v.half().contiguous() if v.dtype.is_floating_point and "running_var" not in k else v.contiguous()
    write_whole({"format": FORMAT, "architecture": architecture, "classes": list(classes), "state": packed}, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--architecture", choices=sorted(INPUT), default="efficientnet_lite0")
    parser.add_argument("--init", type=Path, default=None, help="ImageNet weights as a state dict")
    parser.add_argument("--epochs", type=whole(1), default=16)
    parser.add_argument("--batch", type=whole(1), default=None, help="32 for efficientnet_lite0, else 64")
    parser.add_argument("--lr", type=rate, default=None, help="0.002 (AdamW); 0.1 (SGD) without --init on patches")
    parser.add_argument("--threads", type=whole(1), default=2)


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The recipe's options; needs no torch."""
    return run_parser(__doc__, add_arguments, prog)


def run(a: argparse.Namespace) -> None:
    """Trains as the options say and prints where the weights lie."""
    small = INPUT[a.architecture][0] == 64
    print(train(a.data, a.out, architecture=a.architecture, init=a.init, epochs=a.epochs,
                batch=a.batch or (64 if small else 32), lr=a.lr or (0.1 if small and a.init is None else 2e-3), seed=a.seed,
                resume=a.resume, threads=a.threads))


def main(argv: Sequence[str] | None = None) -> None:
    run(parser().parse_args(argv))


if __name__ == "__main__":
    main()
