"""The floors of the house and what may stand on each; a rule is a function from imports to what breaks it."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.imports import Import

FLOORS = {
    "core": 1,
    "accounts": 2,
    "artifacts": 2,
    "imagery": 3,
    "tools": 4,
    "prior": 4,
    "verification": 5,
    "agent": 6,
    "runs": 7,
    "review": 8,
    "evaluation": 8,
}
# What a room may import of the others, where it is less than all that lies below: an application, or one module of it.
MAY_IMPORT = {
    "core": (),
    "accounts": ("core",),
    "artifacts": ("core", "accounts"),
    "imagery": ("core", "artifacts", "accounts"),
    "tools": ("core",),
    "prior": ("core", "imagery", "accounts"),
    "verification": ("core", "prior.domain"),
    "agent": ("core", "tools.contract", "tools.arguments", "verification"),
}
# The two that no exemption may lift.
NEVER = {
    ("verification", "tools"): "a verifier that reuses the tool's code repeats the tool's mistake",
    ("evaluation", "verification.checks"): "ground truth is not scored by what it judges",
}
CORE_LIBRARIES = {"numpy", "pint", "pydantic", "pyproj", "shapely"}
NO_DJANGO = ("core", "agent", "verification")
DJANGO = {"django", "channels", "celery", "rest_framework", "environ", "leaflet"}
HEAVY = {"torch", "torchvision", "ultralytics", "rasterio", "onnxruntime"}
# Files that may import rasterio when they are imported themselves; nobody may import the others so.
RASTERIO_ROOMS = ("readers.py", "writers.py", "tiles.py", "ingest*.py", "ingest/*.py")


@dataclass(frozen=True)
class Violation:
    """An import that breaks a rule."""

    rule: str
    source: Import

    @property
    def key(self) -> tuple[str, str]:
        """What an exemption names: the file and the module."""
        return str(self.source.file), self.source.module

    def __str__(self) -> str:
        return f"{self.source.file}:{self.source.line} imports {self.source.module}: {self.rule}"


def app_of(path: Path) -> str | None:
    """The application that a file belongs to, or None for one outside apps/."""
    return path.parts[1] if path.parts[0] == "apps" and len(path.parts) > 2 else None


def _is_within(module: str, allowed: Iterable[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def floors(imports: Iterable[Import]) -> Iterator[Violation]:
    """Imports go strictly downward, and only to the rooms that the table names."""
    for source in imports:
        importer = app_of(source.file)
        if importer is None:
            continue
        if _is_within(source.module, ["rsure_web", "tests"]):
            yield Violation("nothing under apps imports the project or its tests", source)
        if not source.module.startswith("apps."):
            continue
        target = source.module.removeprefix("apps.")
        imported = target.split(".")[0]
        if imported == importer:
            continue
        if FLOORS[imported] >= FLOORS[importer]:
            yield Violation(f"floor {FLOORS[importer]} imports floor {FLOORS[imported]}", source)
        elif importer in MAY_IMPORT and not _is_within(target, MAY_IMPORT[importer]):
            yield Violation(f"{importer} may import {', '.join(MAY_IMPORT[importer]) or 'no other room'}", source)


def nevers(imports: Iterable[Import]) -> Iterator[Violation]:
    """The two bold rules, also for imports inside functions and for types only."""
    for source in imports:
        for (importer, banned), reason in NEVER.items():
            if app_of(source.file) == importer and _is_within(source.module, [f"apps.{banned}"]):
                yield Violation(f"never: {reason}", source)


def plain_python(imports: Iterable[Import]) -> Iterator[Violation]:
    """No Django below core, agent and verification; core knows four libraries besides the standard one."""
    for source in imports:
        app = app_of(source.file)
        top = source.module.split(".")[0]
        if app in NO_DJANGO and top in DJANGO:
            yield Violation(f"no Django under {app}", source)
        elif app == "core" and top not in CORE_LIBRARIES | {"apps", "__future__"} | sys.stdlib_module_names:
            yield Violation(f"core may import {', '.join(sorted(CORE_LIBRARIES))} and the standard library", source)


def light_import(imports: Iterable[Import]) -> Iterator[Violation]:
    """No heavy library is imported with a module, save rasterio in the rooms that read and write rasters."""
    for source in imports:
        top = source.module.split(".")[0]
        if top not in HEAVY or not source.is_at_import or source.file.parts[0] == "tests":
            continue
        is_room = any(source.file.match(f"apps/imagery/{pattern}") for pattern in RASTERIO_ROOMS)
        if not (top == "rasterio" and is_room):
            yield Violation(f"{top} is imported with the module", source)


RULES = (floors, nevers, plain_python, light_import)
