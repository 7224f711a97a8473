"""From an analysis that a question names (``analyses.py``) to a plan: one graph or call where that is enough, and a reason where
something is missing. The plans themselves are in ``analysis_*.py``, a module a matter."""

from __future__ import annotations

from collections.abc import Callable

from apps.agent.planner.analyses import read_analysis
from apps.agent.planner.analysis_bands import BandAnalyses
from apps.agent.planner.analysis_dates import DateAnalyses
from apps.agent.planner.analysis_grids import GridAnalyses
from apps.agent.planner.analysis_images import ImageAnalyses
from apps.agent.planner.analysis_maths import MathsAnalyses
from apps.agent.planner.analysis_space import SpaceAnalyses
from apps.agent.planner.analysis_terrain import TerrainAnalyses
from apps.agent.planner.fields import RefusalError
from apps.core.evidence.plan import AnswerRecipe, Plan, Question

# Kinds that read pixels through an index or band, from which flagged pixels can be left out.
_MASKABLE = frozenset(
    {
        "regrid",
        "registered_change",
        "moran",
        "moran_test",
        "spots_count",
        "spots_part",
        "spots_map",
        "anomaly",
        "dnbr",
        "severity",
        "severity_part",
        "composite",
        "composite_map",
        "by",
        "cover",
        "trend_test",
        "mann_kendall",
        "break",
        "correlation",
        "amplitude",
        "percentile",
        "extreme_date",
        "physical",
        "physical_map",
        "physical_part",
        "formula",
        "ratio",
        "histogram",
        "chart",
        "centre",
        "pixel_trend_map",
        "pixel_trend_part",
        "colours",
    }
)


def plan_analysis(question: Question, planner: str = "offline") -> Plan | None:
    """The plan of such a question; None where it is about something else."""
    asked = read_analysis(question)
    is_dem = len(question.scenes) == 1 or any("elevation" in s.roles for s in question.scenes)
    if asked is None or (asked.kind == "slope" and not is_dem):
        return None  # the slope of a series over time is the parser's
    roles = frozenset(r for s in question.scenes for r in s.roles)
    if asked.is_plain_temperature and ("lst" in roles or not roles & {"thermal1", "thermal2"}):
        return None  # the figure of a band as any other
    if asked.kind in ("pixel_trend_map", "pixel_trend_part") and len(question.scenes) < 3:
        return None  # a change, and no trend
    builder = AnalysisBuilder(question, asked)
    try:
        recipe = builder.analysis()
    except RefusalError as why:
        return builder.refused(why, planner)
    if question.choices:
        of = {"of": recipe.kind, "mode": "nearest" if recipe.kind in ("value", "reading") else "match"}
        recipe = recipe.model_copy(update={"kind": "choice", "options": {**recipe.options, **of}})
    return Plan(
        task=builder.task(),
        steps=tuple(builder.steps),
        answer=recipe,
        planner=planner,
        understood=builder.understood,
        warnings=tuple(dict.fromkeys(builder.warnings)),
    )


class AnalysisBuilder(GridAnalyses, SpaceAnalyses, TerrainAnalyses, DateAnalyses, BandAnalyses, ImageAnalyses, MathsAnalyses):
    """Fills a plan from an analysis; RefusalError where something is missing."""

    def analysis(self) -> AnswerRecipe:
        a = self.asked
        if not self.question.scenes and a.kind != "solve":
            raise RefusalError("There is no image to look at; add one.", "NO_ANSWER", {"scenes": True})
        if a.region and self.region is None:
            raise RefusalError(
                "The question speaks of a region, but none is drawn. Draw it on the map or paste it, and ask again.",
                "NEEDS_REGION",
                {"region": True},
            )
        if a.is_clear and a.kind not in _MASKABLE:
            raise RefusalError(
                "Clouds are left out of figures of an index or band; of this they are not.", "NO_ANSWER", {"form": ["mask"]}
            )
        build: Callable[[], AnswerRecipe] = getattr(self, f"_plan_{a.kind}")
        return build()
