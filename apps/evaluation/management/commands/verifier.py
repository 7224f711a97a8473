"""``./rsure manage verifier fit|kinds|list|compare|promote|rollback``: fits the verifiers anew and puts one in use."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.core.errors import UserError
from apps.core.exits import EXIT_DONE, guarded
from apps.evaluation import refit
from apps.evaluation.importers.trajectories import read_folder
from apps.runs.verifiers import (
    KINDS,
    verdict_samples,
    verifier_candidates,
    verifier_history,
    verifier_keep,
    verifier_path,
    verifier_promote,
    verifier_roll_back,
)


class Command(BaseCommand):
    help = "Fits the verifiers from labelled outcomes, compares candidates with what is in use, promotes one, rolls back."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser("./rsure manage", subcommand, formatter_class=argparse.HelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parts = parser.add_subparsers(dest="what", required=True, metavar="fit|kinds|list|compare|promote|rollback")
        fit = parts.add_parser("fit", help="fit a candidate; nothing changes until it is promoted")
        source = fit.add_mutually_exclusive_group(required=True)
        source.add_argument("--verdicts", action="store_true", help="calibrated: from what persons have said here")
        source.add_argument("--samples", metavar="FILE", help="calibrated: JSON Lines of group, label and features")
        source.add_argument("--trajectories", metavar="DIR", help="records: labelled trajectories; needs scikit-learn")
        fit.add_argument("--version", required=True, dest="name", help="name of the candidate; a version never changes")
        fit.add_argument("--note", default="")
        kinds = parts.add_parser("kinds", help="fit the second look at kinds of place; needs scikit-learn")
        kinds.add_argument("--aerial", type=Path, required=True, metavar="DIR", help="labelled pictures of 0.3 m (UC Merced)")
        kinds.add_argument("--sentinel2", type=Path, required=True, metavar="DIR", help="labelled patches of 10 m (EuroSAT RGB)")
        kinds.add_argument("--out", type=Path, required=True, metavar="FILE.npz")
        kinds.add_argument("--json", action="store_true")
        for name, words in (("list", "candidates and what is in use"), ("compare", "a candidate against what is in use"),
                            ("promote", "put a candidate in use"), ("rollback", "back to what was in use before")):  # fmt: skip
            part = parts.add_parser(name, help=words)
            part.add_argument("--kind", choices=KINDS, default="calibrated")
            if name in ("compare", "promote"):
                part.add_argument("name", metavar="VERSION")
            if name == "compare":
                part.add_argument("--verdicts", action="store_true", help="on what persons have said here")
                part.add_argument("--samples", metavar="FILE", help="on JSON Lines of group, label and features")
            part.add_argument("--json", action="store_true")
        fit.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        work: Callable[[dict[str, Any]], dict[str, Any]] = getattr(self, f"_{options['what']}")

        def run() -> int:
            report = work(options)
            text = json.dumps(report, ensure_ascii=False) if options["json"] else _plain(report)
            self.stdout.write(text)
            return EXIT_DONE

        sys.exit(guarded(run, options))

    def _fit(self, options: dict[str, Any]) -> dict[str, Any]:
        if options["trajectories"]:
            from apps.evaluation import fitting
            from apps.evaluation.folds import write_folds

            data = read_folder(Path(options["trajectories"]))
            model, folds = fitting.fit(data, version=options["name"], note=options["note"], progress=self._progress)
            model = model.model_copy(update={"report": {"sizes": fitting.sizes(data)}})
            path = verifier_keep("records", options["name"], model.model_dump_json())
            write_folds(folds, path.with_suffix(".folds.json.gz"))
            points = {"flag_at": model.calls.flag_at, "flag_at_strict": model.strict.flag_at if model.strict else None}
            return {"kind": "records", "version": model.version, **points, **fitting.sizes(data)}
        samples = self._samples(options)
        weights = refit.fit_calibrated(samples, version=options["name"], note=options["note"])
        verifier_keep("calibrated", options["name"], weights.model_dump_json(indent=1))
        return {"kind": "calibrated", "version": weights.version, "samples": len(samples), **weights.report}

    def _kinds(self, options: dict[str, Any]) -> dict[str, Any]:
        from apps.evaluation.kinds_fit import fit_looks
        from apps.verification.kinds import write_looks

        looks = fit_looks({"aerial-0.3m": options["aerial"], "sentinel2-10m": options["sentinel2"]}, self._progress)
        write_looks(looks, options["out"])
        return {look.name: {**look.report, "agree_at": look.agree_at, "contradict_at": look.contradict_at} for look in looks}

    def _list(self, options: dict[str, Any]) -> dict[str, Any]:
        history = verifier_history(options["kind"])
        held = verifier_candidates(options["kind"])
        in_use = history[-1] if history else "shipped"
        return {"kind": options["kind"], "in_use": in_use, "candidates": held, "promoted": history}

    def _compare(self, options: dict[str, Any]) -> dict[str, Any]:
        if options["kind"] == "records":
            why = "A record model is scored on tasks that it has not seen."
            fix = "Promote it and run ./rsure evaluate trajectories, which prints its out-of-fold figures."
            raise UserError("BAD_ARGUMENT", "Records are compared by their folds.", why, fix)
        from apps.runs.verifiers import calibrated_weights
        from apps.verification.backends.calibrated import read_weights

        candidate = read_weights(verifier_path("calibrated", options["name"]))
        return refit.compare_calibrated(candidate, calibrated_weights(), self._samples(options))

    def _promote(self, options: dict[str, Any]) -> dict[str, Any]:
        verifier_promote(options["kind"], options["name"])
        return self._list(options)

    def _rollback(self, options: dict[str, Any]) -> dict[str, Any]:
        verifier_roll_back(options["kind"])
        return self._list(options)

    def _samples(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        if options.get("samples"):
            return refit.read_samples(Path(options["samples"]))
        samples = list(verdict_samples())
        if not samples:
            why = "Nobody has settled an observation with evidence yet."
            raise UserError("NOT_FOUND", "There is no verdict to learn from.", why, "Review some, or give --samples FILE.")
        return samples

    def _progress(self, text: str) -> None:
        self.stderr.write(text)
        self.stderr.flush()


def _plain(report: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in report.items())
