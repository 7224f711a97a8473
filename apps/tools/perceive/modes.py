"""``perceive``: one door to its modes. Modes that cannot be served here abstain with a sentence."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from apps.core.errors import ModelError, ToolAbstainedError
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
    return run(ctx, arguments)


def only_scene(arguments: PerceiveArguments) -> str:
    """The one scene of a mode that looks at one image. ModelError where there are more."""
    if len(arguments.image_paths) != 1:
        raise ModelError(f"The mode {arguments.mode} looks at one image a call; {len(arguments.image_paths)} were given.",
                         code="BAD_ARGUMENT")
    return arguments.image_paths[0]
