"""The web process stays light: it never even tries to import a machine-learning library."""

import json
import subprocess
import sys

from tests.shared import ROOT

# Every attempt is noted, so that the test means the same where torch is installed and where it is not.
_PROGRAM = """
import importlib.abc, json, sys

tried = []

class Note(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in BANNED:
            tried.append(name)
        return None

sys.meta_path.insert(0, Note())
import rsure_web.asgi
from django.urls import get_resolver

def walk(resolver):
    count = 0
    for entry in resolver.url_patterns:
        count += walk(entry) if hasattr(entry, "url_patterns") else 1
    return count

print(json.dumps({"tried": tried, "addresses": walk(get_resolver())}))
"""
BANNED = ("torch", "torchvision", "ultralytics", "cv2", "onnxruntime", "tensorflow", "sklearn", "transformers")
# Opens and writes vector files, in processes of its own.
APART = ("pyogrio", "fiona", "osgeo")


def _import_web(banned: tuple[str, ...]) -> dict[str, object]:
    answer = subprocess.run(
        [sys.executable, "-c", f"BANNED = {banned!r}\n{_PROGRAM}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def test_web_process_imports_no_ml_library() -> None:
    found = _import_web(BANNED)
    assert found["tried"] == []
    assert isinstance(found["addresses"], int)
    assert found["addresses"] > 2


def test_the_note_taker_sees_what_is_imported() -> None:
    assert "rasterio" in _import_web(("rasterio",))["tried"]  # type: ignore[operator]


def test_web_process_imports_no_vector_driver_and_no_unit_registry() -> None:
    assert _import_web((*APART, "pint"))["tried"] == []
