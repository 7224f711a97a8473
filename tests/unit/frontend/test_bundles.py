"""The committed bundles match their sources: by digest without Node, by a new build where Node is installed."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.shared import ROOT

FRONTEND, BUILD = ROOT / "frontend", ROOT / "static" / "build"
SOURCES = ("package.json", "package-lock.json", "tsconfig.json", "build.mjs", "src", "css", "public")


def digests(paths: list[Path], base: Path) -> dict[str, str]:
    return {path.relative_to(base).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def files(root: Path) -> list[Path]:
    return [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())


def recorded() -> dict[str, dict[str, str]]:
    digests: dict[str, dict[str, str]] = json.loads((BUILD / "digests.json").read_text())
    return digests


def test_sources_are_those_the_bundles_were_built_from() -> None:
    now = digests([path for name in SOURCES for path in files(FRONTEND / name)], FRONTEND)
    assert now == recorded()["sources"], "run `npm ci && npm run build` in frontend/"


def test_bundles_are_those_that_were_built() -> None:
    now = digests([path for path in files(BUILD) if path.name != "digests.json"], BUILD)
    assert now == recorded()["bundles"]


needs_node = pytest.mark.skipif(
    not (FRONTEND / "node_modules").is_dir() or shutil.which("node") is None, reason="no node_modules: `npm ci` in frontend/"
)


@needs_node
def test_a_new_build_gives_the_same_bytes(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=FRONTEND, check=True, capture_output=True)
    now = digests([path for path in files(tmp_path) if path.name != "digests.json"], tmp_path)
    assert now == recorded()["bundles"]


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("command", [("npx", "tsc", "--noEmit"), ("npx", "vitest", "run")])
def test_types_and_unit_tests_of_the_front_end(command: tuple[str, ...]) -> None:
    answer = subprocess.run(command, cwd=FRONTEND, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((FRONTEND / "package-lock.json").read_text())
    assert lock["packages"]
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_raw_colours_stand_in_the_tokens_only() -> None:
    colour = re.compile(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\(")
    found = {
        path.name: colour.findall(path.read_text())
        for path in files(FRONTEND / "css")
        if path.suffix == ".css" and path.name != "tokens.css"
    }
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_no_address_of_another_site_is_loaded() -> None:
    for path in files(BUILD):
        if path.suffix == ".css":
            assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//", path.read_text()), path.name


def test_both_dark_blocks_are_equal() -> None:
    text = (FRONTEND / "css" / "tokens.css").read_text()
    by_system = text.split("@media screen and (prefers-color-scheme:dark){", 1)[1].split("}}", 1)[0].split("{", 1)[1]
    by_choice = text.split('@media screen{:root[data-theme="dark"]{', 1)[1].split("}}", 1)[0]
    assert by_system.split() == by_choice.split()
    assert "--bg:" in by_choice
