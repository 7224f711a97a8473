"""What a judge knows of a run before it looks at the next call: question, files that exist, products made, numbers seen."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.core.evidence.observation import Observation
from apps.verification.records.wording import (
    FILE,
    NUMBER,
    SAVED,
    YEAR,
    base_name,
    class_in,
    dates_asked,
    dates_of,
    is_silent_failure,
    kind_of,
    leaves,
    numbers_in,
    quantity_of,
    stem_of,
)

# Signs that make what a call gave doubtful for what is made from it.
DOUBTS = ("one_raster_two_roles", "dates_mixed", "role_mismatch", "day_for_night", "input_lost", "parent_doubtful",
          "not_finite", "fill_value", "index_fill", "impossible_temperature", "kelvin_range", "operand_doubtful")  # fmt: skip
OUTPUT_ARGUMENTS = frozenset({"save_name", "cmap_name"})
_DATA_FOLDER = re.compile(r"\S*/question\d+\S*")


@dataclass(frozen=True, slots=True)
class Call:
    """One call as its record tells it. ``text`` is the output as it was; ``is_failed`` what the tool's own status said."""

    tool: str
    arguments: Mapping[str, Any]
    text: str
    is_failed: bool

    @property
    def kind(self) -> str:
        return kind_of(self.tool)

    @property
    def key(self) -> str:
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True, default=str)}"


def call_of(observation: Observation) -> Call:
    """The call behind an observation: the native tool is the coarse configuration, the raw output the first text item."""
    text = next((str(item["text"]) for item in observation.result.items if "text" in item), None)
    if text is None:
        value = observation.result.value
        text = "" if value is None else json.dumps(value) if not isinstance(value, str) else value
        if observation.result.items:
            text = f"{text} {json.dumps(observation.result.items, default=str)}".strip()
    tool = observation.configuration.coarse.rsplit(".", 1)[-1]
    return Call(tool, observation.arguments, text, observation.status.state == "failed")


@dataclass(frozen=True, slots=True)
class Product:
    """A file that a call of this run says it wrote."""

    quantity: str | None
    tool: str
    is_doubtful: bool
    tool_asked: float
    depth: int
    is_masked: bool = False
    dates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number that was seen comes from: the call that gave it. ``depth``: how many calculations lie behind it; ``dates``
    of its files, sorted; shares as the signs of the same names tell them, NaN where they are not known."""

    at: int
    tool: str
    quantity: str | None
    is_doubtful: bool
    covers_all: float
    covers_year: float
    depth: int
    dates: tuple[str, ...]
    n_values: int


@dataclass(frozen=True, slots=True)
class ChoiceNumber:
    value: float
    decimals: int

    def is_met(self, value: float) -> bool:
        """Whether ``value`` shows as this number when it is rounded as the choice is; signs left out."""
        tolerance = 0.52 * 10.0**-self.decimals if self.decimals else (0.51 if abs(self.value) >= 50 else 0.01)
        return abs(abs(value) - abs(self.value)) <= tolerance


class NumbersSeen:
    """Numbers of the question and of earlier outputs, for the question where an operand comes from."""

    def __init__(self) -> None:
        self._held: set[float] = set()
        self._sources: dict[float, tuple[Source, int]] = {}

    def add(self, values: list[float], source: Source | None = None) -> None:
        for place, v in enumerate(values):
            if math.isfinite(v) and abs(v) < 1e300:
                rounded = float(f"{v:.4g}")
                self._held.add(rounded)
                self._held.add(float(f"{v:.3g}"))
                if source is not None:
                    self._sources[rounded] = (source, place)

    def source(self, value: float) -> tuple[Source, int] | None:
        """The newest call that gave this number to four digits, and the number's place in its output."""
        return self._sources.get(float(f"{value:.4g}")) if math.isfinite(value) and abs(value) < 1e300 else None

    def __contains__(self, value: float) -> bool:
        return math.isfinite(value) and (float(f"{value:.4g}") in self._held or float(f"{value:.3g}") in self._held)


class RecordMemory:
    """State of one run, extended call by call. ``choices``: key → text of a multiple-choice question, empty for others."""

    def __init__(self, question: str, choices: Mapping[str, str] | None = None):
        self.question = _DATA_FOLDER.sub("", question)
        self.words = self.question.lower()
        self.choices = {str(k): str(v) for k, v in (choices or {}).items()}
        self.numbers_asked = numbers_in(self.question)
        self.years_asked = sorted({int(y) for y in YEAR.findall(self.question)})
        self.dates_asked = dates_asked(self.question)
        self.choice_numbers = [_choice_numbers(text) for text in self.choices.values()]
        per_choice = [numbers_in(text) for text in self.choices.values()]
        one_each = bool(per_choice) and all(per_choice)
        self.choice_values: list[float] = [row[0] if len(row) == 1 else row[-1] for row in per_choice] if one_each else []
        self.is_percent = sum("%" in text for text in self.choices.values()) >= 3
        self.listing: list[str] | None = None
        self.listed: set[str] = set()
        self.stems: Counter[str] = Counter()
        self.products: dict[str, Product] = {}
        self.lost: set[str] = set()
        self.seen = NumbersSeen()
        self.seen.add(self.numbers_asked)
        self.calls: list[Call] = []
        self.keys: Counter[str] = Counter()
        self.keys_well: Counter[str] = Counter()
        self.outputs: dict[str, set[str]] = {}
        self.short_outputs: Counter[str] = Counter()
        self.looks: dict[str, list[tuple[str, str | None]]] = {}
        self.siblings: dict[str, list[tuple[str, float]]] = {}
        self.by_tool: Counter[str] = Counter()
        self.failed_by_tool: Counter[str] = Counter()
        self.silent_by_tool: Counter[str] = Counter()
        self.failed = 0

    def quantity(self, path: object) -> str | None:
        """The quantity in a file: of the product that this run wrote, else by its name."""
        product = self.product(path)
        return product.quantity if product else quantity_of(base_name(path))

    def product(self, path: object) -> Product | None:
        return self.products.get(str(path)) or self.products.get(base_name(path))

    def add(self, call: Call, signs: Mapping[str, float]) -> None:
        """Takes a call into the run, with the signs that were read before it was taken in."""
        key, kind = call.key, call.kind
        self.keys[key] += 1
        self.by_tool[call.tool] += 1
        self.calls.append(call)
        silent = is_silent_failure(call.text)
        if call.is_failed or silent:
            if call.is_failed:
                self.failed += 1
                self.failed_by_tool[call.tool] += 1
            else:
                self.silent_by_tool[call.tool] += 1
            for name, value in call.arguments.items():
                if "output" in name:
                    self.lost.update(base_name(x) for x in leaves(value))
            return
        self.keys_well[key] += 1
        self.outputs.setdefault(key, set()).add(call.text)
        if len(call.text) < 200:
            self.short_outputs[call.text] += 1
        if kind == "catalog":
            if call.tool.lower().startswith("get_file"):
                self._list(call.text)
            return
        self._products(call, kind, signs)
        if "save" not in call.text[:20].lower():
            values = numbers_in(call.text)
            self.seen.add(values, self._source(call, signs, len(values)))
            self._remember_siblings(call, values)
        if kind in ("classifier", "detector"):
            image = next((base_name(x) for x in leaves(dict(call.arguments)) if isinstance(x, str) and FILE.search(x)), None)
            if image:
                found = class_in(call.text)
                self.looks.setdefault(image, []).append((call.tool, found[0] if found else None))

    def _source(self, call: Call, signs: Mapping[str, float], n_values: int) -> Source:
        paths = paths_of(call)
        operands = [self.seen.source(float(v)) for v in leaves(dict(call.arguments))
                    if isinstance(v, (int, float)) and not isinstance(v, bool)]  # fmt: skip
        held = [s for s, _ in (o for o in operands if o is not None)] if not paths else []
        quantity = next((q for q in map(self.quantity, paths) if q), None) or next((s.quantity for s in held if s.quantity), None)
        doubtful = any(signs.get(n) == 1.0 for n in DOUBTS) or any(s.is_doubtful for s in held)
        dates = {d for x in paths for d in dates_of(x)} | {d for x in paths if (p := self.product(x)) for d in p.dates}
        dates |= {d for s in held for d in s.dates}
        return Source(
            len(self.calls), call.tool, quantity, doubtful,
            min((s.covers_all for s in held), default=signs.get("covers_all", math.nan)),
            min((s.covers_year for s in held), default=signs.get("covers_year", math.nan)),
            1 + max((s.depth for s in held), default=0), tuple(sorted(dates)[:400]), n_values,
        )  # fmt: skip

    def _remember_siblings(self, call: Call, values: list[float]) -> None:
        paths = paths_of(call)
        if not paths or len(values) != len(paths):
            return
        for path, value in zip(paths, values, strict=True):
            if math.isfinite(value):
                self.siblings.setdefault(sibling_key(call, path), []).append((base_name(path), value))

    def _list(self, text: str) -> None:
        files = re.findall(r'"([^"]+)"', text) or re.findall(r"'([^']+)'", text)
        self.listing = [*(self.listing or []), *(f for f in dict.fromkeys(files) if f not in self.listed)]
        self.listed.update(files)
        self.stems = Counter(stem_of(f) for f in self.listing)

    def _products(self, call: Call, kind: str, signs: Mapping[str, float]) -> None:
        paths = [m.group(1).strip() for m in SAVED.finditer(call.text)]
        if not paths:
            return
        quantity = quantity_of(call.tool)
        if kind == "raster":
            inputs = (self.quantity(x) for x in leaves(dict(call.arguments)) if isinstance(x, str) and FILE.search(x))
            quantity = next((q for q in inputs if q), None)
        if "difference" in call.tool or "subtract" in call.tool:
            quantity = "difference"
        if "hotspot_tif" in call.tool or "segment" in call.tool:
            quantity = "mask"
        doubtful = any(signs.get(n) == 1.0 for n in DOUBTS)
        inputs_given = paths_of(call)
        made_from = [p for p in map(self.product, inputs_given) if p is not None]
        masked = "mask" in call.tool.lower() or any(p.is_masked for p in made_from)
        dates = frozenset(d for x in inputs_given for d in dates_of(x)).union(*(p.dates for p in made_from))
        product = Product(quantity, call.tool, doubtful, signs.get("tool_asked", 0.0), int(signs.get("depth", 0)), masked, dates)
        for path in paths:
            self.products[path] = self.products[base_name(path)] = product


def paths_of(call: Call) -> list[str]:
    """Files that a call reads, in order."""
    given = {k: v for k, v in call.arguments.items() if "output" not in k and "out_" not in k and k not in OUTPUT_ARGUMENTS}
    return [x for x in leaves(given) if isinstance(x, str) and FILE.search(x)]


def sibling_key(call: Call, path: str) -> str:
    """Calls that do the same to files of one series share it: the tool, the file's stem and every argument that is no file."""
    rest = {k: v for k, v in call.arguments.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    return f"{call.tool} {stem_of(path)} {json.dumps(rest, sort_keys=True)}"


def _choice_numbers(text: str) -> list[ChoiceNumber]:
    """The numbers of a choice with their decimals; years and small integers only where there is nothing else."""
    row = []
    for value, raw in _with_text(text):
        decimals = len(raw.split(".")[1]) if "." in raw and "e" not in raw.lower() else 0
        row.append(ChoiceNumber(value, decimals))
    telling = [c for c in row if not (c.decimals == 0 and (1900 <= abs(c.value) <= 2100 or abs(c.value) <= 31))]
    return telling or row


def _with_text(text: str) -> list[tuple[float, str]]:
    out = []
    for match in NUMBER.finditer(text):
        raw = match.group().replace(",", "")
        try:
            out.append((float(raw), raw))
        except ValueError:
            continue
    return out
