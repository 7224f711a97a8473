"""``./rsure verify FILE``: judges observations of any agent and prints one decision a line, in input order."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.errors import UserError
from apps.core.evidence.observation import Observation
from apps.runs.assembly import judge_for_files
from apps.runs.exits import EXIT_DONE, guarded

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 32 << 20


class Command(BaseCommand):
    help = "Judges observations (protocol version 1; JSON or JSON Lines) and prints a decision for each."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", help="a JSON object, a JSON array, or JSON Lines; - for standard input")
        parser.add_argument("--json", action="store_true", help="one decision object a line")
        parser.add_argument("--schema", action="store_true", help="print the JSON Schema of an observation and end")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(guarded(lambda: self._verify(options), as_json=options["json"]))

    def _verify(self, options: dict[str, Any]) -> int:
        if options["schema"]:
            self.stdout.write(json.dumps(Observation.model_json_schema(), indent=1))
            return EXIT_DONE
        if not options["file"]:
            raise UserError(
                "BAD_ARGUMENT",
                "No file was named.",
                "verify reads observations from a file.",
                "Give a JSON or JSON Lines file, or - for standard input.",
            )
        judge = judge_for_files()
        for payload in payloads(options["file"]):
            checks, decision = judge.judge_json(payload)
            name = _id_of(payload)
            if options["json"]:
                self.stdout.write(
                    json.dumps(
                        {
                            "observation_id": name,
                            **decision.model_dump(mode="json"),
                            "checks": [c.model_dump(mode="json") for c in checks],
                        },
                        ensure_ascii=False,
                    )
                )
            else:
                reasons = "; ".join(decision.reasons) or "no reason given"
                self.stdout.write(f"{name or '?'}: {decision.decision} ({decision.stage}) {reasons}")
        return EXIT_DONE


def payloads(name: str) -> Iterator[Any]:
    """Parsed JSON values, one an observation; text that is no JSON comes through as text, for the judge to refuse.

    UserError UNREADABLE where the file is absent, TOO_LARGE over 1 GiB, BAD_OBSERVATION where it holds nothing.
    """
    if name == "-":
        text_lines: Iterator[str] = iter(sys.stdin)
    else:
        path = Path(name)
        if not path.is_file():
            raise UserError("UNREADABLE", f"There is no file {path.name}.", "Nothing is at that path.", "Check the path.")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UserError("TOO_LARGE", "The file is too large.", "1 GiB is the limit.", "Split it into several files.")
        text_lines = iter(path.open(encoding="utf-8", errors="replace"))
    n = 0
    first = next((line for line in text_lines if line.strip()), "")
    rest = text_lines
    try:
        json.loads(first)
        is_lines = True
    except (ValueError, RecursionError):
        is_lines = not first.lstrip().startswith(("{", "["))
    if is_lines:
        for line in (first, *rest) if first else rest:
            if line.strip():
                n += 1
                yield from _line(line, alone=n == 1)
    else:
        whole = first + "".join(rest)
        try:
            value = json.loads(whole)
        except (ValueError, RecursionError):
            # not one document: what looked like the start of one may be a broken line among good ones
            for line in whole.splitlines():
                if line.strip():
                    n += 1
                    yield from _line(line)
        else:
            for item in value if isinstance(value, list) else [value]:
                n += 1
                yield item
    if n == 0:
        raise UserError("BAD_OBSERVATION", "The file holds no observation.", "It is empty.", "Write one JSON object a line.")


def _id_of(payload: Any) -> str | None:
    body = payload.get("observation", payload) if isinstance(payload, dict) else None
    name = body.get("id") if isinstance(body, dict) else None
    return name if isinstance(name, str) and len(name) <= 64 else None


def _line(line: str, *, alone: bool = False) -> Iterator[Any]:
    if len(line) > MAX_LINE_BYTES:
        yield line[:200]
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        yield line
        return
    if alone and isinstance(value, list):
        yield from value
    else:
        yield value
