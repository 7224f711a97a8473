"""``./rsure evaluate trajectories|cases|faults``: measures against labels and prints the figures of PROTOCOL.md section 8."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.exits import EXIT_DONE, guarded
from apps.evaluation import reports
from apps.evaluation.faultbench import command as faults
from apps.evaluation.importers.trajectories import read_cases, read_folder
from apps.evaluation.recorded import evaluate_cases, evaluate_trajectories, make_records
from apps.evaluation.tables import cases_table, trajectories_table
from apps.runs.assembly import judge_for_records, revision


class Command(BaseCommand):
    help = "Measures verification against labels: recorded trajectories, single cases, the fault bench."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parts = parser.add_subparsers(dest="what", required=True, metavar="trajectories|cases|faults")
        for name, argument, words in (
            ("trajectories", "folder", "a folder with trajectories.jsonl[.gz] and labels.jsonl[.gz]"),
            ("cases", "file", "a file of single labelled observations, JSON Lines"),
        ):
            part = parts.add_parser(name, help=words)
            part.add_argument(argument, help=words)
            part.add_argument("--json", action="store_true", help="one JSON object on standard output")
        faults.add_arguments(parts.add_parser("faults", help="the fault bench"))

    def handle(self, *args: Any, **options: Any) -> None:
        work: dict[str, Callable[[], int]] = {
            "trajectories": lambda: self._trajectories(options),
            "cases": lambda: self._cases(options),
            "faults": lambda: faults.run(options),
        }
        sys.exit(guarded(work[options["what"]], options))

    def _trajectories(self, options: dict[str, Any]) -> int:
        data = read_folder(Path(options["folder"]))
        records = make_records()
        with _Quiet():
            report = evaluate_trajectories(data, judge_for_records(records), records, self._progress)
        reports.save("trajectories", report, revision=revision())
        self._print(report, trajectories_table, as_json=options["json"])
        return EXIT_DONE

    def _cases(self, options: dict[str, Any]) -> int:
        cases = read_cases(Path(options["file"]))
        records = make_records()
        with _Quiet():
            report = evaluate_cases(cases, judge_for_records(records), records)
        reports.save("cases", report, revision=revision())
        self._print(report, cases_table, as_json=options["json"])
        return EXIT_DONE

    def _progress(self, text: str) -> None:
        self.stderr.write(text)
        self.stderr.flush()

    def _print(self, report: dict[str, Any], table: Callable[[dict[str, Any]], str], *, as_json: bool) -> None:
        self.stdout.write(json.dumps(report, ensure_ascii=False) if as_json else table(report))


class _Quiet:
    """A judge that refuses is what is measured here, not news for the log."""

    def __enter__(self) -> None:
        self._noise = logging.getLogger("apps")
        self._level = self._noise.level
        self._noise.setLevel(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        self._noise.setLevel(self._level)
