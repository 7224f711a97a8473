"""``./rsure bench [NAME…]``: ratios against named peers on this machine, in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.errors import UserError
from apps.core.exits import EXIT_DONE, guarded
from apps.evaluation.benchmarks import BENCHMARKS, Row


class Command(BaseCommand):
    help = "Benchmarks against named peers on this machine; ratios are ours ÷ peer, below 1 is faster."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(f"{n}: {b.what}" for n, b in BENCHMARKS.items()))
        parser.add_argument("--size", type=int, default=None, help="pixels a side, or rounds; each benchmark's own by default")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(guarded(lambda: self._bench(options), options))

    def _bench(self, options: dict[str, Any]) -> int:
        names = options["names"] or list(BENCHMARKS)
        for name in names:
            if name not in BENCHMARKS:
                raise UserError(
                    "BAD_ARGUMENT",
                    f"There is no benchmark “{name}”.",
                    f"Known are {', '.join(BENCHMARKS)}.",
                    "Name one of them, or none for all.",
                )
        if options["size"] is not None and not 1 <= options["size"] <= 100_000:
            raise UserError(
                "BAD_ARGUMENT",
                f"A size of {options['size']} is impossible.",
                "It lies outside 1 to 100,000.",
                "Give a size between them.",
            )
        report: dict[str, Any] = {
            "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()},
            "benchmarks": {},
        }
        for name in names:
            rows = BENCHMARKS[name].run(options["size"])
            report["benchmarks"][name] = [asdict(r) for r in rows]
            if not options["json"]:
                self.stdout.write(f"{name}: {BENCHMARKS[name].what}")
                for row in rows:
                    self.stdout.write("  " + line(row))
        if options["json"]:
            self.stdout.write(json.dumps(report))
        return EXIT_DONE


def line(row: Row) -> str:
    """A row for a terminal: median (least … greatest) of ours, the peer's, the ratio."""

    def three(v: tuple[float, float, float]) -> str:
        return f"{v[0]:.4g} ({v[1]:.4g} … {v[2]:.4g})"

    text = f"{row.what}: {three(row.ours)} {row.unit}"
    if row.peer is not None and row.ratio is not None:
        text += f"; {row.peer_name} {three(row.peer)} {row.unit}; ratio {three(row.ratio)}"
    return text + (f"; {row.note}" if row.note else "")
