"""A second look at a kind of place: from colours and textures of the pixels, by figures of its own.

Nothing is shared with the tools' classifiers: no network, no weights, no code. 187 plain figures of a view (colours, gradients
at four scales, local binary patterns after Ojala et al. 2002, the spectrum) go through one small fitted layer. It knows less than
the classifiers do: it is there to contradict a label that the pixels do not bear, and to say where a view is like none that it
was fitted on. How often it errs on pictures that it never saw stands in the weights' report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

WEIGHTS = Path(__file__).resolve().parent / "weights" / "kinds-1.npz"
# Standardised figures beyond this say no more than this.
MOST_DEVIATIONS = 6.0
_GREY = np.array([0.299, 0.587, 0.114])


def view_of(rgb: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """A square view (side, side, 3) of colours 0..255 (rows, columns, 3): means of blocks where it is finer, linear where not."""
    rows, columns = rgb.shape[:2]
    by = max(1, rows // side), max(1, columns // side)
    if by != (1, 1):
        rows, columns = rows // by[0] * by[0], columns // by[1] * by[1]
        rgb = rgb[:rows, :columns].reshape(rows // by[0], by[0], columns // by[1], by[1], 3).mean(axis=(1, 3))
    if rgb.shape[:2] == (side, side):
        return rgb
    at = np.meshgrid(*((np.arange(side) + 0.5) * n / side - 0.5 for n in rgb.shape[:2]), indexing="ij")
    return np.stack([ndimage.map_coordinates(rgb[:, :, k], at, order=1, mode="nearest") for k in range(3)], axis=2)


def figures_of(view: NDArray[np.float64]) -> NDArray[np.float64]:
    """The figures (187,) of a square view (side, side, 3) of colours 0..255."""
    x = view / 255
    flat = x.reshape(-1, 3)
    grey = x @ _GREY
    total = flat.sum(axis=1) + 1e-3
    parts: list[Any] = [flat.mean(axis=0), flat.std(axis=0), np.percentile(flat, (2, 25, 50, 75, 98), axis=0).ravel()]
    hues = np.stack([(flat[:, 0] - flat[:, 1]) / total, (flat[:, 1] - flat[:, 2]) / total, flat.max(axis=1) - flat.min(axis=1)])
    parts += [hues.mean(axis=1), hues.std(axis=1), np.percentile(hues, (10, 50, 90), axis=1).ravel()]
    parts.append([_correlation(flat[:, a], flat[:, b]) for a, b in ((0, 1), (0, 2), (1, 2))])
    spots = np.clip((hues[:2] * 6 + 3).astype(int), 0, 5)
    parts.append(np.sqrt(np.bincount(spots[0] * 6 + spots[1], minlength=36) / len(flat)))
    for k in (1, 2, 4, 8):
        parts.append(_texture(_shrunk(grey, k)))
    parts.append(_spectrum(grey))
    quarters = view_of(x, 4).reshape(16, 3)
    parts += [quarters.std(axis=0), np.ptp(quarters, axis=0)]
    return np.concatenate([np.asarray(p, dtype=np.float64).ravel() for p in parts])


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread > 1e-9 else 0.0


def _shrunk(grey: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    n = grey.shape[0] // k
    return np.asarray(grey[: n * k, : n * k].reshape(n, k, n, k).mean(axis=(1, 3)))


def _texture(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """24 figures: strength and directions of gradients, local contrast, uniform binary patterns."""
    gy, gx = np.gradient(grey)
    strength, angle = np.hypot(gx, gy), np.arctan2(gy, gx)
    whole = float(strength.sum()) + 1e-9
    bins = ((angle % np.pi) / np.pi * 12).astype(int).clip(0, 11)
    ways = np.sort(np.bincount(bins.ravel(), weights=strength.ravel(), minlength=12) / whole)[::-1]
    jxx, jyy, jxy = (ndimage.uniform_filter(v, 5) for v in (gx * gx, gy * gy, gx * gy))
    coherence = np.sqrt((jxx - jyy) ** 2 + 4 * jxy**2) / (jxx + jyy + 1e-6)
    local = np.sqrt(np.maximum(ndimage.uniform_filter(grey * grey, 5) - ndimage.uniform_filter(grey, 5) ** 2, 0))
    return np.concatenate([
        np.log(np.array([strength.mean(), strength.std(), *np.percentile(strength, (90, 99))]) + 1e-4),
        [abs((strength * np.exp(1j * h * angle)).sum()) / whole for h in (2, 4)], ways[:3],
        [coherence.mean(), coherence.std()], np.log(np.percentile(local, (10, 50, 90)) + 1e-4), _patterns(grey),
    ])  # fmt: skip


def _patterns(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares (10,) of the uniform local binary patterns by their number of brighter neighbours, and of all others."""
    ring = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))
    rows, columns = grey.shape[0] - 2, grey.shape[1] - 2
    bits = np.stack([grey[r : r + rows, c : c + columns] for r, c in ring]) > grey[1:-1, 1:-1]
    turns = (bits != np.roll(bits, 1, axis=0)).sum(axis=0)
    code = np.where(turns <= 2, bits.sum(axis=0), 9)
    return np.asarray(np.bincount(code.ravel(), minlength=10) / code.size)


def _spectrum(grey: NDArray[np.float64], n: int = 8) -> NDArray[np.float64]:
    """Ten figures: log power in rings of the spectrum, and how much of it lies in one or in two directions."""
    side = grey.shape[0]
    window = np.hanning(side)
    power = np.abs(np.fft.fft2((grey - grey.mean()) * window[:, None] * window)) ** 2
    f = np.fft.fftfreq(side)
    radius, angle = np.hypot(f[:, None], f), np.arctan2(f[:, None], np.broadcast_to(f, power.shape))
    ring = np.digitize(radius, np.geomspace(1.5 / side, 0.5, n + 1)) - 1
    inside = (ring >= 0) & (ring < n)
    mean = np.bincount(ring[inside], weights=power[inside], minlength=n) / np.maximum(np.bincount(ring[inside], minlength=n), 1)
    middle = (radius > 0.05) & (radius < 0.45)
    whole = float(power[middle].sum()) + 1e-9
    ways = [abs((power[middle] * np.exp(1j * h * angle[middle])).sum()) / whole for h in (2, 4)]
    return np.concatenate([np.log(mean + 1e-3), ways])


@dataclass(frozen=True, slots=True)
class KindLook:
    """One fitted look: classes, the side of its views in pixels and on the ground in metres, the reflectance that it shows as 255
    (0: pictures of bytes alone), the figures' means and deviations, two layers, and its thresholds.

    ``odd_at``: above this mean square of standardised figures a view is like none that it was fitted on. A label of probability
    ``agree_at`` and more is borne, one below ``contradict_at`` is contradicted.
    """

    name: str
    classes: tuple[str, ...]
    side: int
    ground_m: float
    white: float
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    layers: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]
    temperature: float
    odd_at: float
    agree_at: float
    contradict_at: float
    report: Mapping[str, Any]

    def seen(self, views: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(probabilities (n, classes), oddness (n,)) of views (side, side, 3)."""
        z = (np.stack([figures_of(v) for v in views]) - self.mean) / self.deviation
        return softmax(self.logits_of(z) / self.temperature), np.minimum(z * z, 100.0).mean(axis=1)

    def logits_of(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, classes) of standardised figures (n, figures)."""
        h = z.clip(-MOST_DEVIATIONS, MOST_DEVIATIONS)
        for k, (w, b) in enumerate(self.layers):
            h = h @ w + b
            if k + 1 < len(self.layers):
                h = np.maximum(h, 0)
        return h


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that sum to one."""
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@lru_cache(maxsize=1)
def kind_looks() -> tuple[KindLook, ...]:
    """The looks that are shipped."""
    return read_looks(WEIGHTS)


def read_looks(path: Path) -> tuple[KindLook, ...]:
    """The looks of a file as ``write_looks`` writes it. ValueError where it is none."""
    with np.load(path, allow_pickle=False) as held:
        told = json.loads(str(held["told"]))
        out = []
        for entry in told:
            name = entry["name"]
            arrays = {k: held[f"{name}:{k}"].astype(np.float64) for k in ("mean", "deviation")}
            layers = tuple(
                (held[f"{name}:w{k}"].astype(np.float64), held[f"{name}:b{k}"].astype(np.float64)) for k in range(entry["layers"])
            )
            out.append(KindLook(**{**entry, "classes": tuple(entry["classes"]), "layers": layers, **arrays}))
    return tuple(out)


def write_looks(looks: Sequence[KindLook], path: Path) -> None:
    """The looks as one file of arrays (float32) and a line of JSON; nothing in it can run."""
    arrays: dict[str, Any] = {}
    told = []
    for look in looks:
        told.append({
            "name": look.name, "classes": list(look.classes), "side": look.side, "ground_m": look.ground_m,
            "white": look.white, "layers": len(look.layers),
            "temperature": look.temperature, "odd_at": look.odd_at, "agree_at": look.agree_at,
            "contradict_at": look.contradict_at, "report": dict(look.report),
        })  # fmt: skip
        arrays |= {f"{look.name}:mean": look.mean, f"{look.name}:deviation": look.deviation}
        for k, (w, b) in enumerate(look.layers):
            arrays |= {f"{look.name}:w{k}": w, f"{look.name}:b{k}": b}
    held: dict[str, Any] = {k: np.asarray(v, dtype=np.float32) for k, v in arrays.items()}
    np.savez_compressed(path, told=np.array(json.dumps(told)), **held)
