"""Models for scoring without having seen the task: one model a fold of the tasks that were fitted on, and the final model for
tasks that were never seen. A task is known by the digests of its questions' words, so that nothing of it is kept.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from apps.core.digests import digest_bytes
from apps.prior.domain import Outcome, Table, build
from apps.verification.records.forest import RecordModel, load_record_model

WEIGHTS = Path(__file__).resolve().parent / "weights"


def question_key(question: str) -> str:
    """Sixteen hexadecimal digits of the question's words, case and blanks left out."""
    return digest_bytes(" ".join(question.lower().split()).encode())[7:23]


class PriorCount(BaseModel):
    """Labelled outcomes of one configuration on one fold's tasks: the prior's cells can be built without any of the folds.
    ``tasks``: of each task, the share of its outcomes that were right and for how many trials they count."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    scheme: Literal["strict", "broad"]
    fold: int
    task_type: str
    tool: str
    coarse: str
    fine: str
    tasks: tuple[tuple[float, int], ...]


class FoldedModels(BaseModel):
    """``fold_of``: question key → fold. ``models[fold]`` was fitted without the tasks of that fold."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: str
    fold_of: dict[str, int]
    models: tuple[RecordModel, ...]
    prior: tuple[PriorCount, ...] = ()

    def model_for(self, question: str, final: RecordModel) -> tuple[RecordModel, bool]:
        """(the model that has not seen this question, whether the question was among those fitted on)."""
        fold = self.fold(question)
        return (final, False) if fold is None else (self.models[fold], True)

    def fold(self, question: str) -> int | None:
        """The fold that holds the question's task, None for a task that was not fitted on."""
        return self.fold_of.get(question_key(question))

    def prior_without(self, fold: int | None, scheme: Literal["strict", "broad"]) -> Table:
        """The hierarchical Beta prior of the outcomes outside a fold; all of them for None. Under broad labels the n
        outcomes of one task count for √n trials of a cell: repeats of a task are not independent."""
        outcomes = []
        for c in self.prior:
            if c.scheme != scheme or c.fold == fold:
                continue
            for share, trials in c.tasks:
                for is_success, weight in ((True, share), (False, 1 - share)):
                    if weight > 0:
                        one = Outcome(c.task_type, c.tool, c.coarse, c.fine, is_success, weight=weight, source="offline")
                        outcomes += [one] * trials
        return build(outcomes, f"{self.version} without {fold}")


def write_folds(folds: FoldedModels, path: Path) -> None:
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        out.write(folds.model_dump_json().encode())


@lru_cache(maxsize=2)
def load_folds(path: Path | None = None) -> FoldedModels | None:
    """The shipped folds, or those in ``path``; None where there are none of the shipped model's version."""
    held = path or WEIGHTS / "records-folds.json.gz"
    if not held.is_file():
        return None
    folds = FoldedModels.model_validate_json(gzip.decompress(held.read_bytes()))
    return folds if path or folds.version == load_record_model().version else None
