"""``./rsure verify FILE``: judges observations of any agent and prints one decision a line, in input order."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from pydantic import ValidationError

from apps.core.errors import UserError
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.core.exits import EXIT_DONE, guarded
from apps.imagery.selectors import scene_infos
from apps.runs.assembly import judge_for, judge_for_files, layers, opener_of, prior_source

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 32 << 20
_JSON_KINDS = {list: "array", int: "number", float: "number", bool: "true or false", type(None): "null"}


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
        sys.exit(guarded(lambda: self._verify(options), options))

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
        judge, accepted = judge_for_files(), dict[str, list[dict[str, Any]]]()
        for payload in observed(payloads(options["file"])):
            run, known = _run_of(payload), _known(payload)
            if known is None:
                checks, decision = judge.judge_json(payload)
            else:
                # the scenes are this installation's: their pixels are looked at, and what rests on others needs those accepted
                question, context = known
                context.setdefault("history", accepted.get(run, []))
                mine = judge_for(question, layers(), prior_source(), opener_of(question))
                checks, decision = mine.judge_json(context)
                if decision.decision == "accept":
                    accepted.setdefault(run, []).append(context["observation"])
            name = _id_of(payload)
            if options["json"]:
                found = decision.model_dump(mode="json") | {"checks": [c.model_dump(mode="json") for c in checks]}
                # in ASCII: nothing in a text of the file can end a line, or be half a character
                told = json.dumps({"observation_id": name} | found)
            else:
                reasons = "; ".join(decision.reasons) or "no reason given"
                told = _printable(f"{name or '?'}: {decision.decision} ({decision.stage}) {reasons}")
            self.stdout.write(told)
        return EXIT_DONE


def observed(values: Iterable[Any]) -> Iterator[Any]:
    """The same values, in their order: among objects each line that is none gets its rejection, for what is right must be kept.

    UserError BAD_OBSERVATION where there is no object at all: that is another file, and to reject all its lines would read as
    a judgement of observations.
    """
    waiting: list[Any] = []
    is_known = False
    for value in values:
        if not is_known and not isinstance(value, dict):
            waiting.append(value)
            continue
        if not is_known:
            is_known = True
            yield from waiting
            waiting.clear()
        yield value
    if not is_known:
        n = len(waiting)
        first = (
            f"“{_printable(waiting[0][:40].strip())}”"
            if isinstance(waiting[0], str)
            else f"a JSON {_JSON_KINDS[type(waiting[0])]}"
        )
        raise UserError(
            "BAD_OBSERVATION",
            "The file holds no observation.",
            f"None of its {n:,} lines or items is a JSON object; the first is {first}.",
            "Write one JSON object a line, or an array of them; ./rsure verify --schema prints the form of one.",
        )


def _printable(text: str) -> str:
    """A text of the file on one line; what a terminal would act on is shown as missing."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def payloads(name: str) -> Iterator[Any]:
    """Parsed JSON values, one an observation; text that is no JSON comes through as text, for the judge to refuse.

    UserError UNREADABLE where the file is absent, TOO_LARGE over 1 GiB, BAD_OBSERVATION where it holds nothing.
    """
    n = 0
    for value in _values(_lines_of(name)):
        n += 1
        yield value
    if n == 0:
        raise UserError("BAD_OBSERVATION", "The file holds no observation.", "It is empty.", "Write one JSON object a line.")


def _lines_of(name: str) -> Iterator[str]:
    """Lines with something in them; bytes that are no UTF-8 are shown as missing, a mark of the encoding is passed over."""
    if name == "-":
        yield from (line for line in io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", "replace") if line.strip())
        return
    path = Path(name)
    if not path.exists():
        raise UserError("UNREADABLE", f"There is no file {path.name}.", "Nothing is at that path.", "Check the path.")
    if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
        raise UserError("TOO_LARGE", "The file is too large.", "1 GiB is the limit.", "Split it into several files.")
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        yield from (line for line in file if line.strip())


def _values(lines: Iterator[str]) -> Iterator[Any]:
    first = next(lines, "")
    try:
        json.loads(first)
        is_lines = True
    except (ValueError, RecursionError):
        is_lines = not first.lstrip().startswith(("{", "["))
    if is_lines:
        for at, line in enumerate(itertools.chain([first] if first else [], lines)):
            yield from _line(line, alone=at == 0)
        return
    whole = first + "".join(lines)
    try:
        value = json.loads(whole)
    except (ValueError, RecursionError):
        # not one document: what looked like the start of one may be a broken line among good ones
        for line in whole.split("\n"):
            if line.strip():
                yield from _line(line)
    else:
        yield from value if isinstance(value, list) else [value]


def _known(payload: Any) -> tuple[Question, dict[str, Any]] | None:
    """(question, what ``judge_json`` takes) where this installation holds every scene that the observation names; else None.

    The scenes' facts are ours, never those of the file: a digest, grid or mask that the file invents does not stand.
    """
    if not isinstance(payload, dict):
        return None
    context = dict(payload) if "observation" in payload and "tool" not in payload else {"observation": payload}
    body, told = context["observation"], context.get("question")
    inputs = body.get("inputs") if isinstance(body, dict) else None
    ids = {i.get("scene_id") for i in inputs if isinstance(i, dict)} if isinstance(inputs, list) else set()
    if isinstance(told, dict) and isinstance(told.get("scenes"), list):
        ids |= {s.get("scene_id") for s in told["scenes"] if isinstance(s, dict)}
    scenes = scene_infos([i for i in ids if isinstance(i, str)])
    task = body.get("task") if isinstance(body, dict) else None
    text = task.get("question") if isinstance(task, dict) else None
    if not ids or set(scenes) != ids or not isinstance(text, str):
        return None
    try:
        beside = told if isinstance(told, dict) else {}
        question = Question.model_validate({"text": text, **beside, "scenes": [scenes[i] for i in sorted(scenes)]})
    except ValidationError:
        return None
    return question, {**context, "question": question.model_dump(mode="json")}


def _run_of(payload: Any) -> str:
    body = payload.get("observation", payload) if isinstance(payload, dict) else None
    run = body.get("run_id") if isinstance(body, dict) else None
    return run if isinstance(run, str) else ""


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
