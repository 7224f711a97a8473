"""`evaluate faults`: the fault bench from the command line. ``add_arguments(parser)`` and ``run(options) -> exit status``."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings

from apps.core.errors import UserError
from apps.evaluation.faultbench.cases import BenchCase, bench_cases
from apps.evaluation.faultbench.faults import FAULTS, Fault
from apps.evaluation.faultbench.figures import summary
from apps.evaluation.faultbench.runner import (
    CONFIGURATIONS,
    WITHOUT_PIXELS,
    Bench,
    Outcome,
    Prepared,
    as_rows,
    prepare,
    run_bench,
)
from apps.evaluation.reports import save

# Faults on a case, where each strikes one call alone: every configuration is run once more.
TRANSIENT_LIMIT = 6
SAMPLES = Path(__file__).resolve().parents[2] / "imagery" / "samples"


def shared_folder() -> Path:
    """Where more imagery may be: RSURE_SHARED, else ``shared/data`` beside the checkout."""
    given = os.environ.get("RSURE_SHARED")
    return Path(given) if given else Path(settings.BASE_DIR).parent / "shared" / "data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `evaluate faults`."""
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, progress on standard error")
    parser.add_argument(
        "--cases", default="", metavar="PREFIX,…", help="only cases whose name begins so; without: all but slow ones"
    )
    parser.add_argument("--faults", default="", metavar="NAME,…", help="only these faults (or families); without: all")
    parser.add_argument("--configurations", default=",".join(CONFIGURATIONS), metavar="NAME,…", help="of: %(default)s")
    parser.add_argument("--once", action="store_true", help="a fault strikes the first call it can, not every one")
    parser.add_argument("--limit", type=int, default=None, metavar="N", help="at most N faults on a case, spread over the list")
    parser.add_argument("--unseen", action="store_true", help="only the faults that nothing was mended or fitted with")
    parser.add_argument("--fresh", action="store_true", help="only the second set of such faults, written last")
    parser.add_argument("--leave-out", action="store_true", help="also fit the verifier without each family and task, and score")
    parser.add_argument("--samples", default="", metavar="FILE", help="only write samples to fit the verifier on")
    parser.add_argument("--plugin", action="append", default=[], metavar="MODULE", help="import a module that registers faults")
    parser.add_argument("--rows", default="", metavar="FILE", help="write every run as a line of JSON")
    parser.add_argument(
        "--scenarios", action="store_true", help="only the situations in which evidence has to be asked for (the paper's Table 8)"
    )
    parser.add_argument("--list", action="store_true", help="name cases and faults, run nothing")


def _words(text: str) -> list[str]:
    return [w.strip() for w in text.split(",") if w.strip()]


def _chosen(options: dict[str, Any]) -> tuple[list[BenchCase], list[Fault], list[str]]:
    """Cases, faults and configurations asked for. UserError for a name that is not known."""
    for name in ("apps.evaluation.faultbench.held_out", "apps.evaluation.faultbench.held_out_2", *(options.get("plugin") or ())):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UserError(
                "BAD_ARGUMENT",
                f"The plug-in {name} cannot be imported.",
                str(error)[:300],
                "Give a module path that Python finds (PYTHONPATH).",
            ) from error
    every = [f for _, f in FAULTS.items()]
    wanted = _words(options.get("faults") or "")
    unknown = set(wanted) - {f.name for f in every} - {f.family for f in every}
    if unknown:
        raise UserError(
            "BAD_ARGUMENT",
            f"There is no fault {', '.join(sorted(unknown))}.",
            "Faults go by name or family.",
            f"Known: {', '.join(f.name for f in every)}.",
        )
    faults = [f for f in every if not wanted or f.name in wanted or f.family in wanted]
    if options.get("fresh"):
        faults = [f for f in faults if "fresh" in f.tags]
    elif options.get("unseen"):
        faults = [f for f in faults if "unseen" in f.tags and "fresh" not in f.tags]
    elif not wanted:  # kinds held out are asked for by name or together, and never mixed with those that were mended for
        faults = [f for f in faults if "unseen" not in f.tags]
    prefixes = _words(options.get("cases") or "")
    # what takes half a minute a run is asked for by name
    cases = [c for c in bench_cases() if (not c.is_slow if not prefixes else any(c.name.startswith(p) for p in prefixes))]
    if not cases:
        raise UserError("BAD_ARGUMENT", "No case has such a name.", f"Asked: {', '.join(prefixes)}.", "See --list.")
    limit = options.get("limit")
    if limit is not None and limit < 1:
        raise UserError("BAD_ARGUMENT", f"A limit of {limit} is impossible.", "It is below 1.", "Give --limit 1 or more.")
    configurations = _words(options.get("configurations") or ",".join(CONFIGURATIONS))
    if set(configurations) - {*CONFIGURATIONS, WITHOUT_PIXELS}:
        raise UserError(
            "BAD_ARGUMENT",
            "There is no such configuration.",
            f"Asked: {', '.join(configurations)}.",
            f"Known: {', '.join((*CONFIGURATIONS, WITHOUT_PIXELS))}.",
        )
    return cases, faults, configurations


def run(options: dict[str, Any], *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Runs the bench, prints and keeps its report. Exit status 0; UserError for bad options."""
    from apps.evaluation.assembly import bench_door
    from apps.runs.assembly import revision

    out, err = out or sys.stdout, err or sys.stderr
    cases, faults, configurations = _chosen(options)
    if options.get("list"):
        _print_list(cases, faults, out)
        return 0
    if options.get("scenarios"):
        return _run_scenarios(options, out, err)
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    noise = logging.getLogger("apps")
    level = noise.level
    # a judge that refuses, a tool that fails: here they are what is measured
    noise.setLevel(logging.CRITICAL)
    try:
        with contextlib.ExitStack() as held:
            scratch = held.enter_context(tempfile.TemporaryDirectory(prefix="rsure-faults-"))
            bench = Bench(bench_door(Path(scratch)), cases, [SAMPLES, shared_folder()], Path(scratch))
            if bench.missing:
                err.write(f"{len(bench.missing)} cases are left out, their imagery is not here: {', '.join(bench.missing)}\n")
            for package in sorted(set(bench.lacking.values())):
                names = [n for n, p in bench.lacking.items() if p == package]
                err.write(f"{len(names)} cases are left out, {package} is not installed or is off: {', '.join(names)}\n")
            if not bench.cases:
                raise UserError(
                    "BAD_ARGUMENT",
                    "No case can be run.",
                    "The imagery of all of them is missing, or a package that they need.",
                    "Set RSURE_SHARED to the folder with the shared data, or run ./rsure setup.",
                )
            prepared = prepare(bench)
            if options.get("samples"):
                return _write_samples(prepared, faults, options, out, err)
            rows = held.enter_context(Path(options["rows"]).open("w")) if options.get("rows") else None

            def keep(outcome: Outcome) -> None:
                outcomes.append(outcome)
                if rows is not None:
                    rows.write(json.dumps(as_rows([outcome])[0], default=str) + "\n")
                    rows.flush()
                if len(outcomes) % 100 == 0:
                    err.write(f"{len(outcomes)} runs, {time.perf_counter() - began:.0f} s\n")
                    err.flush()

            run_bench(
                prepared,
                faults,
                is_once=bool(options.get("once")),
                configurations=configurations,
                limit=options.get("limit"),
                on_outcome=keep,
            )
            transient = None
            if _is_whole(options) and not options.get("once"):
                # a fault that strikes one call leaves an honest method to answer by
                err.write(f"{len(outcomes)} runs, {time.perf_counter() - began:.0f} s; now faults that strike one call\n")
                transient = run_bench(prepared, faults, is_once=True, configurations=configurations, limit=TRANSIENT_LIMIT)
            left_out = None
            if options.get("leave_out"):
                from apps.evaluation.faultbench.leave_out import leave_one_family_out

                left_out = leave_one_family_out(prepared, outcomes, faults, limit=options.get("limit"), err=err)
            report = _report(bench, faults, outcomes, options, time.perf_counter() - began)
            if transient is not None:
                report["one_call"] = {"limit": TRANSIENT_LIMIT, **_one_call(transient)}
                report |= scenario_report(options, err)
            if left_out is not None:
                report["leave_one_family_out"] = left_out
    finally:
        noise.setLevel(level)
    path = save("faults", report, revision=revision())
    if options.get("json"):
        out.write(json.dumps(report, ensure_ascii=False, default=str) + "\n")
    else:
        _print_report(report, out)
        out.write(f"\nKept as {path.name}; the page Evaluation shows it.\n")
    return 0


def _is_whole(options: dict[str, Any]) -> bool:
    return not any(options.get(k) for k in ("cases", "faults", "limit", "unseen", "fresh"))


def _one_call(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What the report keeps of faults that strike one call."""
    held = summary(outcomes, n_boot=200)
    return {k: held[k] for k in ("configurations", "drop", "requests", "settled") if k in held}


def scenario_report(options: dict[str, Any], err: TextIO) -> dict[str, Any]:
    """Scenarios in which evidence is asked for: rows, requests by kind, and the paper's Table 8 over them."""
    from apps.evaluation.assembly import bench_door
    from apps.evaluation.faultbench.figures import request_ends, settled
    from apps.evaluation.faultbench.scenarios import prepare_files, run_scenarios, table

    with tempfile.TemporaryDirectory(prefix="rsure-scenarios-") as scratch:
        folder = Path(scratch)
        folders = [SAMPLES, shared_folder(), folder]
        prepare_files(folder, Bench(bench_door(folder), (), folders, folder)._find)
        missing: list[str] = []

        def make(cases: Sequence[BenchCase]) -> Bench:
            bench = Bench(bench_door(folder), cases, folders, folder)
            missing.extend(bench.missing)
            return bench

        runs = run_scenarios(make)
    if missing:
        err.write(f"{len(missing)} scenarios are left out, their imagery is not here\n")
    outcomes = [o for _, _, o in runs]
    return {
        "scenarios": table(runs),
        "scenarios_missing": len(missing),
        "scenario_requests": request_ends(outcomes),
        "scenario_settled": settled(outcomes),
    }


def _run_scenarios(options: dict[str, Any], out: TextIO, err: TextIO) -> int:
    from apps.runs.assembly import revision

    noise = logging.getLogger("apps")
    level = noise.level
    noise.setLevel(logging.CRITICAL)
    try:
        report = scenario_report(options, err)
    finally:
        noise.setLevel(level)
    save("requests", {"requests": {"": report["scenario_requests"]}, **report}, revision=revision())
    if options.get("json"):
        out.write(json.dumps(report, ensure_ascii=False, default=str) + "\n")
    else:
        _print_scenarios(report, out)
    return 0


def _write_samples(prepared: Prepared, faults: Sequence[Fault], options: dict[str, Any], out: TextIO, err: TextIO) -> int:
    from apps.evaluation.faultbench.calibrate import collect, weighted

    rows = weighted(collect(prepared, faults, limit=options.get("limit"), err=err))
    Path(options["samples"]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    out.write(f"{len(rows)} samples written; ./rsure manage verifier fit --samples FILE --version NAME fits them.\n")
    return 0


def _report(
    bench: Bench, faults: Sequence[Fault], outcomes: Sequence[Outcome], options: dict[str, Any], seconds: float
) -> dict[str, Any]:
    from apps.evaluation.assembly import verifier_name

    return {
        "cases": len(bench.cases),
        "cases_missing": sorted({*bench.missing, *bench.lacking}),
        "faults_tried": len({o.fault for o in outcomes if o.fault}),
        "fault_kinds": [{"name": f.name, "family": f.family, "meaning": f.meaning, "unseen": "unseen" in f.tags} for f in faults],
        "is_whole": _is_whole(options),
        "is_unseen": bool(options.get("unseen") or options.get("fresh")),
        "strikes": "once" if options.get("once") else "every call",
        "verifier_version": verifier_name(),
        "seconds": round(seconds, 1),
        **summary(outcomes),
        "let_through": [
            {"case": o.case, "fault": o.fault, "configuration": o.configuration, "value": o.value, "right": o.right}
            for o in outcomes
            if o.configuration != "none" and o.is_incorrect and o.is_wrong
        ],
        "honest_not_right": [
            {"case": o.case, "configuration": o.configuration, "value": o.value, "right": o.right, "abstained": o.is_abstained}
            for o in outcomes
            if not o.fault and not o.is_right
        ],
    }


# --- text -------------------------------------------------------------------------------------------------------------------
def _print_list(cases: Sequence[BenchCase], faults: Sequence[Fault], out: TextIO) -> None:
    out.write(f"{len(cases)} cases\n")
    for case in cases:
        out.write(f"  {case.name:<22} {case.question}{'  (shared data)' if case.is_shared else ''}\n")
    out.write(f"{len(faults)} faults\n")
    for fault in faults:
        mark = "  (unseen)" if "unseen" in fault.tags else ""
        out.write(f"  {fault.family:<12} {fault.name:<26} {fault.meaning}{mark}\n")


def _share(value: Any) -> str:
    return "     –" if value is None else f"{100 * value:5.1f}%"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _print_settled(row: dict[str, Any], out: TextIO) -> None:
    out.write(
        f"  {row['tasks']} runs; {row['with_failed_observation']} with an observation that was not accepted at once; "
        f"{row['with_requests']} of these with an executed request; {row['accepted_afterwards']} of these with an accepted "
        f"observation afterwards; {row['answered_right']} of these answered right, {row['answered_wrong']} wrong; "
        f"{row['rejected_calls']} calls rejected\n"
    )


def _print_requests(rows: Sequence[dict[str, Any]], out: TextIO) -> None:
    for row in rows:
        out.write(f"  {row['kind']:<20} {row['n']:>4} made {row.get('answered', 0):>4} answered")
        for side in ("right", "incorrect"):
            s = row[side]
            out.write(
                f"   {side} p {_number(s['p_before'])} → {_number(s['p_after'])} "
                f"{s['accepted']}/{s['rejected']}/{s['replaced']}/{s['left_to_a_person']}"
            )
        out.write("\n")


def _print_scenarios(report: dict[str, Any], out: TextIO) -> None:
    out.write("\nWhere evidence has to be asked for: runs right/wrong/abstained, honest and faulty\n")
    for row in report["scenarios"]:
        cells = [f"{row[k]['right']}/{row[k]['wrong']}/{row[k]['abstained']}" for k in ("honest", "faulty")]
        kinds = sorted({*row["honest"]["requests"], *row["faulty"]["requests"]})
        out.write(f"  {row['scenario']:<32} {cells[0]:>9} {cells[1]:>9}  {', '.join(kinds)}\n")
    out.write("\nEvidence requests: mean p before → after; kept/lost/replaced/left to a person\n")
    _print_requests(report["scenario_requests"], out)
    _print_settled(report["scenario_settled"], out)


def _print_report(report: dict[str, Any], out: TextIO) -> None:
    shown = (
        ("runs", "runs"),
        ("runs_with_incorrect", "runs with an incorrect observation"),
        ("R_dep", "R_dep"),
        ("R_err", "R_err"),
        ("R_prop", "R_prop"),
        ("incorrect_accepted", "incorrect observation accepted"),
        ("answer_accuracy", "answers right"),
        ("wrong_answers", "answers wrong"),
        ("abstained", "abstained"),
        ("honest_accuracy", "right without a fault"),
        ("right_rejected", "right observations rejected"),
        ("right_left_open", "right observations left to a person"),
        ("requests", "evidence requests"),
        ("tool_calls_per_run", "tool calls a run"),
        ("seconds_per_run", "seconds a run"),
        ("verification_share_of_run", "verification, share of the run"),
        ("judgement_ms_p50", "one judgement, ms (median)"),
    )
    names = list(report["configurations"])
    out.write(f"{report['cases']} cases, {report['faults_tried']} faults, {report['seconds']:.0f} s; ")
    out.write(f"verifier {report['verifier_version']}\n\n")
    out.write(f"{'':<38}" + "".join(f"{n:>20}" for n in names) + "\n")
    for key, words in shown:
        cells = []
        for name in names:
            value = report["configurations"][name][key]
            if isinstance(value, int):
                cells.append(f"{value:>20}")
            elif key in ("tool_calls_per_run", "seconds_per_run", "judgement_ms_p50"):
                cells.append(f"{'–' if value is None else format(value, '.2f'):>20}")
            else:
                cells.append(f"{_share(value):>20}")
        out.write(f"{words:<38}" + "".join(cells) + "\n")
    for name, fall in report.get("drop", {}).items():
        if fall["points"] is not None and fall["interval"]:
            low, high = fall["interval"]
            out.write(f"\nR_prop falls by {fall['points']:.1f} points with {name} (95 %: {low:.1f} to {high:.1f}).\n")
    out.write("\nR_prop by family\n")
    for family, by in report["families"].items():
        out.write(f"  {family:<36}" + "".join(f"{_share(by[n]['R_prop']):>20}" for n in names) + f"{by[names[-1]]['runs']:>8}\n")
    if report["let_through"]:
        out.write("\nWrong answers in spite of verification\n")
        for row in report["let_through"][:60]:
            out.write(f"  {row['case']:<22} {row['fault']:<26} {row['configuration']:<20} {row['value']} for {row['right']}\n")
    for name, ends in report["requests"].items():
        if ends:
            out.write(f"\nEvidence requests, {name}: mean p before → after; kept/lost/replaced/left to a person\n")
        _print_requests(ends, out)
        _print_settled(report["settled"][name], out)
    if report.get("one_call"):
        held = report["one_call"]["configurations"]
        out.write("\nFaults that strike one call alone (a second method may be honest)\n")
        for key, words in (
            ("R_prop", "R_prop"),
            ("answer_accuracy", "answers right"),
            ("wrong_answers", "answers wrong"),
            ("abstained", "abstained"),
            ("incorrect_accepted", "incorrect observation accepted"),
        ):
            out.write(f"{words:<38}" + "".join(f"{_share(held[n][key]):>20}" for n in held) + "\n")
    if report.get("scenarios"):
        _print_scenarios(report, out)
    if report["honest_not_right"]:
        out.write("\nNot right without a fault\n")
        for row in report["honest_not_right"]:
            said = "abstained" if row["abstained"] else row["value"]
            out.write(f"  {row['case']:<22} {row['configuration']:<20} {said} for {row['right']}\n")
    held = report.get("leave_one_family_out")
    if held:
        out.write(
            f"\nVerifier fitted without the family and the task: R_prop {_share(held['R_prop'])}, "
            f"down by {held['drop']['points']:.1f} points.\n"
        )
