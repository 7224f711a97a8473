"""``models list | add | install | remove | train``: the model zoo on the command line."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.errors import ToolAbstainedError, UserError
from apps.core.exits import EXIT_DONE, guarded
from apps.runs.model_cards import model_state
from apps.tools.zoo import registry
from apps.tools.zoo.cards import ModelCard
from apps.tools.zoo.runtime import HOW_TO_SWITCH_ON, has_torch, has_ultralytics
from apps.tools.zoo.training import detector, scene, steps


class Command(BaseCommand):
    help = "The model zoo: which detectors and classifiers there are, adding one by file or URL, and training the shipped ones."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=argparse.ArgumentParser)
        one = verbs.add_parser("list", help="models at hand, and known ones that can be installed")
        one.add_argument("--json", action="store_true", dest="as_json")
        one = verbs.add_parser("show", help="a model's whole card")
        one.add_argument("name")
        one = verbs.add_parser("add", help="add a weights file: Ultralytics .pt, .onnx, .torchscript, .rsw")
        one.add_argument("file", type=Path, help="the weights")
        _about(one)
        one = verbs.add_parser("install", help="fetch a model that zoo.json names, or by --url and --sha256")
        one.add_argument("name")
        one.add_argument("--url", default="")
        one.add_argument("--sha256", default="")
        _about(one, with_name=False)
        one = verbs.add_parser("remove", help="remove an added model")
        one.add_argument("name")
        one = verbs.add_parser("train", help="train a detector or a scene classifier by the project's recipe")
        one.add_argument("what", choices=("detector", "scene"))
        one.add_argument(
            "rest",
            nargs=argparse.REMAINDER,
            help="--data DIR --out DIR [--resume] [--seed N] and the recipe's own options (--help tells them)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(guarded(lambda: self._run(options), options))

    def _run(self, options: dict[str, Any]) -> int:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except ToolAbstainedError as error:
            raise UserError("MODEL_MISSING", "The zoo cannot serve that.", str(error), "See `./rsure models list`.") from error
        return EXIT_DONE

    def _list(self, options: dict[str, Any]) -> None:
        held = registry.models()
        known = [e for e in registry.read_zoo_file() if e.get("url")]
        state = {"torch": has_torch(), "ultralytics": has_ultralytics()}
        if options["as_json"]:
            told = {
                "ready": state,
                "models": [_short(c, p) for c, p in held],
                "installable": [{k: e.get(k) for k in ("name", "task", "licence", "url", "sha256")} for e in known],
            }
            self.stdout.write(json.dumps(told, indent=1))
            return
        for card, path in held:
            line = _short(card, path)
            gsd = f"{card.gsd_m[0]:g}–{card.gsd_m[1]:g} m" if card.gsd_m else "any GSD"
            self.stdout.write(f"{card.name}  {card.task}  {gsd}  {card.bytes / 1e6:.1f} MB  {line['state']}")
            names = [f"{c.name}{' (experimental)' if c.experimental else ''}" for c in card.classes]
            self.stdout.write(f"    {', '.join(names[:24])}{' …' if len(names) > 24 else ''}")
        for entry in known:
            self.stdout.write(f"{entry['name']}  {entry.get('task', '')}  not installed: models install {entry['name']}")
        if not held and not known:
            self.stdout.write("The zoo is empty.")
        if not has_torch():
            self.stdout.write(HOW_TO_SWITCH_ON)

    def _show(self, options: dict[str, Any]) -> None:
        self.stdout.write(registry.model_named(options["name"])[0].model_dump_json(indent=1))

    def _add(self, options: dict[str, Any]) -> None:
        if options["trust"]:
            self.stderr.write(registry.PICKLE_RISK)
        card = registry.model_add(
            options["file"],
            name=options["name"],
            task=options["task"],
            classes=_classes(options),
            gsd_m=_gsd(options),
            licence=options["licence"],
            allow_pickle=options["trust"],
            max_bytes=options["max_mb"] * 1_000_000,
        )
        self._added(card)

    def _install(self, options: dict[str, Any]) -> None:
        if options["url"]:
            card = registry.model_fetch(
                options["url"],
                sha256=options["sha256"],
                name=options["name"],
                task=options["task"],
                classes=_classes(options),
                licence=options["licence"],
                allow_pickle=options["trust"],
                max_bytes=options["max_mb"] * 1_000_000,
            )
        else:
            card = registry.model_install(options["name"], allow_pickle=options["trust"])
        self._added(card)

    def _added(self, card: ModelCard) -> None:
        self.stdout.write(f"{card.name}: {card.task}, {len(card.classes)} classes, {card.sha256}")
        self.stdout.write(
            {
                "change": "Its scores are not known: its masks are marked experimental. Ask for it by name in the change tool's "
                "options.",
                "prompt": "Its scores are not known: look at its masks. Ask for it by name as the model of a prompt.",
            }.get(card.task, "Its scores are not known: its counts get a wide interval and are marked experimental.")
        )
        if not has_torch():
            self.stdout.write(HOW_TO_SWITCH_ON)

    def _remove(self, options: dict[str, Any]) -> None:
        registry.model_remove(options["name"])
        self.stdout.write(f"{options['name']} is removed.")

    def _train(self, options: dict[str, Any]) -> None:
        recipe = {"detector": detector, "scene": scene}[options["what"]]
        # the options are read before torch is asked for: help and a slip of the pen need none
        given = recipe.parser(f"rsure models train {options['what']}").parse_args(options["rest"])
        options |= vars(given)  # what the system refuses of its paths is bad input too
        for name, is_there in (("data", given.data.is_dir()), ("init", given.init is None or given.init.is_file())):
            if not is_there:
                thing = "folder" if name == "data" else "file"
                raise UserError(
                    "UNREADABLE",
                    f"There is no {thing} “{options[name].name[:80]}”.",
                    f"--{name} leads to none.",
                    "Check the path.",
                )
        if not has_torch():
            raise UserError("MODEL_MISSING", "Nothing can be trained here.", "torch is not at hand.", HOW_TO_SWITCH_ON)
        recipe.run(given)


def _about(parser: argparse.ArgumentParser, *, with_name: bool = True) -> None:
    if with_name:
        parser.add_argument("--name", default="")
    parser.add_argument("--task", choices=("detect", "obb", "segment", "classify", "change", "prompt"), default="detect")
    parser.add_argument("--classes", default="", help="car,truck,… in the model's order, where the file does not name them")
    parser.add_argument("--gsd", default="", help="range of GSD in metres it was made for, as 0.1-0.5")
    parser.add_argument("--licence", default="")
    parser.add_argument("--trust", action="store_true", help="a .pt is a pickle and can run any code: only from whom you trust")
    parser.add_argument("--max-mb", type=steps.whole(1), default=2000, metavar="N", help="the largest file that is taken")


def _classes(options: dict[str, Any]) -> tuple[str, ...]:
    return tuple(c.strip() for c in options["classes"].split(",") if c.strip())


def _gsd(options: dict[str, Any]) -> tuple[float, float] | None:
    text = options.get("gsd", "")
    if not text:
        return None
    try:
        low, high = (float(v) for v in text.split("-"))
    except ValueError as error:
        raise UserError(
            "BAD_ARGUMENT", f"--gsd {text} is no range.", "It is two numbers in metres.", "Give --gsd 0.1-0.5"
        ) from error
    if not 0 < low <= high < 1e6:
        raise UserError(
            "BAD_ARGUMENT", f"--gsd {text} is no range.", "Low comes before high, both in metres.", "Give --gsd 0.1-0.5"
        )
    return low, high


def _short(card: ModelCard, path: Path) -> dict[str, Any]:
    return {
        "name": card.name,
        "title": card.title,
        "version": card.version,
        "task": card.task,
        "format": card.format,
        "classes": [{"name": c.name, "experimental": c.experimental} for c in card.classes],
        "gsd_m": card.gsd_m,
        "licence": card.licence,
        "sha256": card.sha256,
        "bytes": card.bytes,
        "source": card.source,
        "state": model_state(card, path),
    }
