"""The models of the zoo as a page shows them: what each is for, how good it was, and what it must not be used for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from apps.agent.units import number_text
from apps.tools.zoo import registry
from apps.tools.zoo.cards import ClassCard, ModelCard
from apps.tools.zoo.runtime import has_onnxruntime, has_torch, has_ultralytics

TASK_WORDS = {
    "detect": "Finds objects, as upright boxes", "obb": "Finds objects, as turned boxes", "segment": "Finds objects, as masks",
    "classify": "Tells the kind of place", "change": "Finds what changed between two dates",
    "prompt": "Outlines what is pointed at",
}  # fmt: skip
# Figures of a class that have a column, where a model has them: key → (heading, whether it is a share).
_CLASS_FIGURES = (
    ("map50", "mAP50", False), ("precision", "Precision", True), ("recall", "Recall", True), ("objects", "Objects", False),
    ("count_mean_abs_error", "Count error a picture", False),
    ("interval_coverage_cross_validated", "In the count interval", True),
)  # fmt: skip
# Shares by their key; other numbers are read as they are.
_SHARES = frozenset({
    "accuracy", "top3", "precision", "recall", "out_of_scope_by_mistake_on_test", "told_as_out_of_scope"
})  # fmt: skip
_WORDS = {
    "ece": "Calibration error (ECE)", "ece_uncalibrated": "Calibration error before calibration", "n_test": "Pictures tested",
    "top3": "Right among the first three", "map50": "mAP50", "zooms": "Zoom by class", "outside": "On pictures from elsewhere",
    "accuracy": "Right on the test", "out_of_scope_by_mistake_on_test": "Of the test, taken for out of scope",
    "told_as_out_of_scope": "Told as out of scope", "peak_memory_mb": "Peak memory, MB",
}  # fmt: skip


def model_state(card: ModelCard, path: Path) -> str:
    """``ready``, or why the model cannot be used on this machine."""
    if not path.exists():
        return "weights missing"
    if not card.trusted:
        return "not trusted"
    if card.task == "change" and card.format == "onnx" and not has_onnxruntime():
        return "off: onnxruntime is not installed"
    if card.task != "change" and card.format != "rsw" and not has_ultralytics():
        return "off: ultralytics is not installed"
    if not has_torch() and (card.task, card.format) != ("change", "onnx"):
        return "off: torch is not installed"
    return "ready"


def model_cards() -> list[dict[str, Any]]:
    """Every model at hand, shipped first, as the page reads it."""
    return [_shown(card, path) for card, path in registry.models()]


def _shown(card: ModelCard, path: Path) -> dict[str, Any]:
    state = model_state(card, path)
    per_class = card.scores.get("per_class")
    shares: Mapping[str, Any] = per_class if isinstance(per_class, dict) else {}
    columns = [c for c in _CLASS_FIGURES if any(c[0] in k.scores for k in card.classes)]
    headings = [heading for _, heading, _ in columns] + ([_tested(card)] if shares else [])
    rest = {k: v for k, v in card.scores.items() if k not in ("per_class", "confusions")}
    return {
        "card": card,
        "what": TASK_WORDS[card.task],
        "state": state,
        "light": "ok" if state == "ready" else "block" if state in ("not trusted", "weights missing") else "warn",
        "gsd": _range(card.gsd_m),
        "columns": headings,
        "classes": [
            {
                "name": class_words(c),
                "raw": c.name,
                "is_experimental": c.experimental,
                "gsd": _range(c.gsd_m),
                "words": ", ".join((*c.synonyms, *c.near)),
                "cells": list(zip(headings, _cells(c, columns, shares), strict=True)),
            }
            for c in card.classes
        ],
        "n_experimental": sum(c.experimental for c in card.classes),
        "scores": [row for key, value in rest.items() for row in _rows(_word(key), value, is_share=key in _SHARES)],
        "has_scores": bool(card.scores) or any(c.scores for c in card.classes),
        "confusions": _confusions(card.scores.get("confusions"), {c.name: class_words(c) for c in card.classes}),
        "calibrated": [{"name": class_words(c), "text": _calibrated(c)} for c in card.classes if c.calibration is not None],
        "scope": [(name, number_text(value)) for name, value in card.scope_auroc.items()],
    }


def _cells(card: ClassCard, columns: Sequence[tuple[str, str, bool]], shares: Mapping[str, Any]) -> list[str]:
    figures = [_figure(card.scores.get(key), is_share=is_share) for key, _, is_share in columns]
    return figures + ([_figure(shares.get(card.name), is_share=True)] if shares else [])


def class_words(card: ClassCard) -> str:
    """``denseresidential`` → ``dense residential``, ``AnnualCrop`` → ``annual crop``: a class's name as words, which its synonyms
    tell where its letters do not."""
    plain = card.name.casefold().replace("_", "").replace("-", "")
    for said in card.synonyms:
        letters = "".join(said.casefold().split())
        if letters in (plain, plain.removesuffix("s")):
            return said if letters == plain else f"{said}s"
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", card.name).lower()


def share_text(share: float) -> str:
    """A share in whole per cent: tests of some hundred pictures carry no more. What is not all is not 100 %, some is not 0 %."""
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1:
        return "more than 99 %"
    return f"{100 * share:.0f} %"


def _tested(card: ModelCard) -> str:
    n = card.scores.get("n_test")
    return f"Right on the test ({n:,} pictures of all classes)" if isinstance(n, int) else "Right on the test"


def _range(span: tuple[float, float] | None) -> str:
    return f"{span[0]:g} to {span[1]:g} m" if span else "any"


def _word(key: str) -> str:
    return _WORDS.get(key) or (key[:1].upper() + key[1:]).replace("_", " ")


def _figure(value: Any, *, is_share: bool = False) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value) if isinstance(value, str | bool) else "–"
    return share_text(value) if is_share else number_text(value, is_count=isinstance(value, int))


def _rows(name: str, value: Any, *, is_share: bool) -> list[tuple[str, str]]:
    """(what, figure) of a score, those of a group each on a line of its own."""
    if isinstance(value, dict):
        if all(not isinstance(v, dict) for v in value.values()) and len(value) > 1 and not _is_plain(value):
            return [(name, _inline(value))]
        return [row for key, held in value.items() for row in _rows(f"{name}: {key.replace('_', ' ')}", held, is_share=is_share)]
    return [(name, _inline(value) if isinstance(value, list) else _figure(value, is_share=is_share))]


def _is_plain(value: Mapping[str, Any]) -> bool:
    return all(isinstance(v, int | float) for v in value.values()) and len(value) > 3


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k.replace('_', ' ')} {_inline(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " to ".join(_inline(v) for v in value)
    return _figure(value)


def _confusions(held: Any, words: Mapping[str, str]) -> list[str]:
    rows = [r for r in held if isinstance(r, list) and len(r) == 3] if isinstance(held, list) else []
    return [f"{words.get(true, true)} taken for {words.get(said, said)}: {_figure(n)}" for true, said, n in rows]


def _calibrated(card: ClassCard) -> str:
    made = card.calibration
    assert made is not None
    return (
        f"Counts have an interval: fitted on {made.n_objects:,} objects ({made.fitted_on}); "
        f"{share_text(made.missed)} of true ones are never found, and "
        + (
            f"counts stray by {share_text(made.spread)} between pictures."
            if made.spread
            else "no spread between pictures had to be added."
        )
    )
