"""``perceive``: one door to its modes. Modes that cannot be served here abstain with a sentence."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from apps.core.errors import FaultError, ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration
from apps.tools.contract import PerceiveArguments, ToolContext, ToolOutcome

# mode → (module, function); loaded when first asked for, so that a web process never pays for them
MODES: dict[str, tuple[str, str]] = {
    "regions": ("apps.tools.perceive.regions", "perceive_regions"),
    "change": ("apps.tools.perceive.change", "perceive_change"),
    "evidence": ("apps.tools.perceive.quality", "perceive_evidence"),
    "measurement": ("apps.tools.perceive.landmarks", "perceive_measurement"),
    "objects": ("apps.tools.perceive.objects", "perceive_objects"),
    "scene": ("apps.tools.perceive.scene", "perceive_scene"),
    "document": ("apps.tools.perceive.document", "perceive_document"),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a mode says of itself before it is used: kinds of result, the range of what it gives, and which scenes it is for. A
    mode without them is refused, as an operator is."""

    gives: tuple[str, ...]
    range: str
    applies_to: str


DECLARED: dict[str, Declared] = {
    "regions": Declared(("layer",), "a mask of 0 and 1; shares of it in 0…1; the index or band under it in its own range",
                        "scenes that have the bands which the index, band or class map names, up to 200 million pixels"),
    "change": Declared(("layer",), "a mask of 0 and 1; a length in units of the noise from 0 on, or a probability in 0…1",
                       "two scenes of one place with a band role in common and one unit, on one grid or with a CRS each"),
    "evidence": Declared(("table",), "shares in 0…1; statistics in the range of each band", "any scene with a valid pixel"),
    "measurement": Declared(("distance", "statistic"), "metres or pixels from 0 on; bearings in 0…360 degrees",
                            "two places on one scene; metres need a CRS or GSD, a bearing a CRS"),
    "objects": Declared(("layer",), "boxes inside the scene; scores and probabilities in 0…1; counts from 0 on",
                        "scenes whose GSD and bands the model or method was made for, which its card says"),
    "scene": Declared(("class",), "one of the asked labels or null; probabilities in 0…1 that add up to 1 with all else",
                      "scenes whose GSD, sensor and bands the classifier was made for, which its card says"),
    "document": Declared(("text",), "text with scores in 0…1; outlines inside the scene",
                         "pictures of up to 100 million pixels with letters of at least 8 pixels"),
}


def configuration_of(arguments: PerceiveArguments) -> Configuration:
    """What can be said before the mode has run: its name, and for regions the method."""
    if arguments.mode == "regions":
        from apps.tools.perceive.regions import configuration_of_regions

        return configuration_of_regions(arguments)
    if arguments.mode == "objects":
        detector = arguments.objects_method.detector if arguments.objects_method else "auto"
        return Configuration(coarse="objects", fine=f"objects/{detector}"[:240])
    return Configuration(coarse=arguments.mode, fine=arguments.mode)


def run_perceive(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """Runs the mode. ToolAbstainedError where this installation cannot serve it."""
    unknown = [s for s in arguments.image_paths if s not in {i.scene_id for i in ctx.question.scenes}]
    if unknown:
        raise ModelError(f"The question has no scene {', '.join(unknown)}.", code="NOT_FOUND")
    module, name = MODES[arguments.mode]
    try:
        run = cast(Callable[[ToolContext, PerceiveArguments], ToolOutcome], getattr(importlib.import_module(module), name))
    except ModuleNotFoundError as error:
        raise ToolAbstainedError(f"perceive cannot serve the mode {arguments.mode} in this installation: "
                                 f"{error.name} is missing.", code="MODEL_MISSING", needs={"mode": arguments.mode}) from error
    declared = DECLARED.get(arguments.mode)
    if declared is None or not (declared.range and declared.applies_to):
        raise FaultError(f"the mode {arguments.mode} declares neither range nor applicability")
    outcome = run(ctx, arguments)
    if outcome.result.kind not in declared.gives:
        raise FaultError(f"the mode {arguments.mode} gave a {outcome.result.kind}, which it does not declare")
    evidence = outcome.evidence
    told = evidence.model_copy(update={
        "source": {**evidence.source, "declared_range": declared.range},
        "validity": {**evidence.validity, "applies_to": declared.applies_to}})
    return replace(outcome, evidence=told)


def only_scene(arguments: PerceiveArguments) -> str:
    """The one scene of a mode that looks at one image. ModelError where there are more."""
    if len(arguments.image_paths) != 1:
        raise ModelError(f"The mode {arguments.mode} looks at one image a call; {len(arguments.image_paths)} were given.",
                         code="BAD_ARGUMENT")
    return arguments.image_paths[0]
