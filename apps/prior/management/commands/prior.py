"""``./rsure prior show|export|import|rebuild|freeze|use|rollback|compare``: the reliability prior, as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.digests import digest_json
from apps.core.errors import NotFoundError, UserError
from apps.core.exits import EXIT_DONE, EXIT_FAULT, guarded
from apps.prior.models import PriorVersion
from apps.prior.selectors import prior_compare, prior_digest, prior_export, prior_head, prior_rebuild, prior_table
from apps.prior.services import outcomes_from_text, prior_freeze, prior_import, prior_rollback, prior_use


class Command(BaseCommand):
    help = "Shows, exports, imports and rebuilds the task-tool reliability prior."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, parser_class=argparse.ArgumentParser)
        show = actions.add_parser("show", help="the table: task type, configuration, r-hat, 90 %% interval, n, level, version")
        show.add_argument("--version", dest="prior_version", help="name of a version, or log-N; default what decisions see")
        show.add_argument("--level", choices=("fine", "coarse", "tool", "global"))
        show.add_argument("--task-type", default="")
        show.add_argument("--json", action="store_true")
        export = actions.add_parser("export", help="standing outcomes as JSON Lines")
        export.add_argument("--version", dest="prior_version", help="name of a version, or log-N; default the head of the log")
        export.add_argument("--out", type=Path, metavar="FILE", help="a file in place of standard output")
        load = actions.add_parser("import", help="labelled outcomes from JSON Lines; what was imported before is skipped")
        load.add_argument("file", help="a file, or - for standard input")
        load.add_argument("--source", choices=("offline", "import"), default="offline")
        load.add_argument("--author", default="command line")
        load.add_argument("--reason", default="")
        rebuild = actions.add_parser("rebuild", help="builds a version from the log alone and compares it with its digest")
        rebuild.add_argument("version", nargs="?", help="default: every named version")
        freeze = actions.add_parser("freeze", help="names the head of the log and keeps it")
        freeze.add_argument("name")
        freeze.add_argument("--note", default="")
        freeze.add_argument("--author", default="command line")
        use = actions.add_parser("use", help="decisions see this version; 'head' for the log's head")
        use.add_argument("name")
        use.add_argument("--author", default="command line")
        back = actions.add_parser("rollback", help="compensates everything after a version")
        back.add_argument("name")
        back.add_argument("--author", default="command line")
        compare = actions.add_parser("compare", help="cells that differ between two versions")
        compare.add_argument("one")
        compare.add_argument("other", nargs="?")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(guarded(lambda: self._act(options), options))

    def _act(self, options: dict[str, Any]) -> int:
        """Exit status; UserError for bad input."""
        try:
            status: int | None = getattr(self, f"_{options['action']}")(options)
        except NotFoundError as error:
            known = ", ".join(PriorVersion.objects.order_by("seq").values_list("name", flat=True))
            raise UserError(
                "NOT_FOUND",
                "There is no such version of the prior.",
                (f"Known are {known}" if known else "No version was ever named") + f", and the log ends at log-{prior_head()}.",
                "Name one of them, or name the log's head with `./rsure prior freeze NAME`.",
                status=404,
            ) from error
        return EXIT_DONE if status is None else status

    def _line(self, value: Any) -> None:
        self.stdout.write(json.dumps(value, ensure_ascii=False, sort_keys=True))

    def _show(self, options: dict[str, Any]) -> None:
        rows = prior_table(version=options["prior_version"], level=options["level"], task_type=options["task_type"])
        if options["json"]:
            for row in rows:
                self._line(dataclasses.asdict(row))
            return
        if not rows and (options["level"] or options["task_type"]):
            self.stdout.write("No cell of the prior is of that level and task type.")
        elif not rows:
            self.stdout.write("The prior's log is empty: every configuration stands at 0.500 [0.050, 0.950], n = 0.")
        for r in rows:
            where = r.fine or r.coarse or r.tool or "everything"
            self.stdout.write(
                f"{r.task_type or '(all)':26} {r.tool:9} {where:40} {r.level:7} {r.r_hat:.3f} "
                f"[{r.interval[0]:.3f}, {r.interval[1]:.3f}]  n = {r.n:g}{'  drift' if r.drift and r.drift.is_alarm else ''}"
            )

    def _export(self, options: dict[str, Any]) -> None:
        lines = [json.dumps(line, ensure_ascii=False, sort_keys=True) for line in prior_export(options["prior_version"])]
        if options["out"]:
            options["out"].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            self._line({"exported": len(lines)})
        else:
            for line in lines:
                self.stdout.write(line)

    def _import(self, options: dict[str, Any]) -> None:
        name = options["file"]
        text = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode("utf-8-sig", "replace")
        outcomes = outcomes_from_text(text)
        n = prior_import(
            outcomes=outcomes,
            author=options["author"],
            reason=options["reason"],
            source=options["source"],
            # standard input has no name: the same text again is the same batch
            batch=Path(name).name if name != "-" else f"stdin {digest_json(text)[7:23]}",
        )
        self._line({"imported": n, "skipped": len(outcomes) - n})

    def _rebuild(self, options: dict[str, Any]) -> int:
        names = [options["version"]] if options["version"] else list(PriorVersion.objects.values_list("name", flat=True))
        wrong = 0
        for name in names:
            table = prior_rebuild(name)
            digest = prior_digest(table)
            held = PriorVersion.objects.filter(name=name).values_list("digest", flat=True).first()
            wrong += held is not None and held != digest
            self._line(
                {
                    "version": name,
                    "cells": len(table.cells),
                    "outcomes": len(table.outcomes),
                    "digest": digest,
                    "is_same": None if held is None else held == digest,
                }
            )
        if not names:
            table = prior_rebuild()
            self._line(
                {
                    "version": table.version,
                    "cells": len(table.cells),
                    "outcomes": len(table.outcomes),
                    "digest": prior_digest(table),
                    "is_same": None,
                }
            )
        return EXIT_FAULT if wrong else EXIT_DONE

    def _freeze(self, options: dict[str, Any]) -> None:
        version = prior_freeze(name=options["name"], author=options["author"], note=options["note"])
        self._line({"version": version.name, "seq": version.seq, "digest": version.digest})

    def _use(self, options: dict[str, Any]) -> None:
        version = prior_use(name=None if options["name"] == "head" else options["name"], author=options["author"])
        self._line({"in_use": version.name if version else "head"})

    def _rollback(self, options: dict[str, Any]) -> None:
        self._line({"compensated": prior_rollback(name=options["name"], author=options["author"])})

    def _compare(self, options: dict[str, Any]) -> None:
        for change in prior_compare(options["one"], options["other"]):
            self._line(dataclasses.asdict(change))
