"""``./rsure ask FILE… --question TEXT``: one question, answered in this process through the same services as the web."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.accounts.models import Project
from apps.accounts.services import project_create
from apps.core.errors import UserError
from apps.core.exits import EXIT_ABSTAINED, EXIT_DONE, EXIT_FAULT, guarded
from apps.imagery.models import VectorLayer
from apps.imagery.nesting import WISHES
from apps.imagery.services import check_file, clean_name, make_hints, scene_ingest_now, scenes_of_band_files, scenes_of_times
from apps.imagery.vector_layers import accuracy_from_text, vector_add_now
from apps.imagery.vectors import is_vector_name
from apps.runs import present, selectors, services
from apps.runs.arguments import (
    choices_from_text,
    dates_from_words,
    region_from_text,
    roles_from_text,
)
from apps.runs.landmarks import landmarks_from_text
from apps.runs.prompts import prompts_from_options

CLI_PROJECT = "Command line"


def _vector(project: Project, path: Path, accuracy_m: float | None) -> VectorLayer:
    """A vector file of this machine, read at once."""
    check_file(path)
    return vector_add_now(project=project, path=path, name=clean_name(path.name), accuracy_m=accuracy_m)


class Command(BaseCommand):
    help = "Answers one question about one or more image files, with vector files that it names."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--question", required=True, help="in plain English")
        parser.add_argument("--choices", default="", help='JSON object of choices: {"A": "12 ha", "B": "30 ha"}')
        parser.add_argument("--region", default="", help="WKT, GeoJSON, or a file that holds either (EPSG:4326)")
        parser.add_argument(
            "--landmarks", default="", metavar="GEOJSON|FILE", help="two marked places, A and B: points or boxes as GeoJSON "
            "(EPSG:4326; pixels of an image without CRS)"
        )  # fmt: skip
        for name, values, said in (
            (
                "--point",
                "X,Y",
                "a place inside the thing to segment: longitude,latitude, or column,row of an image without CRS; repeatable",
            ),
            ("--not-point", "X,Y", "a place outside of it; of these five write --point=-1.2,50.7 where X is negative"),
            ("--box", "X,Y,X,Y", "a box about it, once: west,south,east,north, or left,top,right,bottom"),
            ("--scribble", "X,Y;X,Y;…", "a stroke over it"),
            ("--not-scribble", "X,Y;X,Y;…", "a stroke over something else"),
        ):  # fmt: skip
            parser.add_argument(name, action="append", default=[], metavar=values, help=said)
        parser.add_argument("--roles", default="", help="band roles by 1-based index: blue=1,green=2,red=3,nir=4")
        parser.add_argument("--unit", default="", help="unit of the values, where the file tells none: m, K, reflectance")
        parser.add_argument(
            "--scale", type=float, default=None, metavar="NUMBER", help="physical value = stored × scale + offset, where the "
            "file tells neither; of all image files alike"
        )  # fmt: skip
        parser.add_argument("--offset", type=float, default=None, metavar="NUMBER", help="see --scale; in the unit of the values")
        parser.add_argument("--gsd-m", type=float, default=None, help="ground sampling distance in metres")
        parser.add_argument(
            "--acquired", action="append", nargs="+", default=[], metavar="DATE", help="dates, one a file, in order"
        )
        parser.add_argument(
            "--accuracy-m", default="", metavar="METRES", help="by how many metres points of the vector files may lie off; "
            "without it, intervals are at least what their written digits can hold"
        )  # fmt: skip
        parser.add_argument(
            "--grid", choices=WISHES, default="auto", help="onto which grid band files of one scene with pixels of several sizes "
            "come: the finer, each coarser pixel repeated; the coarser, finer ones averaged; auto: the finer where all lie in it"
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(guarded(lambda: self._ask(options), options))

    def _ask(self, options: dict[str, Any]) -> int:
        roles = roles_from_text(options["roles"])
        region = region_from_text(options["region"], may_read_files=True) if options["region"] else None
        choices = choices_from_text(options["choices"])
        files: list[Path] = options["files"]
        vector_files = [path for path in files if is_vector_name(path.name)]
        files = [path for path in files if not is_vector_name(path.name)]
        dates = dates_from_words([d for group in options["acquired"] for d in group], len(files))
        accuracy_m = accuracy_from_text(options["accuracy_m"])
        gsd_m = options["gsd_m"]
        if gsd_m is not None and not 0 < gsd_m < 1e6:
            raise UserError(
                "BAD_ARGUMENT",
                f"A GSD of {gsd_m} m is impossible.",
                "It must be a positive number of metres.",
                "Give --gsd-m as metres a pixel, such as 0.3.",
            )
        project = Project.objects.filter(name=CLI_PROJECT, created_by=None, is_sample=False).first() or project_create(
            user=None, name=CLI_PROJECT, description="Questions asked by ./rsure ask."
        )
        said = make_hints(
            {
                "unit": options["unit"].strip()[:40] or None,
                "scale": options["scale"],
                "offset": options["offset"],
            }
        )
        scenes = [
            scene_ingest_now(project=project, path=path, roles=roles or None, gsd_m=gsd_m, acquired_at=date, hints=said)
            for path, date in zip(files, dates, strict=True)
        ]
        timed = [s for one in scenes for s in scenes_of_times(one)]
        scenes = scenes_of_band_files(project=project, scenes=timed, wish=options["grid"])
        landmarks = (
            landmarks_from_text(options["landmarks"], [s.scene_info for s in scenes], may_read_files=True)
            if options["landmarks"]
            else ()
        )
        prompts = prompts_from_options(options, [s.scene_info for s in scenes])
        vectors = [_vector(project, path, accuracy_m).vector_info for path in vector_files]
        run = services.run_start(
            user=None,
            project=project,
            text=options["question"],
            scenes=scenes,
            region=region,
            choices=choices,
            enqueue=False,
            vectors=vectors,
            landmarks=landmarks,
            prompts=prompts,
        )
        services.run_execute_now(run_id=run.pk)
        state = selectors.run_state(run.pk)
        if options["json"]:
            self.stdout.write(json.dumps(present.ask_json(state), ensure_ascii=False))
        else:
            self.stdout.write(present.ask_text(state))
            has_unknown = any(band.role == "unknown" for one in scenes for band in one.scene_info.bands)
            for line in present.options_asked(state.answer, has_unknown_bands=has_unknown) if state.answer else ():
                self.stdout.write(line)
        if state.failure is not None or state.answer is None:
            return EXIT_FAULT
        return EXIT_ABSTAINED if state.answer.abstained else EXIT_DONE
