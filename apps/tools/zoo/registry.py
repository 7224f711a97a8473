"""Which models there are: the shipped ones (``zoo.json`` and ``weights/``) and those a person added (RSURE_HOME/models).

Listing and adding need no torch. A model is added by file, or installed by URL and digest from a machine with a network; nothing
is fetched when a question is answered.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from apps.core.digests import digest_file
from apps.core.errors import ToolAbstainedError, UserError
from apps.tools.zoo.cards import ClassCard, Format, ModelCard, Task
from apps.tools.zoo.runtime import state_home

HERE = Path(__file__).resolve().parent
SHIPPED = HERE / "weights"
ZOO_FILE = HERE / "zoo.json"
MAX_BYTES = 2 * 1024**3
FORMATS: dict[str, Format] = {".rsw": "rsw", ".pt": "ultralytics", ".onnx": "onnx", ".torchscript": "torchscript"}
PICKLE_RISK = ("A .pt file is a Python pickle: loading one can run any code of whoever made it. Add it with --trust only where "
               "you trust its source as you trust a program; else ask for an ONNX export.")


def user_folder() -> Path:
    """Where added models live."""
    return state_home() / "models"


def read_zoo_file() -> list[dict[str, Any]]:
    """Entries of zoo.json: shipped models and known ones that can be installed by URL."""
    return list(json.loads(ZOO_FILE.read_text())["models"]) if ZOO_FILE.exists() else []


def _card(path: Path) -> ModelCard:
    return ModelCard.model_validate_json(path.read_text())


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[ModelCard, Path], ...]:
    found = []
    for entry in read_zoo_file():
        if entry.get("card"):
            card_path = SHIPPED / str(entry["card"])
            card = _card(card_path)
            found.append((card, card_path.parent / card.file))
    return tuple(found)


def models() -> list[tuple[ModelCard, Path]]:
    """(card, weights) of every model at hand, shipped first; a broken card of an added model is left out."""
    found = list(_shipped())
    folder = user_folder()
    if folder.is_dir():
        for path in sorted(folder.glob("*/card.json")):
            try:
                card = _card(path)
            except (ValidationError, ValueError, OSError):
                continue
            found.append((card, path.parent / card.file))
    return found


def model_named(name: str) -> tuple[ModelCard, Path]:
    """The model of that name. Raises ToolAbstainedError (MODEL_MISSING) where there is none."""
    for card, path in models():
        if card.name == name:
            return card, path
    known = ", ".join(c.name for c, _ in models()) or "none"
    raise ToolAbstainedError(f"The model zoo has no {name!r}; it has: {known}. Add one with `./rsure models add FILE`.",
                             code="MODEL_MISSING", needs={"model": name})


def models_for(task: Iterable[Task], words: Iterable[str]) -> list[tuple[ModelCard, Path]]:
    """Models of one of the tasks that know at least one of the words, those that know most first, added before shipped."""
    tasks, wanted = set(task), list(words)
    scored = []
    for card, path in models():
        known = sum(1 for w in wanted if card.class_card(w) is not None)
        if card.task in tasks and known:
            scored.append((-known, 0 if card.source == "added" else 1, card.name, card, path))
    return [(card, path) for *_, card, path in sorted(scored, key=lambda s: s[:3])]


def verified(card: ModelCard, path: Path) -> Path:
    """The weights' path after their digest was compared with the card's. Raises ToolAbstainedError (MODEL_MISSING)."""
    if not path.exists():
        raise ToolAbstainedError(f"The weights of {card.name} are missing; add or install them again.", code="MODEL_MISSING",
                                 needs={"model": card.name})
    if digest_file(path) != card.sha256:
        raise ToolAbstainedError(f"The weights of {card.name} are not those of its card (digest differs); nothing is loaded.",
                                 code="MODEL_MISSING", needs={"model": card.name})
    if not card.trusted:
        raise ToolAbstainedError(f"{card.name} was added without --trust. {PICKLE_RISK}", code="MODEL_MISSING",
                                 needs={"model": card.name})
    return path


# --- adding ---------------------------------------------------------------------------------------------------------------
def sniff_format(path: Path) -> Format:
    """The format by suffix and first bytes. UserError (UNSAFE_FILE) where they disagree or are unknown."""
    kind = FORMATS.get(path.suffix.lower())
    with path.open("rb") as f:
        head = f.read(8)
    is_zip = head.startswith(b"PK\x03\x04")
    fits = {"rsw": is_zip, "ultralytics": is_zip or head.startswith(b"\x80"), "torchscript": is_zip,
            "onnx": not is_zip and head[:1] == b"\x08", None: False}[kind]
    if kind is None or not fits:
        raise UserError("UNSAFE_FILE", f"{path.name} is no model that can be added.",
                        "Known are Ultralytics .pt, .onnx and .torchscript, and its first bytes must fit.",
                        "Export the model to one of these and add it again.")
    if is_zip:
        try:
            with zipfile.ZipFile(path) as z:
                names = z.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise UserError("UNREADABLE", f"{path.name} cannot be read.", "It begins as an archive and is none: it was cut or "
                            "damaged.", "Export or fetch it again.") from error
        if kind == "ultralytics" and any("/code/" in n for n in names):
            return "torchscript"
    return kind


# Architectures of SAM-type models by the end of the file's name, as their makers and Ultralytics name them.
SAM_FILES = {
    "sam_h": ("sam_h", "sam_vit_h"), "sam_l": ("sam_l", "sam_vit_l"), "sam_b": ("sam_b", "sam_vit_b"),
    "mobile_sam": ("mobile_sam", "mobilesam"), "sam2_t": ("sam2_t", "sam2.1_t", "sam2_hiera_tiny", "sam2.1_hiera_tiny"),
    "sam2_s": ("sam2_s", "sam2.1_s", "sam2_hiera_small", "sam2.1_hiera_small"),
    "sam2_b": ("sam2_b", "sam2.1_b", "sam2_hiera_base_plus", "sam2.1_hiera_base_plus"),
    "sam2_l": ("sam2_l", "sam2.1_l", "sam2_hiera_large", "sam2.1_hiera_large")}


def sam_architecture(path: Path) -> str:
    """Which SAM a file of tensors is, by its name. UserError (BAD_ARGUMENT) where the name does not tell."""
    stem = path.stem.lower()
    fitting = [(len(end), name) for name, ends in SAM_FILES.items() for end in ends if stem.startswith(end) or stem.endswith(end)]
    if path.suffix.lower() != ".pt" or not fitting:
        raise UserError("BAD_ARGUMENT", f"{path.name} is no promptable model that is known here.",
                        "A file of SAM's tensors names no architecture, so its name must begin or end with it.",
                        f"Name it {', '.join(f'{name}.pt' for name in SAM_FILES)}, whichever it is.")
    return max(fitting)[1]


def model_add(path: Path, *, name: str = "", task: Task = "detect", classes: Iterable[str] = (), gsd_m: tuple[float, float] | None
              = None, licence: str = "", allow_pickle: bool = False, max_bytes: int = MAX_BYTES, url: str = "",
              expected_sha256: str = "") -> ModelCard:
    """Copies a weights file into the user's zoo and writes its card; returns the card.

    Classes come from the argument, else from the file where that needs no pickle (ONNX and TorchScript metadata) or where
    ``allow_pickle`` says that the file is trusted. UserError: UNREADABLE, TOO_LARGE, UNSAFE_FILE, BAD_ARGUMENT, CONFLICT.
    """
    if not path.is_file():
        raise UserError("UNREADABLE", f"There is no file {path.name}.", "The path leads nowhere.", "Check the path.")
    size = path.stat().st_size
    if size > max_bytes:
        raise UserError("TOO_LARGE", f"{path.name} has {size / 1e6:.0f} MB.", f"The limit is {max_bytes / 1e6:.0f} MB.",
                        "Add a smaller model, or raise --max-mb.")
    kind = sniff_format(path)
    digest = digest_file(path)
    architecture = ""
    if task == "prompt":
        kind, architecture = "sam", sam_architecture(path)
    if expected_sha256 and digest != expected_sha256:
        raise UserError("UNSAFE_FILE", "The file is not the one that was named.", "Its SHA-256 differs.", "Fetch it again.")
    if kind == "ultralytics" and not allow_pickle:
        raise UserError("UNSAFE_FILE", f"{path.name} was not added.", PICKLE_RISK, "Add it with --trust, or an .onnx export.")
    slug = re.sub(r"[^a-z0-9._-]+", "-", (name or path.stem).lower()).strip("-._")[:80]
    if len(slug) < 2:
        raise UserError("BAD_ARGUMENT", "The model needs a name.", "Its file name gives none.", "Give --name.")
    if any(c.name == slug for c, _ in models()):
        raise UserError("CONFLICT", f"The zoo has a model {slug!r} already.", "Names are unique.", "Give another --name.",
                        status=409)
    names = tuple(classes) or ({"change": ("change",), "prompt": ("what is pointed at",)}.get(task, ()))
    if task == "change" and kind not in ("onnx", "torchscript"):
        raise UserError("BAD_ARGUMENT", f"{path.name} cannot be added as a change model.",
                        "Change models are ONNX or TorchScript.", "Export the model to one of these and add it again.")
    found: dict[str, Any] = {}
    if not names:
        try:
            found = _metadata(path, kind)
        except (zipfile.BadZipFile, OSError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
                ToolAbstainedError) as error:   # whatever a stranger's file says
            raise UserError("UNREADABLE", f"What {path.name} says of itself cannot be read.", f"{type(error).__name__}.",
                            "Give --classes car,truck,… in the model's order, or export the model again.") from error
        names = tuple(found.get("classes", ()))
    if not names:
        raise UserError("BAD_ARGUMENT", "The classes of the model are not known.", "The file names none that can be read safely.",
                        "Give --classes car,truck,… in the model's order.")
    doubt = {"change": "its masks of change are experimental", "prompt": "look at its masks before they are measured"}.get(
        task, "counts get no calibrated interval")
    folder = user_folder() / slug
    file = f"weights{path.suffix.lower() if kind != 'torchscript' else '.torchscript'}"
    card = ModelCard(name=slug, title=path.name[:200], task=found.get("task", task), format=kind, file=file, sha256=digest,
                     bytes=size, gsd_m=gsd_m,
                     classes=tuple(ClassCard(name=n[:80], experimental=True, gsd_m=gsd_m) for n in names),
                     tile_px=int(found.get("imgsz", {"change": 256, "prompt": 1024}.get(task, 640))), architecture=architecture,
                     licence=licence or "not stated", url=url,
                     source="added", trusted=kind != "ultralytics" or allow_pickle,
                     not_for=(f"Nothing is known of its scores: {doubt}.",))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part, path.open("rb") as source:
        shutil.copyfileobj(source, part, 1 << 20)
    os.replace(part.name, folder / file)
    if digest_file(folder / file) != digest:
        shutil.rmtree(folder)
        raise UserError("UNSAFE_FILE", "The file changed while it was copied.", "Its digest differs.", "Add it again.")
    (folder / "card.json").write_text(card.model_dump_json(indent=1) + "\n")
    return card


def _metadata(path: Path, kind: Format) -> dict[str, Any]:
    """Classes, task and input side as the file's own metadata tell them; {} where they tell nothing."""
    text: dict[str, Any] = {}
    if kind == "onnx":
        text = _onnx_metadata(path)
    elif kind == "torchscript":
        with zipfile.ZipFile(path) as z:
            inner = next((n for n in z.namelist() if n.endswith("extra/config.txt")), None)
            if inner is not None and z.getinfo(inner).file_size < 1 << 20:
                text = json.loads(z.read(inner))
    elif kind == "rsw":
        from apps.tools.zoo.states import load_state

        return {"classes": load_state(path)[1]["classes"], "task": "detect"}
    elif kind == "ultralytics":
        from apps.tools.zoo.runtime import has_ultralytics, ultralytics_module

        if not has_ultralytics():
            return {}
        ultralytics_module()
        from ultralytics import YOLO

        model = YOLO(str(path))
        told: dict[str, Any] = {"classes": [str(v) for v in model.names.values()],
                                "task": model.task if model.task in _TASKS else "detect"}
        size = model.overrides.get("imgsz")
        return told | ({"imgsz": size} if isinstance(size, int) and 32 <= size <= 4096 else {})
    names = text.get("names")
    if isinstance(names, str):
        names = _literal(names)
    out: dict[str, Any] = {}
    if isinstance(names, dict):
        out["classes"] = [str(v) for _, v in sorted(names.items(), key=lambda i: int(i[0]))]
    elif isinstance(names, list):
        out["classes"] = [str(v) for v in names]
    if text.get("task") in _TASKS:
        out["task"] = text["task"]
    side = text.get("imgsz")
    side = _literal(side) if isinstance(side, str) else side
    if isinstance(side, list) and side and 32 <= int(side[0]) <= 4096:
        out["imgsz"] = int(side[0])
    return out


_TASKS = ("detect", "obb", "segment", "classify")


def _literal(text: str) -> Any:
    import ast

    try:
        return ast.literal_eval(text[:100_000])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _onnx_metadata(path: Path) -> dict[str, str]:
    """metadata_props of an ONNX file (field 14 of ModelProto), read by a few lines of protobuf: no package is needed."""
    out: dict[str, str] = {}
    with path.open("rb") as f:
        size = path.stat().st_size
        while f.tell() < size:
            key = _varint(f)
            if key is None:
                break
            field, wire = key >> 3, key & 7
            if wire == 0:
                _varint(f)
            elif wire == 1:
                f.seek(8, 1)
            elif wire == 5:
                f.seek(4, 1)
            elif wire == 2:
                n = _varint(f)
                if n is None or n > size:
                    break
                if field == 14 and n < 1 << 20:
                    pair = _strings(f.read(n))
                    if len(pair) == 2:
                        out[pair[0]] = pair[1]
                else:
                    f.seek(n, 1)
            else:
                break
    return out


def _varint(f: Any) -> int | None:
    value, shift = 0, 0
    b: bytes
    while shift < 64:
        b = f.read(1)
        if not b:
            return None
        value |= (b[0] & 127) << shift
        if b[0] < 128:
            return value
        shift += 7
    return None


def _strings(data: bytes) -> list[str]:
    import io

    f, out = io.BytesIO(data), []
    while f.tell() < len(data):
        key = _varint(f)
        n = _varint(f)
        if key is None or n is None or key & 7 != 2 or n > len(data):
            break
        out.append(f.read(n).decode("utf-8", "replace"))
    return out


def model_install(name: str, *, allow_pickle: bool = False, timeout_s: float = 60.0) -> ModelCard:
    """Fetches a model that zoo.json names with URL and digest; for machines with a network, never at run time of a question."""
    entry = next((e for e in read_zoo_file() if e.get("name") == name and e.get("url")), None)
    if entry is None:
        raise UserError("NOT_FOUND", f"zoo.json names no {name!r} with a URL.", "Only models listed there can be installed.",
                        "See `./rsure models list`, or add a file with `./rsure models add FILE`.", status=404)
    return model_fetch(str(entry["url"]), sha256=str(entry["sha256"]), name=name, task=entry.get("task", "detect"),
                       classes=entry.get("classes", ()), licence=str(entry.get("licence", "")), allow_pickle=allow_pickle,
                       timeout_s=timeout_s)


def model_fetch(url: str, *, sha256: str, name: str, task: Task = "detect", classes: Iterable[str] = (), licence: str = "",
                allow_pickle: bool = False, timeout_s: float = 60.0, most_s: float = 3600.0, max_bytes: int = MAX_BYTES
                ) -> ModelCard:
    """Fetches one https URL, compares the digest before anything reads the file, and adds it. UserError MODEL_UNREACHABLE where
    nothing comes for ``timeout_s``, or all of it takes longer than ``most_s``."""
    if not url.startswith(("https://", "file://")) or not re.fullmatch(r"sha256:[0-9a-f]{64}", sha256):
        raise UserError("BAD_ARGUMENT", "A model is installed by an https URL and its SHA-256.", "One of the two is missing.",
                        "Give --url https://… --sha256 sha256:…")
    suffix = Path(url.split("?")[0]).suffix
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"{name}{suffix}"
        got, end = 0, time.monotonic() + most_s
        try:
            with urllib.request.urlopen(url, timeout=timeout_s) as answer, target.open("wb") as f:
                # what has come, not a megabyte: a server that drips would hold one read for days
                while chunk := (answer.read1(1 << 20) if hasattr(answer, "read1") else answer.read(1 << 20)):
                    if time.monotonic() > end:
                        raise TimeoutError
                    got += len(chunk)
                    if got > max_bytes:
                        raise UserError("TOO_LARGE", "The model is too large.", f"Over {max_bytes / 1e6:.0f} MB.",
                                        "Raise the limit, or choose another.")
                    f.write(chunk)
        except OSError as e:
            raise UserError("MODEL_UNREACHABLE", f"{name} cannot be fetched.", f"The network said: {type(e).__name__}.",
                            "On a machine without network fetch the file elsewhere and use `./rsure models add FILE`.") from e
        return model_add(target, name=name, task=task, classes=classes, licence=licence, allow_pickle=allow_pickle, url=url,
                         expected_sha256=sha256, max_bytes=max_bytes)


def model_remove(name: str) -> None:
    """Removes an added model; a shipped one stays (UserError FORBIDDEN)."""
    card, path = model_named(name)
    if card.source != "added":
        raise UserError("FORBIDDEN", f"{name} is shipped with the project.", "Shipped models stay.", "Nothing to do.", status=403)
    shutil.rmtree(path.parent)
