"""The house keeps its floors. An exemption carries its reason, and one that nobody needs fails."""

import ast
from pathlib import Path

import pytest

from tests.architecture.imports import Import, imports_of, python_files
from tests.architecture.rules import FLOORS, RULES, Violation, floors, light_import, nevers, plain_python
from tests.shared import ROOT

# (file, imported module) -> why it is right all the same. The two nevers take none.
EXEMPTIONS: dict[tuple[str, str], str] = {
    ("rsure_web/settings.py", "rasterio"): "GeoDjango is pointed at the GDAL of rasterio's wheel, loaded first",
}
# File outside imagery that opens rasters -> why.
OPENERS = {
    "apps/evaluation/faultbench/truth.py": "truth is read without the readers that the judged tools use",
    "apps/evaluation/benchmarks/imagery.py": "writes the large rasters that benchmarks read",
    "apps/evaluation/benchmarks/series.py": "writes the series of dates that benchmarks read",
    "apps/evaluation/benchmarks/detection.py": "writes the large picture that detection is measured on",
}


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    files = [*python_files(ROOT, "apps", "rsure_web"), ROOT / "manage.py"]
    return [found for file in files for found in imports_of(ROOT, file)]


@pytest.fixture(scope="module")
def violations(imports: list[Import]) -> list[Violation]:
    return [violation for rule in RULES for violation in rule(imports)]


def test_imports_keep_the_rules(violations: list[Violation]) -> None:
    broken = [v for v in violations if v.key not in EXEMPTIONS or v.rule.startswith("never")]
    assert not broken, "\n" + "\n".join(map(str, broken))


def _circles(imports: list[Import]) -> list[list[str]]:
    """Groups of modules that need each other to be imported. Importing a module runs the packages that it lies in, but for those
    that the importer lies in too."""
    names = {file: ".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in {i.file for i in imports}}
    needs: dict[str, set[str]] = {}
    for found in imports:
        if found.is_at_import and found.module.startswith("apps."):
            own, parts = names[found.file], found.module.split(".")
            chain = [".".join(parts[:n]) for n in range(2, len(parts) + 1)]
            needs.setdefault(own, set()).update(m for m in chain if m != own and not own.startswith(f"{m}."))
    reached: dict[str, set[str]] = {}
    for start in needs:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for m in needs.get(todo.pop(), ()):
                if m not in seen:
                    seen.add(m)
                    todo.append(m)
        reached[start] = seen
    return [sorted(m for m in seen if start in reached.get(m, ())) for start, seen in reached.items() if start in seen]


def test_every_module_can_be_imported_first(imports: list[Import]) -> None:
    assert not _circles(imports)


def test_a_circle_of_imports_is_seen() -> None:
    def one(file: str, module: str) -> Import:
        return Import(Path(file), module, 1, is_at_import=True)

    apart = [one("apps/a/look.py", "apps.a.case"), one("apps/a/checks/__init__.py", "apps.a.checks.size")]
    size = one("apps/a/checks/size.py", "apps.a.look")
    assert not _circles([*apart, size])
    # a case inside the package brings all checks along
    found = _circles([one("apps/a/look.py", "apps.a.checks.case"), apart[1], size])
    assert ["apps.a.checks", "apps.a.checks.size", "apps.a.look"] in found


def test_no_exemption_is_stale(violations: list[Violation]) -> None:
    stale = set(EXEMPTIONS) - {violation.key for violation in violations}
    assert not stale


def test_every_exemption_has_a_reason() -> None:
    assert all(len(reason) > 20 for reason in EXEMPTIONS.values())


def test_every_application_has_a_floor() -> None:
    found = {path.name for path in (ROOT / "apps").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert found <= set(FLOORS)


def test_rasters_are_opened_in_the_rooms_of_imagery_alone() -> None:
    found = set()
    for file in python_files(ROOT, "apps", "rsure_web"):
        relative = file.relative_to(ROOT)
        if relative.parts[:2] == ("apps", "imagery"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "rasterio.open":
                found.add(str(relative))
    assert found == set(OPENERS)


def test_top_level_is_as_designed() -> None:
    allowed_folders = {"rsure_web", "apps", "frontend", "static", "templates", "tests", "docker", "docs"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders <= allowed_folders | {"node_modules"}


def _tree(tmp_path: Path, **sources: str) -> list[Import]:
    """Imports of a small made-up house; keys are paths with `__` for `/`."""
    for name, source in sources.items():
        file = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return [found for file in python_files(tmp_path, "apps") for found in imports_of(tmp_path, file)]


@pytest.mark.parametrize(
    ("path", "source", "rule"),
    [
        ("apps__core__geo", "from apps.accounts.models import User", floors),
        ("apps__tools__measure", "def f():\n    from apps.imagery import readers", floors),
        ("apps__tools__measure", "import apps.prior.domain", floors),
        ("apps__accounts__services", "from ..runs import services", floors),
        ("apps__runs__services", "from rsure_web.settings import DEBUG", floors),
        ("apps__agent__loop", "from apps.tools.execute import operators", floors),
        ("apps__verification__judge", "from apps.prior.models import Cell", floors),
        ("apps__verification__checks__grid", "def f():\n    import apps.tools.measure", nevers),
        (
            "apps__verification__judge",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from apps import tools",
            nevers,
        ),
        ("apps__evaluation__metrics", "from apps.verification import checks", nevers),
        ("apps__agent__loop", "from django.db import models", plain_python),
        ("apps__core__ids", "import requests", plain_python),
        ("apps__tools__zoo__load", "try:\n    import torch\nexcept ImportError:\n    torch = None", light_import),
        ("apps__imagery__services", "class A:\n    import rasterio", light_import),
    ],
)
def test_each_rule_finds_what_breaks_it(tmp_path: Path, path: str, source: str, rule: object) -> None:
    for name in ("tools", "imagery", "prior", "verification"):
        (tmp_path / "apps" / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "apps" / "verification" / "checks").mkdir()
    found = list(rule(_tree(tmp_path, **{path: source})))  # type: ignore[operator]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("apps__core__geo", "import math\nimport numpy as np\nfrom . import ids"),
        ("apps__tools__zoo__load", "def f():\n    import torch\n    return torch"),
        ("apps__imagery__readers", "import rasterio\nfrom apps.core import ids"),
        ("apps__imagery__ingest_probe", "import rasterio"),
        ("apps__verification__judge", "from apps.prior.domain import Cell"),
        ("apps__evaluation__bench", "from apps.runs import services\nfrom apps.verification.backends import panel"),
        (
            "apps__tools__zoo__load",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    torch = None",
        ),
    ],
)
def test_no_rule_finds_fault_with_what_is_right(tmp_path: Path, path: str, source: str) -> None:
    for name in ("core", "runs", "verification"):
        (tmp_path / "apps" / name).mkdir(parents=True, exist_ok=True)
    imports = _tree(tmp_path, **{path: source})
    assert [str(violation) for rule in RULES for violation in rule(imports)] == []
