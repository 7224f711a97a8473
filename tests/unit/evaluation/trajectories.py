"""Small made-up trajectories in the form of the shared ones: a few tasks, each with a run that is right and one that is not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def listing(task: int) -> list[str]:
    return [f"Lake_NDWI_20{year}-07-01.tif" for year in range(10, 16)] + [f"Lake_LST_{task}.tif"]


def question(task: int) -> str:
    return f"What is the mean NDWI of lake {task} from 2010 to 2015? Count pixels over the threshold 0.{task % 9 + 1}."


def run_of(task: int, name: str, *, is_good: bool, answer: str | None = "A") -> tuple[dict[str, Any], dict[str, Any]]:
    """A run and its labels. The good one takes the whole series and its mean is the first choice's; the other one file."""
    folder = f"data/question{task}"
    files = [f"{folder}/{f}" for f in listing(task)[:6]]
    value = 0.2 + task / 1000
    given = files if is_good else files[:1]
    text = f"[{value}]" if is_good else f"[{value * 7}]"
    calls = [
        {"i": 0, "tool": "get_filelist", "args": {"dir_path": folder}, "output": json.dumps(listing(task)), "is_error": False},
        {"i": 1, "tool": "calc_batch_image_mean", "args": {"file_list": given}, "output": text, "is_error": False},
        {"i": 2, "tool": "calc_batch_image_mean", "args": {"file_list": []}, "output": "ToolException: empty", "is_error": True},
    ]
    run = {
        "task_id": str(task), "run": name, "question": question(task), "calls": calls, "final_answer": answer or "MISSING",
        "choices": {"A": f"{value:.3f}", "B": f"{value + 0.1:.3f}", "C": f"{value + 0.3:.3f}"},
        "correct": is_good, "infra_error": False, "gold_conflict": False,
    }  # fmt: skip
    labels = ["listing", "correct_value" if is_good else "off_reference_value_mismatch", "error"]
    return run, {"run": name, "task_id": str(task), "calls": [{"i": i, "label": v} for i, v in enumerate(labels)]}


def write(folder: Path, pairs: list[tuple[dict[str, Any], dict[str, Any]]], *, is_packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, at in (("trajectories.jsonl", 0), ("labels.jsonl", 1)):
        text = "".join(json.dumps(pair[at]) + "\n" for pair in pairs)
        if is_packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)
    return folder


def pairs_of(tasks: range) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [run_of(t, name, is_good=name == "one") for t in tasks for name in ("one", "two")]
