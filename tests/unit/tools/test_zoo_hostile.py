"""Model files that are made to do harm, or are none: nothing of them runs, and each refusal says what to do."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import UserError
from apps.tools.zoo.registry import model_add, models, user_folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "home"))


class Evil:
    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def files(folder: Path, mark: Path) -> dict[str, tuple[Path, str]]:
    """name → (file, task)."""
    evil = pickle.dumps(Evil(mark))
    out: dict[str, tuple[Path, str]] = {}

    def make(name: str, data: bytes, task: str = "detect") -> None:
        path = folder / name
        path.write_bytes(data)
        out[name] = (path, task)

    make("plain.pt", evil)
    make("change.pt", evil, "change")
    make("cut.pt", b"PK\x03\x04" + b"\xff" * 50)
    make("cut.torchscript", b"PK\x03\x04" + b"\xff" * 50, "change")
    make("cut.rsw", b"PK\x03\x04" + b"\xff" * 50)
    make("text.onnx", b"not a model", "change")
    make("long.onnx", b"\x08\x07" + bytes([14 << 3 | 2]) + varint(2**62))
    make("longer.onnx", b"\x08\x07" + bytes([13 << 3 | 2]) + varint(2**66))
    inner = b"\x0a" + varint(2**66) + b"x"
    make("inner.onnx", b"\x08\x07" + bytes([14 << 3 | 2]) + varint(len(inner)) + inner)
    for name, told in (("keys", b"{'a': 'b'}"), ("deep", b"[" * 50_000), ("code", b"__import__('os').system('touch x')")):
        pair = b"\x0a\x05names\x12" + varint(len(told)) + told
        make(f"{name}.onnx", b"\x08\x07" + bytes([14 << 3 | 2]) + varint(len(pair)) + pair)
    for name, told in (
        ("config", b"[" * 100_000),
        ("list", b"[1]"),
        ("null", b"null"),
        ("side", b'{"names": ["a"], "imgsz": ["x"]}'),
    ):
        path = folder / f"{name}.torchscript"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr(f"{name}/code/a.py", b"")
            z.writestr(f"{name}/extra/config.txt", told)
        out[path.name] = (path, "detect")
    return out


def test_nothing_of_a_hostile_file_runs_or_is_kept(tmp_path: Path) -> None:
    folder, mark = tmp_path / "files", tmp_path / "mark"
    folder.mkdir()
    before = len(models())
    for name, (path, task) in files(folder, mark).items():
        with pytest.raises(UserError) as caught:
            model_add(path, task=task)  # type: ignore[arg-type]
        assert caught.value.code in ("UNSAFE_FILE", "UNREADABLE", "BAD_ARGUMENT"), name
        assert caught.value.fix, name
    assert not mark.exists() and len(models()) == before
    assert not list(user_folder().glob("*/*"))


def test_a_pickle_for_prompts_is_kept_but_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = tmp_path / "mobile_sam.pt"
    path.write_bytes(pickle.dumps(Evil(mark)))
    assert model_add(path, task="prompt").format == "sam"  # it is read as tensors alone, or not at all
    assert not mark.exists()


def test_names_stay_in_the_folder_of_models(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(b"\x08\x07" + b"\x00" * 20)
    card = model_add(path, name="../../../etc/evil", classes=["a"])
    assert "/" not in card.name and {p.parent for p in user_folder().iterdir()} == {user_folder()}
    assert not (tmp_path / "etc").exists()
