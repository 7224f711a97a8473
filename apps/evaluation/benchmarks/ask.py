"""What a question costs beside its tools: planning, checks, verifier, events in PostgreSQL and the answer."""

from __future__ import annotations

import time

from apps.accounts.services import project_create
from apps.evaluation.benchmarks.pairs import Benchmark, Row, spread
from apps.imagery.sample import FOLDER as SAMPLES
from apps.imagery.services import scene_ingest_now
from apps.runs import selectors, services

ROUNDS = 8
QUESTIONS = ("What is the mean NDVI?", "How many hectares have NDVI above 0.4?", "How many hectares of water are there?")


def run(size: int | None) -> list[Row]:
    """Each question ``size`` times (8) on one scene, in a project of its own that is removed afterwards."""
    project = project_create(user=None, name="Benchmark")
    try:
        path = next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))
        scene = scene_ingest_now(project=project, path=path, roles={"blue": 1, "green": 2, "red": 3, "nir": 4})
        outside: list[float] = []
        ratios: list[float] = []
        whole: list[float] = []
        tools: list[float] = []
        for _ in range(size or ROUNDS):
            for text in QUESTIONS:
                began = time.perf_counter()
                made = services.run_start(user=None, project=project, text=text, scenes=[scene], enqueue=False)
                services.run_execute_now(run_id=made.pk)
                seconds = time.perf_counter() - began
                spent = selectors.run_state(made.pk).cost.tools_s
                whole.append(seconds)
                tools.append(spent)
                outside.append(seconds - spent)
                ratios.append((seconds - spent) / seconds)
    finally:
        project.delete()
    return [
        Row("ask, seconds outside the tools", spread(outside), unit="s", note=f"{len(outside)} questions through PostgreSQL"),
        Row("ask, share outside the tools", spread([100 * r for r in ratios]), unit="%"),
        Row(
            "ask, whole run",
            spread(whole),
            "its tools alone",
            spread(tools),
            spread([a / b for a, b in zip(whole, tools, strict=True)]),
        ),
    ]


BENCHMARKS = (Benchmark("ask", "seconds of a question outside its tools", run),)
