"""``./rsure reread SCENE…``: scenes read anew from their kept files, as this version reads them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandParser

from apps.core.errors import UserError
from apps.core.exits import EXIT_BAD_INPUT, EXIT_DONE, guarded
from apps.imagery.models import Scene
from apps.runs.rereading import scene_reread


class Command(BaseCommand):
    help = "Reads scenes anew from their kept files and tells what changed; answers made before are marked, never taken back."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("scenes", nargs="*", metavar="SCENE", help="id or file name of a scene; all of that name are read")
        parser.add_argument("--all", action="store_true", help="every scene of this installation")
        parser.add_argument("--json", action="store_true", help="one JSON object a scene")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(guarded(lambda: self._reread(options), options))

    def _reread(self, options: dict[str, Any]) -> int:
        if bool(options["scenes"]) == options["all"]:
            raise UserError("BAD_ARGUMENT", "No scene is named.", "Name scenes, or give --all; not both.", "See --help.")
        ready = Scene.objects.filter(status=Scene.READY).order_by("created_at")
        chosen = list(ready) if options["all"] else [s for name in options["scenes"] for s in _named(name)]
        status = EXIT_DONE
        for scene in {s.pk: s for s in chosen}.values():
            told: dict[str, Any] = {"scene": str(scene.pk), "name": scene.name}
            try:
                changes, n_runs = scene_reread(scene=scene)
                told |= {"changes": list(changes), "runs": n_runs}
            except UserError as error:
                status = EXIT_BAD_INPUT
                told |= {"error": error.as_json()}
            self.stdout.write(json.dumps(told, ensure_ascii=False) if options["json"] else _lines(told))
        return status


def _named(name: str) -> list[Scene]:
    ready = Scene.objects.filter(status=Scene.READY).order_by("created_at")
    try:
        found = list(ready.filter(pk=UUID(name)))
    except ValueError:
        found = list(ready.filter(name=name))
    if not found:
        raise UserError("NOT_FOUND", f"There is no scene “{name[:80]}”.", "No id and no name of a scene that is ready is so.",
                        "See the page Imagery for names, and a scene's address for its id.", status=404)  # fmt: skip
    return found


def _lines(told: dict[str, Any]) -> str:
    head = f"{told['name']} ({told['scene']})"
    if "error" in told:
        return f"{head}: {told['error']['what']} {told['error']['why']} {told['error']['fix']}"
    if not told["changes"]:
        return f"{head}: read anew, nothing changed."
    n = told["runs"]
    marked = "1 run rests on the older reading and is marked" if n == 1 else f"{n} runs rest on the older reading and are marked"
    return "\n".join([f"{head}: read anew; {marked}.", *(f"  {c}" for c in told["changes"])])
