"""The model zoo without torch: cards, words, adding files, formats, digests, the command line."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from apps.core.digests import digest_bytes, digest_file
from apps.core.errors import ToolAbstainedError, UserError
from apps.tools.zoo import registry
from apps.tools.zoo.cards import normal
from apps.tools.zoo.registry import model_add, model_fetch, model_named, model_remove, models, models_for, sniff_format, verified

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    def varint(n: int) -> bytes:
        out = b""
        while True:
            n, low = n >> 7, n & 127
            out += bytes([low | (128 if n else 0)])
            if not n:
                return out
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def onnx_file(path: Path, **metadata: str) -> Path:
    """The outline of an ONNX model: version, an empty graph, metadata_props."""
    body = b"\x08\x08" + field(7, b"") + b"".join(
        field(14, field(1, k.encode()) + field(2, v.encode())) for k, v in metadata.items())
    path.write_bytes(body)
    return path


def test_shipped_cards_tell_all_and_fit_their_weights() -> None:
    shipped = [(c, p) for c, p in models() if c.source == "shipped"]
    assert shipped
    assert sum(c.bytes for c, _ in shipped) < 12_000_000
    for card, path in shipped:
        assert path.stat().st_size == card.bytes
        assert digest_file(path) == card.sha256
        assert card.licence and card.data and card.not_for and card.sensors and card.places and card.gsd_m
        assert (path.parent / f"{card.name}.md").read_text().startswith("# ")
        assert card.format == "rsw"


@pytest.mark.parametrize("one, other", [("Storage Tanks", "storage-tank"), ("planes", "plane"), ("bodies", "body"),
                                        ("Buses", "bus"), ("parking_lots", "parkinglot")])
def test_words_meet_without_case_plural_and_hyphen(one: str, other: str) -> None:
    assert normal(one) == normal(other)
    assert normal("glass") != normal("glas")


def test_a_kind_that_the_model_cannot_tell_apart_is_not_its_class() -> None:
    card, _ = model_named("nadir3")
    assert card.class_card("vehicles") is not None
    assert card.class_card("car") is not None and card.class_card("car", with_near=False) is None
    assert card.class_card("truck") is None
    broader = card.broader_class("trucks")
    assert broader is not None and broader.name == "vehicle"
    assert models_for(("detect",), ["helicopter"]) == []


def test_onnx_is_added_with_the_classes_of_its_own_metadata(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "Roofs v2.onnx", names="{0: 'roof', 1: 'pool'}", task="segment", imgsz="[512, 512]")
    card = model_add(file, gsd_m=(0.1, 0.3), licence="CC BY 4.0")
    assert (card.name, card.format, card.task) == ("roofs-v2", "onnx", "segment")
    assert (card.class_names, card.tile_px) == (("roof", "pool"), 512)
    assert card.sha256 == digest_file(file) and card.source == "added" and all(c.experimental for c in card.classes)
    again, path = model_named("roofs-v2")
    assert again == card and verified(again, path) == path
    assert [c.name for c, _ in models_for(("segment",), ["pools"])] == ["roofs-v2"]
    with pytest.raises(UserError) as twice:
        model_add(file)
    assert twice.value.code == "CONFLICT"
    model_remove("roofs-v2")
    with pytest.raises(ToolAbstainedError):
        model_named("roofs-v2")


def test_changed_weights_are_never_loaded(tmp_path: Path) -> None:
    card = model_add(onnx_file(tmp_path / "a1.onnx"), classes=["thing"])
    _, path = model_named(card.name)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ToolAbstainedError, match="digest differs"):
        verified(card, path)


class Bomb:
    """What a hostile pickle does when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("exploded"),)  # type: ignore[return-value]


def test_a_pickle_is_refused_without_trust_and_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    file = tmp_path / "cars.pt"
    file.write_bytes(data.getvalue())
    with pytest.raises(UserError) as refused:
        model_add(file, classes=["car"])
    assert refused.value.code == "UNSAFE_FILE" and "pickle" in refused.value.why and "--trust" in refused.value.fix
    card = model_add(file, classes=["car"], allow_pickle=True)    # classes given: nothing needs to be loaded
    assert card.trusted and not (tmp_path / "exploded").exists()
    untrusted = card.model_copy(update={"trusted": False})
    with pytest.raises(ToolAbstainedError, match="without --trust"):
        verified(untrusted, model_named("cars")[1])


@pytest.mark.parametrize("name, content", [("x.onnx", b"PK\x03\x04zip"), ("x.pt", b"GIF89a"), ("x.exe", b"MZ"),
                                           ("x.onnx", b"<xml>"), ("x.torchscript", b"\x80\x02pickle")])
def test_files_that_are_no_models_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UserError) as refused:
        sniff_format(file)
    assert refused.value.code == "UNSAFE_FILE"


def test_a_torchscript_archive_named_pt_is_seen_as_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "moored.pt"
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("moored/code/__torch__.py", "")
        z.writestr("moored/extra/config.txt", json.dumps({"names": {"0": "ship"}, "task": "obb", "imgsz": [640, 640]}))
    assert sniff_format(file) == "torchscript"
    card = model_add(file)
    assert card.class_names == ("ship",) and card.task == "obb" and card.file == "weights.torchscript"


def test_limits_and_missing_facts_are_said(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "small.onnx")
    for arguments, code in (({"max_bytes": 1}, "TOO_LARGE"), ({}, "BAD_ARGUMENT"),
                            ({"classes": ["a"], "expected_sha256": digest_bytes(b"other")}, "UNSAFE_FILE")):
        with pytest.raises(UserError) as refused:
            model_add(file, **arguments)  # type: ignore[arg-type]
        assert refused.value.code == code
    with pytest.raises(UserError) as gone:
        model_add(tmp_path / "none.onnx")
    assert gone.value.code == "UNREADABLE"
    assert not registry.user_folder().exists() or not list(registry.user_folder().iterdir())


def test_installing_compares_the_digest_before_anything_reads_the_file(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "far.onnx", names="['ship']")
    with pytest.raises(UserError) as wrong:
        model_fetch(file.as_uri(), sha256=digest_bytes(b"else"), name="far")
    assert wrong.value.code == "UNSAFE_FILE"
    card = model_fetch(file.as_uri(), sha256=digest_file(file), name="far")
    assert card.class_names == ("ship",) and card.url == file.as_uri()
    with pytest.raises(UserError) as plain:
        model_fetch("http://example.org/far.onnx", sha256=digest_file(file), name="far2")
    assert plain.value.code == "BAD_ARGUMENT"
    with pytest.raises(UserError) as unknown:
        registry.model_install("no-such-model")
    assert unknown.value.code == "NOT_FOUND"


def test_a_source_that_drips_is_left(tmp_path: Path) -> None:
    import threading
    import time

    pipe, over = tmp_path / "model.onnx", threading.Event()
    os.mkfifo(pipe)

    def drip() -> None:
        with pipe.open("wb", buffering=0) as out:
            while not over.wait(0.02):
                try:
                    out.write(b"x")
                except BrokenPipeError:
                    return

    source = threading.Thread(target=drip)
    source.start()
    began = time.monotonic()
    try:
        with pytest.raises(UserError) as caught:
            model_fetch(pipe.as_uri(), sha256=digest_bytes(b"else"), name="far", most_s=0.3)
    finally:
        over.set()
        source.join()
    assert caught.value.code == "MODEL_UNREACHABLE" and time.monotonic() - began < 30



def test_shipped_models_cannot_be_removed() -> None:
    with pytest.raises(UserError) as refused:
        model_remove("nadir3")
    assert refused.value.code == "FORBIDDEN"


def test_list_and_add_import_no_torch(tmp_path: Path) -> None:
    onnx_file(tmp_path / "boats.onnx", names="['boat']")
    script = ("import sys\nfrom pathlib import Path\nfrom apps.tools.zoo import registry\n"
              f"registry.model_add(Path({str(tmp_path / 'boats.onnx')!r}))\n"
              "assert any(c.name == 'boats' for c, _ in registry.models())\n"
              "assert not {'torch', 'ultralytics', 'torchvision'} & set(sys.modules)\nprint('clean')")
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "clean", done.stderr


def command(*arguments: str) -> int:
    """Exit status of ``models …``."""
    from django.core.management import call_command

    with pytest.raises(SystemExit) as left:
        call_command("models", *arguments)
    return int(left.value.code or 0)


def test_the_command_line_lists_adds_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = onnx_file(tmp_path / "kilns.onnx", names="['kiln']")
    assert command("add", str(file), "--gsd", "0.2-1", "--licence", "MIT") == 0
    capsys.readouterr()
    assert command("list", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    mine = next(m for m in told["models"] if m["name"] == "kilns")
    assert mine["gsd_m"] == [0.2, 1.0] and mine["classes"] == [{"name": "kiln", "experimental": True}]
    assert {"nadir3"} <= {m["name"] for m in told["models"]}
    assert command("list") == 0
    assert "kilns  detect  0.2–1 m" in capsys.readouterr().out
    assert command("remove", "kilns") == 0
    assert command("show", "kilns") == 2
    for wrong, part in ((("add", str(tmp_path / "gone.onnx")), "no file"), (("add", str(file), "--gsd", "wide"), "no range"),
                        (("install", "nothing"), "zoo.json names no")):
        capsys.readouterr()
        assert command(*wrong) == 2
        assert part in capsys.readouterr().err
