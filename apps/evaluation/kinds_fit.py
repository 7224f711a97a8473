"""Fits the verifier's second look at kinds of place (``apps.verification.kinds``) on labelled pictures; says how often it errs.

A folder holds <split>/<class>/*.jpg, or <class>/*.jpg that are split by a digest of the file's name (tenths 0 to 6 train, 7 val,
8 and 9 test): the same split as the tools' classifiers have, so that neither saw the other's test. Train and val are parted into
five folds; five networks, each of the four other folds, answer together, and thresholds come from what each says of its own fold.
Test is only scored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.tools.zoo.training.scene import split_of
from apps.verification.kinds import MOST_DEVIATIONS, KindLook, figures_of, softmax, view_of

FOLDS, HIDDEN = 5, 48
# Of right labels this share is contradicted out of fold; of the likeliest wrong ones this share is agreed to. It was 0.015 until
# the test showed that five networks together are surer than each alone: 3 of 14 mistakes of the tool were borne.
CONTRADICTED, AGREED = 0.002, 0.003
# Views are odd beyond what this share of the labelled ones is.
ODD = 0.997


def labelled(folder: Path, most: int | None = None) -> list[tuple[str, str, Path]]:
    """(split, class, file) of the folder; with ``most`` so many a class and split, those of the least digests."""
    is_split = (folder / "train").is_dir()
    if not folder.is_dir():
        raise UserError("BAD_ARGUMENT", f"There is no folder {folder.name}.", "The path leads nowhere.", "Check the path.")
    found: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(folder.glob("*/*/*.jpg") if is_split else folder.glob("*/*.jpg")):
        split = path.parts[-3] if is_split else split_of(path.name)
        found.setdefault((split, path.parent.name), []).append(path)
    return [
        (split, kind, path)
        for (split, kind), paths in sorted(found.items())
        for path in sorted(paths, key=lambda p: hashlib.sha256(p.name.encode()).hexdigest())[:most]
    ]


def figures(files: list[tuple[str, str, Path]], side: int, progress: Callable[[str], None]) -> NDArray[np.float64]:
    """The figures of every picture, (files, figures)."""
    from PIL import Image

    out = []
    for n, (_, _, path) in enumerate(files):
        with Image.open(path) as picture:
            out.append(figures_of(view_of(np.asarray(picture.convert("RGB"), dtype=np.float64), side)))
        if n % 500 == 499:
            progress(f"{n + 1} of {len(files)} pictures\n")
    return np.stack(out)


def fit(
    name: str,
    files: list[tuple[str, str, Path]],
    x: NDArray[np.float64],
    *,
    side: int,
    ground_m: float,
    white: float,
    seed: int = 0,
) -> KindLook:
    """The look fitted on the figures ``x`` of ``files``, with its report."""
    classes = tuple(sorted({kind for _, kind, _ in files}))
    y = np.array([classes.index(kind) for _, kind, _ in files])
    test = np.array([split == "test" for split, _, _ in files])
    own, of_own = np.flatnonzero(~test), y[~test]
    mean, deviation = x[own].mean(axis=0), x[own].std(axis=0) + 1e-6
    z = (x - mean) / deviation
    odd = np.minimum(z * z, 100.0).mean(axis=1)
    z = z.clip(-MOST_DEVIATIONS, MOST_DEVIATIONS)
    blank = KindLook(name, classes, side, ground_m, white, mean, deviation, (), 1.0, np.inf, 1.0, 0.0, {})
    fold = _folds(of_own, seed)
    parts, logits = [], np.empty((len(own), len(classes)))
    for k in range(FOLDS):
        layers = _network(z[own[fold != k]], of_own[fold != k], seed + k)
        parts.append(layers)
        logits[fold == k] = replace(blank, layers=layers).logits_of(z[own[fold == k]])
    temperature = _temperature(logits, of_own)
    right, wrong = _told(softmax(logits / temperature), of_own)
    least = float(np.quantile(right, CONTRADICTED))
    look = replace(
        blank,
        layers=_together(parts),
        temperature=temperature,
        odd_at=float(np.quantile(odd[own], ODD)),
        contradict_at=least,
        agree_at=max(float(np.quantile(wrong, 1 - AGREED)), least),
    )
    sizes = {"fitted on": len(own), "test": int(test.sum())}
    return replace(look, report=_report(look, softmax(look.logits_of(z[test]) / temperature), y[test], odd[test], sizes))


def _folds(y: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A fold for each picture, every class spread evenly."""
    rng = np.random.default_rng(seed)
    out = np.empty(len(y), dtype=np.int64)
    for kind in np.unique(y):
        at = rng.permutation(np.flatnonzero(y == kind))
        out[at] = np.arange(len(at)) % FOLDS
    return out


Layers = tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]


def _network(z: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> Layers:
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier((HIDDEN,), alpha=1.0, learning_rate_init=2e-3, batch_size=64, max_iter=40, tol=0, random_state=seed)
    network.fit(z, y)
    return tuple((np.asarray(w), np.asarray(b)) for w, b in zip(network.coefs_, network.intercepts_, strict=True))


def _together(parts: list[Layers]) -> Layers:
    """One network whose logits are the mean of the parts' logits."""
    (first, last) = zip(*parts, strict=True)
    return (
        (np.concatenate([w for w, _ in first], axis=1), np.concatenate([b for _, b in first])),
        (np.concatenate([w for w, _ in last]) / len(parts), np.mean([b for _, b in last], axis=0)),
    )


def _temperature(logits: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    def loss(t: float) -> float:
        return float(-np.log(softmax(logits / t)[np.arange(len(y)), y] + 1e-12).mean())

    return min((float(t) for t in np.geomspace(0.3, 4, 80)), key=loss)


def _told(p: NDArray[np.float64], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities that the look gives to the right labels, and to the wrong label that it finds likeliest beside them: no wrong
    label is harder for it."""
    rows = np.arange(len(y))
    others = p.copy()
    others[rows, y] = -1
    return p[rows, y], others.max(axis=1)


def _report(
    look: KindLook, p: NDArray[np.float64], y: NDArray[np.int64], odd: NDArray[np.float64], sizes: dict[str, int]
) -> dict[str, Any]:
    right, wrong = _told(p, y)
    return {
        "pictures": sizes,
        "accuracy_test": round(float((p.argmax(axis=1) == y).mean()), 4),
        "right_labels_agreed": round(float((right >= look.agree_at).mean()), 4),
        "right_labels_contradicted": round(float((right < look.contradict_at).mean()), 4),
        "hardest_wrong_labels_agreed": round(float((wrong >= look.agree_at).mean()), 4),
        "hardest_wrong_labels_contradicted": round(float((wrong < look.contradict_at).mean()), 4),
        "odd_on_test": round(float((odd > look.odd_at).mean()), 4),
        "most_odd_on_test": round(float(odd.max() / look.odd_at), 2),
    }


# name: side of the views in pixels and in metres, reflectance shown as 255 (0: pictures of bytes alone), most pictures of a class
# in a split
LOOKS = {"aerial-0.3m": (128, 76.8, 0.0, None), "sentinel2-10m": (64, 640.0, 0.275, 800)}


def fit_looks(folders: dict[str, Path], progress: Callable[[str], None] = lambda text: None) -> list[KindLook]:
    """The looks named in LOOKS, each from its folder. UserError BAD_ARGUMENT where a folder holds no labelled pictures."""
    out = []
    for name, folder in folders.items():
        side, ground_m, white, most = LOOKS[name]
        files = labelled(folder, most)
        if len({split for split, _, _ in files}) < 2 or len({kind for _, kind, _ in files}) < 2:
            why = "It must hold <split>/<class>/*.jpg, or <class>/*.jpg, of two classes at least."
            raise UserError("BAD_ARGUMENT", f"{folder.name} holds no labelled pictures.", why, "Name another folder.")
        out.append(fit(name, files, figures(files, side, progress), side=side, ground_m=ground_m, white=white))
    return out
