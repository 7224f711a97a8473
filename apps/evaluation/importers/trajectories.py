"""Recorded trajectories (`trajectories.jsonl[.gz]`, `labels.jsonl[.gz]`) and single cases (`cases.jsonl`), read and turned into
observations. Labels stay apart from what a judge is shown: no function that makes an observation takes one.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import JsonValue, ValidationError

from apps.core.digests import digest_bytes
from apps.core.errors import UserError
from apps.core.evidence.observation import INLINE_LIMIT, MAX_DEPTH, Configuration, LogLine, Observation, Result, Status, TaskRef
from apps.core.evidence.plan import Question
from apps.verification.records.memory import Call
from apps.verification.records.wording import (
    FILE,
    PROTOCOL_TOOL,
    SAVED,
    base_name,
    class_in,
    is_silent_failure,
    leaves,
    numbers_in,
    task_type_of,
)

# The protocol demands a start time; a record without one gets this, and its log says so.
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
MAX_OUTPUT = 60_000
# The prior's task type where types are pooled.
ANY_TYPE = "any"
# Broken lines that are named; the rest is counted.
NAMED = 20
T = TypeVar("T")
MISSING_ANSWERS = frozenset({"", "MISSING", "NONE", "NULL"})


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run of one task. ``answer`` is the choice's key, None where none was given. ``is_correct`` and the two filters are for
    scoring only."""

    task_id: str
    run: str
    question: str
    choices: Mapping[str, str]
    calls: tuple[Call, ...]
    numbers: tuple[int, ...]
    answer: str | None
    is_correct: bool | None
    has_infra_error: bool
    has_gold_conflict: bool

    @property
    def asked(self) -> Question:
        return Question(text=self.question[:4000] or "(none)", scenes=(), choices=dict(self.choices))


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One labelled observation with the calls before it; ``is_wrong`` is for scoring only."""

    case_id: str
    run: RecordedRun
    is_wrong: bool
    fault: str | None


@dataclass(frozen=True, slots=True)
class Trajectories:
    """A folder: runs, and by (run, task) the label of each call by its number."""

    runs: tuple[RecordedRun, ...]
    labels: Mapping[tuple[str, str], Mapping[int, str]]
    broken: tuple[str, ...] = ()
    has_labels: bool = True

    def reading(self) -> dict[str, Any]:
        """What was met while reading: lines left out (counted, the first of them named), labels that fit nothing."""
        known = {(run.run, run.task_id): set(run.numbers) for run in self.runs}
        loose = sum(i not in known.get(key, ()) for key, held in self.labels.items() for i in held)
        twice = len(self.runs) - len(known)
        return {"has_labels": self.has_labels, "broken_lines": len(self.broken), "broken": list(self.broken[:NAMED]),
                "labels_without_a_call": loose, "runs_given_twice": twice}  # fmt: skip


# --- reading ----------------------------------------------------------------------------------------------------------------
def read_folder(folder: Path) -> Trajectories:
    """Runs and labels of a folder. A line that is broken is left out, counted and named; labels may be absent, then nothing is
    scored against them. UserError UNREADABLE where the runs' file is absent or no file of this form, BAD_OBSERVATION where no
    line of it holds a run."""
    if not folder.is_dir():
        raise UserError("UNREADABLE", f"There is no folder {folder.name}.", "Nothing is at that path.", "Check the path.")
    broken: list[str] = []
    runs = tuple(_read(_lines(_either(folder, "trajectories.jsonl"), broken), _run, broken))
    if not runs:
        why = f"Every line is broken: {broken[0]}" if broken else "trajectories.jsonl is empty."
        raise UserError("BAD_OBSERVATION", "The folder holds no run.", why, "Give a folder with runs.")
    labels: dict[tuple[str, str], dict[int, str]] = {}
    try:
        path = _either(folder, "labels.jsonl")
    except UserError:
        return Trajectories(runs, {}, tuple(broken), has_labels=False)
    for key, held in _read(_lines(path, broken), _labels, broken):
        labels.setdefault(key, {}).update(held)
    return Trajectories(runs, labels, tuple(broken))


def _labels(value: Mapping[str, Any], where: str) -> tuple[tuple[str, str], dict[int, str]]:
    held: dict[int, str] = {}
    for entry in _list(value, "calls", where):
        if not isinstance(entry, dict) or not isinstance(entry.get("i"), int) or not isinstance(entry.get("label"), str | None):
            raise _broken(where, "a label needs an integer i and a label")
        if entry.get("label") is not None:
            held[entry["i"]] = entry["label"]
    return (_text(value, "run", where), _text(value, "task_id", where)), held


@dataclass(frozen=True, slots=True)
class Cases:
    """Labelled single observations; lines without a label or broken are counted, the first of the broken named."""

    cases: tuple[RecordedCase, ...]
    broken: tuple[str, ...]
    unlabelled: int


def read_cases(path: Path) -> Cases:
    """Single labelled observations of a file; the judged call comes last in each case's run. Broken lines and lines without a
    label are left out and counted. UserError UNREADABLE, or BAD_OBSERVATION where no labelled case is left."""
    if not path.is_file():
        raise UserError("UNREADABLE", f"There is no file {path.name}.", "Nothing is at that path.", "Check the path.")
    broken: list[str] = []
    found = list(_read(_lines(path, broken), _case, broken))
    cases = tuple(c for c in found if c is not None)
    if not cases:
        why = f"Every line is broken: {broken[0]}" if broken else "No line is labelled." if found else "It is empty."
        raise UserError("BAD_OBSERVATION", "The file holds no labelled case.", why, "Give one JSON object a line.")
    return Cases(cases, tuple(broken), len(found) - len(cases))


def _read(
    lines: Iterator[tuple[str, dict[str, Any]]], take: Callable[[dict[str, Any], str], T], broken: list[str]
) -> Iterator[T]:
    for where, value in lines:
        try:
            yield take(value, where)
        except UserError as error:
            broken.append(f"{error.what} {error.why}")


def _either(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    raise UserError(
        "UNREADABLE",
        f"The folder holds neither {name}.gz nor {name}.",
        "Trajectories are scored against labels; both files are needed.",
        "Give a folder of the form that the trajectories' README describes.",
    )


def _lines(path: Path, broken: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects with their places. A file is unpacked where it begins as gzip does, whatever its name."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
        opener = gzip.open if is_packed else open
        with opener(path, "rt", encoding="utf-8-sig") as text:
            for at, line in enumerate(text, start=1):
                if not line.strip():
                    continue
                where = f"{path.name}:{at}"
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    broken.append(f"{where} is broken. No JSON ({str(error)[:120]}).")
                    continue
                if not isinstance(value, dict):
                    broken.append(f"{where} is broken. A {type(value).__name__} in place of an object.")
                    continue
                yield where, value
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError("UNREADABLE", f"{path.name} cannot be read.", f"{type(error).__name__}: {str(error)[:200]}.",
                        "Check that it is a text file of JSON Lines, or gzip of one.") from error  # fmt: skip


def _broken(where: str, why: str) -> UserError:
    return UserError("BAD_OBSERVATION", f"{where} is broken.", f"{why[:1].upper()}{why[1:]}.", "Repair or remove that line.")


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if not isinstance(found, (str, int)) or isinstance(found, bool):
        raise _broken(where, f"{key} is missing or no text")
    return str(found)


def _list(value: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise _broken(where, f"{key} is missing or no list")
    return found


def _choices(value: Mapping[str, Any], where: str) -> dict[str, str]:
    found = value.get("choices") or {}
    if isinstance(found, list):
        found = {chr(ord("A") + at) if at < 26 else str(at): text for at, text in enumerate(found)}
    if not isinstance(found, dict):
        raise _broken(where, "choices is neither an object nor a list")
    return {str(k): str(v) for k, v in found.items()}


def _call(value: Any, where: str, *, status_key: str) -> Call:
    if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
        raise _broken(where, "a call needs a tool")
    arguments, output = value.get("args"), value.get("output")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"text": arguments}
    if output is not None and not isinstance(output, str):
        output = json.dumps(_json_safe(output), ensure_ascii=False)
    failed = value.get("is_error") if status_key == "is_error" else value.get("status") not in (None, "success", "ok")
    return Call(
        value["tool"],
        _json_safe(arguments) if isinstance(arguments, dict) else {},
        "" if output is None else output[:MAX_OUTPUT],
        bool(failed),
    )


def _run(value: dict[str, Any], where: str) -> RecordedRun:
    calls = _list(value, "calls", where)
    answer = value.get("final_answer")
    answer = answer.strip() if isinstance(answer, str) else None
    correct = value.get("correct")
    return RecordedRun(
        task_id=_text(value, "task_id", where),
        run=_text(value, "run", where),
        question=_text(value, "question", where),
        choices=_choices(value, where),
        calls=tuple(_call(c, where, status_key="is_error") for c in calls),
        numbers=tuple(c["i"] if isinstance(c.get("i"), int) else at for at, c in enumerate(calls)),
        answer=None if answer is None or answer.upper() in MISSING_ANSWERS else answer[:1] if answer[:1].isupper() else answer,
        is_correct=correct if isinstance(correct, bool) else None,
        has_infra_error=bool(value.get("infra_error")),
        has_gold_conflict=bool(value.get("gold_conflict")),
    )


def _case(value: dict[str, Any], where: str) -> RecordedCase | None:
    """None for a case without a label."""
    label = value.get("label")
    if label is None:
        return None
    if label not in ("correct", "wrong"):
        raise _broken(where, "label is neither correct nor wrong")
    earlier = value.get("previous_calls") or []
    if not isinstance(earlier, list):
        raise _broken(where, "previous_calls is no list")
    before = [_call(c, where, status_key="is_error") for c in earlier]
    listing = value.get("listing")
    if isinstance(listing, str) and listing and not any(c.kind == "catalog" for c in before):
        before.insert(0, Call("get_filelist", {}, listing, False))
    calls = (*before, _call(value, where, status_key="status"))
    fault = value.get("fault")
    run = RecordedRun(
        task_id=str(value.get("task_id", "")), run=str(value.get("run", "")),
        question=_text(value, "question", where), choices=_choices(value, where), calls=calls,
        numbers=tuple(range(len(calls))), answer=None, is_correct=None, has_infra_error=False,
        has_gold_conflict=bool(value.get("gold_conflict")),
    )  # fmt: skip
    return RecordedCase(str(value.get("case_id", where)), run, label == "wrong", fault if isinstance(fault, str) else None)


def _json_safe(value: Any, depth: int = 0) -> Any:
    """What the protocol's open maps take: finite numbers, lists up to INLINE_LIMIT, not too deep. Cut at the end."""
    if depth >= MAX_DEPTH - 1:
        return str(value)[:200]
    if isinstance(value, dict):
        return {str(k): _json_safe(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_safe(v, depth + 1) for v in value[:INLINE_LIMIT]]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


# --- observations -----------------------------------------------------------------------------------------------------------
def configuration_of(call: Call) -> Configuration:
    """Coarse: the native tool. Fine: what its arguments make of it — how many inputs, and whether the run wrote them."""
    paths = [x for x in _inputs(call) if FILE.search(x)]
    many = "none" if not paths else "one" if len(paths) == 1 else "many"
    place = "given" if all("/out/" not in p and not p.startswith(("out/", "/tmp/")) for p in paths) else "made"
    return Configuration(coarse=call.tool[:120] or "unknown", fine=f"{call.tool[:120] or 'unknown'}/{many}/{place}")


_DOUBT = (
    "one_raster_two_roles", "dates_mixed", "role_mismatch", "day_for_night", "input_lost", "parent_doubtful", "folder_as_file",
    "lengths_differ", "kelvin_range", "operand_doubtful", "tool_silent",
)  # fmt: skip


def agreement_class(signs: Mapping[str, float]) -> str:
    """How a call's arguments agree with question and run, known before its output: whether anything speaks against them, and how
    whole its series, operands or threshold are."""
    is_doubtful = any(signs.get(name) == 1.0 for name in _DOUBT) or signs.get("from_nowhere", 0.0) > 0
    if signs.get("thresholds"):
        asked = signs.get("threshold_asked") == 1.0 or signs.get("threshold_asked_scaled") == 1.0
        what = "threshold-asked" if asked else "threshold-other"
    elif "operands_seen" in signs:
        what = "operands-seen" if signs["operands_seen"] >= 0.99 else "operands-from-nowhere"
    elif "covers_all" in signs:
        whole, year = signs["covers_all"], signs.get("covers_year", 0.0)
        part = "series-part" if whole > 0.2 else "series-few"
        what = "series-whole" if whole >= 0.99 else "year-whole" if year >= 0.99 else part
    else:
        what = "plain"
    return f"{what}/{'doubt' if is_doubtful else 'clean'}"


def prior_cell(call: Call, signs: Mapping[str, float], task_type: str, scheme: str) -> tuple[str, str, str]:
    """(task type, coarse, fine) under which the prior of records counts a call. Whether it is wrong about itself (strict) goes
    with the tool on the task type; whether it is what the question needs (broad) with how its arguments agree, types pooled: a
    cell of one type holds too few tasks to speak for a task that was never seen."""
    if scheme == "strict":
        set_up = configuration_of(call)
        return task_type, set_up.coarse, set_up.fine
    return ANY_TYPE, call.kind, f"{call.kind}/{agreement_class(signs)}"


def _inputs(call: Call) -> list[str]:
    return [x for k, v in call.arguments.items() if "output" not in k for x in leaves(v) if isinstance(x, str)]


def protocol_tool(call: Call) -> Literal["perceive", "measure", "execute"]:
    return cast(Literal["perceive", "measure", "execute"], PROTOCOL_TOOL.get(call.kind, "execute"))


def _result(call: Call) -> Result:
    kind = call.kind
    items: tuple[dict[str, JsonValue], ...] = ({"text": call.text},)
    if call.is_failed:
        return Result(kind="text", items=items)
    if kind == "catalog":
        return Result(kind="catalog", items=items)
    if SAVED.search(call.text):  # the layer itself is not in the record, only the words that it was written
        return Result(kind="text", value=call.text[:2000], quantity=call.tool[:120], items=items)
    found = class_in(call.text) if kind == "classifier" else None
    if found:
        return Result(kind="class", value=found[0], items=items)
    values = [v for v in numbers_in(call.text) if math.isfinite(v)]
    if len(values) != 1 or is_silent_failure(call.text):
        return Result(kind="text", value=call.text[:2000], items=items)
    if kind == "detector" and values[0].is_integer() and values[0] >= 0:
        return Result(kind="count", value=int(values[0]), items=items)
    return Result(kind="statistic", value=values[0], quantity=call.tool[:120], items=items)


def observations_of(run: RecordedRun) -> Iterator[Observation]:
    """Each call as an observation, in order; its parents are the calls that wrote its inputs. Evidence stays empty."""
    run_id = digest_bytes(f"{run.run}\n{run.task_id}\n{run.question}".encode())[7:39]
    form = "choice" if run.choices else "text"
    task = TaskRef(task_type=task_type_of(run.question), question=run.question[:4000], answer_form=form)
    wrote: dict[str, str] = {}
    for step, call in enumerate(run.calls):
        name = f"{run_id}-{step}"
        given = [base_name(x) for x in _inputs(call)]
        parents = tuple(dict.fromkeys(wrote[g] for g in given if g in wrote))[:400]
        try:
            yield Observation(
                id=name, run_id=run_id, step=step, parents=parents, task=task, tool=protocol_tool(call),
                configuration=configuration_of(call), arguments=dict(call.arguments), result=_result(call),
                status=Status(
                    state="failed" if call.is_failed else "ok", started_at=NO_TIME, elapsed_s=0.0,
                    reason=call.text[:2000] if call.is_failed else "",
                    log=(LogLine(at_s=0.0, level="warning", message="The record holds no time of this call."),),
                ),
            )  # fmt: skip
        except ValidationError as error:  # the reader has made everything fit; what does not is our fault
            raise RuntimeError(f"call {step} of {run.run}, task {run.task_id}, does not become an observation") from error
        if not call.is_failed:
            for found in SAVED.finditer(call.text):
                wrote[base_name(found.group(1).strip())] = name
