"""Question, plan and answer: what the agent is asked, what it means to do, and what it may claim."""

from __future__ import annotations

from typing import Any

from pydantic import Field, JsonValue

from apps.core.evidence.landmark import Landmark
from apps.core.evidence.observation import Frozen, JsonMap, TaskRef, Tool
from apps.core.evidence.prompt import MAX_PROMPTS, Prompt
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import VectorInfo


class Question(Frozen):
    """One question about given scenes and perhaps a region. ``region`` is a GeoJSON geometry; ``region_crs`` EPSG:4326, or
    ``image`` for pixel coordinates of scenes without CRS."""

    text: str = Field(min_length=1, max_length=4000)
    scenes: tuple[SceneInfo, ...] = Field(max_length=400)
    vectors: tuple[VectorInfo, ...] = Field(default=(), max_length=50, description="vector files that the words may name")
    region: JsonMap | None = None
    region_crs: str = "EPSG:4326"
    landmarks: tuple[Landmark, ...] = Field(default=(), max_length=2, description="places that the person marked, A and B")
    prompts: tuple[Prompt, ...] = Field(default=(), max_length=MAX_PROMPTS, description="marks of what is to be segmented")
    choices: dict[str, str] = Field(default_factory=dict, description="multiple choice: key → text")
    form: JsonMap | None = Field(default=None, description="the plan's form as a person filled it in; overrides the words")


class PlanStep(Frozen):
    """One call to be made. Arguments may refer to earlier steps: {"$step": 1} stands for that step's accepted observation."""

    step: int = Field(ge=1)
    tool: Tool
    arguments: JsonMap
    why: str = Field(max_length=500, description="a sentence for the person")
    needs: tuple[int, ...] = Field(default=(), description="earlier steps whose accepted observation it uses")
    alternatives: tuple[JsonMap, ...] = Field(default=(), description="argument sets to try when the observation is rejected")


class AnswerRecipe(Frozen):
    """How the answer is made from accepted observations: ``kind`` is value, compare, choice, date, boolean, text."""

    kind: str = Field(max_length=40)
    steps: tuple[int, ...] = Field(description="steps that the answer rests on")
    unit: str = Field(default="1", max_length=40)
    options: JsonMap = Field(default_factory=dict)


class Plan(Frozen):
    """What will be done, shown before it runs. A plan without steps abstains and ``reason`` says why."""

    task: TaskRef
    steps: tuple[PlanStep, ...] = ()
    answer: AnswerRecipe | None = None
    planner: str = Field(default="", max_length=80)
    understood: str = Field(default="", max_length=1000, description="the question in the planner's own words")
    reason: str = Field(default="", max_length=2000, description="why there is no plan")
    code: str = Field(default="", max_length=40, description="error code where something is needed: NEEDS_BANDS, NEEDS_GSD, …")
    needs: JsonMap = Field(default_factory=dict, description="what is asked of the person: {'roles': ['red', 'nir']}")
    warnings: tuple[str, ...] = ()
    form: JsonMap = Field(default_factory=dict, description="the same plan as a form that the person may edit")


class Claim(Frozen):
    """One sentence of an answer; resolves to accepted observations."""

    text: str = Field(max_length=1000)
    based_on: tuple[str, ...] = Field(min_length=1)


class Answer(Frozen):
    """Made from the verified history alone. Abstained answers say why and name what is open."""

    text: str = Field(max_length=4000)
    value: JsonValue = None
    unit: str | None = None
    choice: str | None = None
    interval: tuple[float, float] | None = None
    abstained: bool = False
    reason: str | None = None
    code: str | None = Field(default=None, description="error code where something is needed of the person")
    needs: JsonMap = Field(default_factory=dict)
    based_on: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    warnings: tuple[str, ...] = ()

    def same_claim(self, other: Answer | None) -> bool:
        """True where value, unit, choice and abstention agree: what a reader would act on."""
        return other is not None and (self.value, self.unit, self.choice, self.abstained) == (
            other.value,
            other.unit,
            other.choice,
            other.abstained,
        )


class Cost(Frozen):
    tool_calls: int = 0
    model_calls: int = 0
    tokens: int = 0
    elapsed_s: float = 0.0
    tools_s: float = 0.0
    verification_s: float = 0.0

    def plus(self, **more: Any) -> Cost:
        return self.model_copy(update={k: getattr(self, k) + v for k, v in more.items()})
