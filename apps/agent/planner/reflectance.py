"""Reflectance asked for by its name: of bands whose numbers are stored ones it is none until their scale is known."""

from __future__ import annotations

import re
from typing import Any

from apps.agent.planner.lexicon import STAND_INS, lexicon
from apps.core.evidence.plan import Question

_WORD = r"(?:(?:surface|top[- ]of[- ]atmosphere|toa) )?reflectances?"


def _words_of(role: str) -> str:
    """The words of a band, with or without "band" and "reflectance"."""
    bare = {re.sub(r" (?:band|reflectance)$", "", w) for w in lexicon().bands[role].words}
    return "|".join(re.escape(w) for w in sorted(bare, key=lambda w: (-len(w), w)))


def band_first(text: str) -> str:
    """'the reflectance of the red band' → 'the red reflectance'."""
    roles = "|".join(_words_of(role) for role in lexicon().bands)
    return re.sub(
        rf"\b{_WORD} (?:of|in|for) (?:the )?(?P<band>{roles})(?: band| channel)?(?![\w\-])",
        r"\g<band> reflectance",
        text,
        flags=re.I,
    )


def reflectance_untold(question: Question) -> tuple[str, dict[str, Any]] | None:
    """Why the reflectance that a question names can't be told, and what is needed; None where it can, or none is named."""
    text = band_first(question.text.lower())
    for role in lexicon().bands:
        if not re.search(rf"(?<![\w\-])(?:{_words_of(role)}) (?:band )?{_WORD}\b", text):
            continue
        for scene in question.scenes:
            for band in (b for r in (role, *STAND_INS.get(role, ())) for b in scene.bands_with_role(r)):
                if not band.unit.startswith("reflectance"):
                    title = lexicon().bands[role].title
                    why = (
                        f"Reflectance is asked for, and {title} of {scene.name} is in {band.unit or 'no unit that is known'}. "
                        "Say its scale and offset and that its unit is reflectance; of the numbers as they are stored ask “the "
                        f"mean of {title}”."
                    )
                    return why, {"unit": "reflectance", "scene": scene.scene_id}
    return None
