"""Fitted verifiers of this installation: candidates, the one in use, and the way back.

A candidate is a file ``<version>.json`` under RSURE_HOME/verifier/<kind>; ``in-use.json`` beside it lists what was promoted,
newest last. Where nothing was promoted the shipped weights are in use. Kinds: ``calibrated`` (observations with evidence) and
``records`` (calls of other agents without).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from pydantic import ValidationError

from apps.core.errors import UserError
from apps.runs.models import ObservationRow
from apps.runs.selectors import run_state
from apps.verification.backends.calibrated import WEIGHTS, ModelWeights, load_weights, read_weights
from apps.verification.records.forest import RecordModel, load_record_model

KINDS = ("calibrated", "records")


def verifier_folder(kind: str) -> Path:
    """Made on first use. UserError BAD_ARGUMENT for an unknown kind."""
    if kind not in KINDS:
        raise UserError("BAD_ARGUMENT", f"There is no verifier {kind!r}.", "Two kinds exist.", f"Take {' or '.join(KINDS)}.")
    place = Path(settings.RSURE_HOME) / "verifier" / kind
    place.mkdir(parents=True, exist_ok=True)
    return place


def verifier_path(kind: str, version: str) -> Path:
    """The candidate's file. UserError NOT_FOUND where there is none."""
    held = verifier_candidates(kind)
    if version not in held:
        what = f"There is no {kind} candidate {version[:80]!r}."
        raise UserError("NOT_FOUND", what, f"Held: {', '.join(held) or 'none'}.", "Fit one first.")
    if kind == "calibrated" and version in _shipped():
        return WEIGHTS / f"{version}.json"
    return verifier_folder(kind) / f"{version}.json"


def verifier_candidates(kind: str) -> list[str]:
    """Versions that can be promoted: those fitted here, and every shipped one, so that an older one can be gone back to."""
    fitted = {p.stem for p in verifier_folder(kind).glob("*.json") if p.name != "in-use.json"}
    return sorted(fitted | (_shipped() if kind == "calibrated" else set()))


def _shipped() -> set[str]:
    return {p.stem for p in WEIGHTS.glob("calibrated-*.json")}


def verifier_history(kind: str) -> list[str]:
    """Versions in the order of their promotion; the last one is in use. Empty: the shipped one is."""
    path = verifier_folder(kind) / "in-use.json"
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    return [v for v in found if isinstance(v, str)] if isinstance(found, list) else []


def verifier_promote(kind: str, version: str) -> None:
    """Puts a candidate in use for what is judged from now on. UserError where it is absent or no weights file."""
    path = verifier_path(kind, version)
    try:
        _read(kind, path)
    except (ValueError, ValidationError) as error:
        raise UserError("BAD_ARGUMENT", f"{path.name} is no weights file.", str(error)[:300], "Fit it again.") from error
    _write_history(kind, [*verifier_history(kind), version])


def verifier_roll_back(kind: str) -> str:
    """Back to what was in use before; returns its version. UserError CONFLICT where nothing was promoted."""
    history = verifier_history(kind)
    if not history:
        raise UserError("CONFLICT", f"The shipped {kind} verifier is in use.", "Nothing was promoted.", "Promote one first.")
    _write_history(kind, history[:-1])
    return history[-2] if len(history) > 1 else "shipped"


def verifier_keep(kind: str, version: str, text: str) -> Path:
    """Keeps a candidate, whole or not at all. UserError CONFLICT where the version exists: it never changes."""
    path = verifier_folder(kind) / f"{version}.json"
    if not re.fullmatch(r"[\w.-]{1,80}", version) or not version.strip("-._") or path.exists():
        fix = "Take another name of up to 80 letters, digits, dots and dashes."
        raise UserError("CONFLICT", f"The version {version[:80]!r} cannot be used.", "It exists, or is no plain name.", fix)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(text)
    draft.replace(path)
    return path


def calibrated_weights() -> ModelWeights:
    """The calibrated weights in use."""
    history = verifier_history("calibrated")
    return _cached("calibrated", history[-1]) if history else load_weights()


def record_model() -> RecordModel:
    """The model for records in use."""
    history = verifier_history("records")
    return _cached("records", history[-1]) if history else load_record_model()


def verdict_samples() -> Iterator[dict[str, Any]]:
    """What persons have said of observations, with what the verifier saw then: lines for ``calibrated.fit``, grouped by question.
    Rows drawn for audit weigh by the inverse of their probability of being shown; at most 25."""
    rows = ObservationRow.objects.filter(verdict__in=["accept", "reject"]).select_related("run").order_by("run_id", "id")
    states: dict[str, Any] = {}
    for row in rows.iterator():
        key = str(row.run_id)
        if key not in states:
            states = {key: run_state(row.run_id)}
        held = states[key].observations.get(row.pk)
        decision = held.decision if held else None
        if decision is None or not decision.features or decision.verifier.startswith("records"):
            continue
        shown = row.audit_probability if row.is_audit and row.audit_probability > 0 else 1.0
        yield {
            "group": row.run.question_text, "label": int(row.verdict == "accept"), "features": dict(decision.features),
            "weight": min(1 / shown, 25.0),
        }  # fmt: skip


def _write_history(kind: str, history: list[str]) -> None:
    path = verifier_folder(kind) / "in-use.json"
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(history))
    draft.replace(path)


def _read(kind: str, path: Path) -> Any:
    return read_weights(path) if kind == "calibrated" else RecordModel.model_validate_json(path.read_text())


@lru_cache(maxsize=4)
def _cached(kind: str, version: str) -> Any:
    return _read(kind, verifier_path(kind, version))
