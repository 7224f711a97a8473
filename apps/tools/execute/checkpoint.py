"""Checkpoints of the streaming engine: a pass that was cut off goes on from the last windows that were merged.

What is kept is the state of the accumulators, as plain numbers and arrays (nothing that could run when it is read), under a key
of everything that decides the result: the graph, the region, the scenes with the digests of their bytes, the program's revision.
Windows are merged in one order, so the state after k windows is the same whenever it is reached, and so are the final digits.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import time
import zipfile
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.digests import is_digest
from apps.core.errors import FaultError
from apps.core.geo.grid import Grid
from apps.tools.region import RegionMask

# Seconds of work that may be lost; shorter passes write nothing.
EVERY_S = 10.0
# What nobody came back for is removed after so many seconds.
MAX_AGE_S = 7 * 86_400.0
# What an accumulator is made with and never changes: taken from the new one.
_FIXED = (Grid, RegionMask, FunctionType, MethodType, type)


class NotKeepableError(Exception):
    """A state that holds something else than plain numbers, texts, arrays and what it was made with."""


class Checkpoint:
    """States under ``folder`` of the work named by ``key`` (a digest), one for each run of the engine."""

    def __init__(self, folder: Path, key: str, every_s: float = EVERY_S):
        if not is_digest(key):
            raise FaultError("a checkpoint is keyed by a digest")
        self._root, self.every_s = folder, every_s
        self.folder = folder / key.removeprefix("sha256:")
        self._saved_at = time.monotonic()
        self.n_saved = 0
        self._is_off = False
        self._prune()

    def _prune(self) -> None:
        if not self._root.is_dir():
            return
        for other in self._root.iterdir():
            try:
                if other != self.folder and time.time() - other.stat().st_mtime > MAX_AGE_S:
                    shutil.rmtree(other, ignore_errors=True)
            except OSError:
                continue

    def is_due(self) -> bool:
        return not self._is_off and time.monotonic() - self._saved_at >= self.every_s

    def save(self, number: int, state: dict[str, Any]) -> None:
        """Keeps the state of the ``number``-th run, whole or not at all. A full disk or a state that cannot be kept ends the
        keeping, never the work."""
        arrays: dict[str, NDArray[Any]] = {}
        try:
            document = json.dumps(_encoded(state, arrays))
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(dir=self.folder, suffix=".draft")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    np.savez(file, document=np.frombuffer(document.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
                os.replace(draft, self._path(number))
            finally:
                Path(draft).unlink(missing_ok=True)
        except (NotKeepableError, OSError):
            self._is_off = True
            return
        self.n_saved += 1
        self._saved_at = time.monotonic()

    def load(self, number: int, like: dict[str, Any], same: dict[str, Any]) -> dict[str, Any] | None:
        """The kept state of the ``number``-th run; None where there is none, it is broken, or it was kept with other values of
        ``same``. ``like`` holds the new objects (each with a ``wants_pass``, or a dataclass) in the places of the kept ones: they
        take over what was kept, and only if all of it can be read."""
        try:
            with np.load(self._path(number), allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
            document = json.loads(arrays.pop("document").tobytes())
            changes: list[tuple[Any, str, Any]] = []
            state: dict[str, Any] = _decoded(document, like, arrays, changes)
            if any(state[name] != value for name, value in same.items()):
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, NotKeepableError):
            return None
        for target, name, value in changes:
            setattr(target, name, value)
        return state

    def forget(self) -> None:
        """Removes what was kept: the work is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:04d}.npz"


def _attributes(value: Any) -> dict[str, Any] | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return vars(value) if hasattr(value, "wants_pass") else None


def _encoded(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            raise NotKeepableError(str(array.dtype))
        name = f"a{len(arrays)}"
        arrays[name] = array
        return {"number" if isinstance(value, np.generic) else "array": name}
    if isinstance(value, _FIXED):
        return {"fixed": True}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [_encoded(v, arrays) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_encoded(k, arrays), _encoded(v, arrays)] for k, v in value.items()]}
    held = _attributes(value)
    if held is None:
        raise NotKeepableError(type(value).__name__)
    return {"object": {name: _encoded(v, arrays) for name, v in held.items()}}


def _decoded(kept: Any, like: Any, arrays: dict[str, NDArray[Any]], changes: list[tuple[Any, str, Any]]) -> Any:
    if not isinstance(kept, dict):
        return kept
    ((what, inner),) = kept.items()
    if what == "array":
        return arrays[inner]
    if what == "number":
        return arrays[inner][()]
    if what == "fixed":
        if not isinstance(like, _FIXED):
            raise NotKeepableError(type(like).__name__)
        return like
    if what in ("list", "tuple"):
        others = like if isinstance(like, (list, tuple)) and len(like) == len(inner) else [None] * len(inner)
        found = [_decoded(v, other, arrays, changes) for v, other in zip(inner, others, strict=True)]
        return found if what == "list" else tuple(found)
    if what == "dict":
        named: dict[Any, Any] = like if isinstance(like, dict) else {}
        pairs = [(_decoded(k, None, arrays, changes), v) for k, v in inner]
        return {k: _decoded(v, named.get(k), arrays, changes) for k, v in pairs}
    held = _attributes(like)
    if what != "object" or held is None or set(held) != set(inner):
        raise NotKeepableError(type(like).__name__)
    changes += [(like, name, _decoded(v, held[name], arrays, changes)) for name, v in inner.items()]
    return like
