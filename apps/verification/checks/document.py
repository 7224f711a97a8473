"""``docs/checks.md`` from the code: ``python -m apps.verification.checks.document > docs/checks.md``."""

from __future__ import annotations

import sys

from apps.core.evidence.decision import FAMILIES
from apps.verification.checks import Limits, in_order
from apps.verification.policy import Policy

INTRO = """# Rule checks

Made from the code by `python -m apps.verification.checks.document > docs/checks.md`; a test keeps it current.

A check reads one observation, its evidence, its question, the verified history and, through read-only doors, the result's layers
and the source's pixels. It never calls the code of a tool. Its outcome is passed, failed, inconclusive (the evidence that it
needs is missing), not applicable, or errored (it crashed; that counts as inconclusive). A failed check that **blocks** rejects
the observation; an inconclusive one asks for the evidence by its JSON pointer. A check that **warns** only enters the verifier's
probability: so it is for what good observations show too.
"""

# Each check has an example that it passes and one that it catches (tests/unit/verification/test_checks.py, which counts them).
# Checks of which one was made over pixels that are no window of a shipped file, and why.
DRAWN_PIXELS: dict[str, str] = {
    "geometry.pan_lies_on_bands": "no file with a panchromatic band ships: fields made coarse, and the mean of their fine bands",
    "geometry.mask_grows_alike": "no mask from marks on the files that ship comes out so alike: a drawn disc with noise does",
    "geometry.native_pixels_told": "no stack of several resolutions ships: near infrared as means of 2 × 2 pixels, each repeated",
    "consistency.shift_matches_source": "the second image is the first one, put a known shift away",
    "geometry.shift_believable": "the second image is the first one, put a known shift away",
    "plausibility.picture_more_than_noise": "the pixels of the second picture are those of the first in random order",
}
# Checks of which one is written out over such a window, not made by a tool of the project, and why.
_WEIGHTS = "needs a detector with weights and tiles; its boxes are the picture's labels, the rest of its record is written out"
WRITTEN_OUT: dict[str, str] = {
    "completeness.every_tile_processed": _WEIGHTS,
    "consistency.class_is_the_likeliest": "needs a classifier with weights; its record is written out",
    "consistency.kind_as_on_record": "needs a classifier with weights; its record is written out",
    "consistency.kind_matches_look": "needs a classifier with weights; its record is written out",
    "consistency.probabilities_are_the_models": "needs a classifier with weights; its record is written out",
    "plausibility.gsd_known_to_model": _WEIGHTS,
    "provenance.weights_known": _WEIGHTS,
}

# What of an operator's result no check follows when it is falsified after the tool ran (tests/unit/verification/
# test_operator_faults.py runs every operator), and why.
_PICTURE = "pictures are for the eye and are not read back; what they show stands in their record, which is checked"
NOT_FOLLOWED: dict[tuple[str, str], str] = {
    ("image.annotate", "layer"): _PICTURE,
    ("image.colours", "layer"): _PICTURE,
    ("image.chart", "layer"): _PICTURE,
}


def _operators() -> list[str]:
    text = """\
## Results of operators

A test runs every operator of `execute` and falsifies its result after the tool ran: the value (and the copy of it in the record
of its node), an item, a layer, and a layer together with its figures on record. Of each, some check fails. What none follows:
"""
    rows = (f"| {op} | {what} | {_cell(why)} |" for (op, what), why in sorted(NOT_FOLLOWED.items()))
    return [*text.split("\n"), "| operator | part | why |", "| --- | --- | --- |", *rows, ""]


def _examples(names: set[str]) -> list[str]:
    n = len(names)
    drawn, written = ({k: v for k, v in held.items() if k in names} for held in (DRAWN_PIXELS, WRITTEN_OUT))
    text = f"""\
## Examples

Each check is tested with an observation that it passes and one that it catches. For {n - len(drawn)} of {n} checks both
lie over windows of real imagery that ships with the project (Sentinel-2, Landsat 7 and 8, MODIS, aerial pictures; a test compares
the pixels with the files). For {n - len(written)} of {n} both come from the project's own tools, the second mostly with one
thing in it falsified. Rectangles, cars, roofs, road and island were drawn by hand on the pictures, and two files without a date
(Sentinel-2, Landsat 8) were given one. The others:
"""
    lines = [*text.split("\n"), "| check | why |", "| --- | --- |"]
    return [*lines, *(f"| {name} | {_cell(why)} |" for name, why in sorted({**drawn, **written}.items())), ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def render() -> str:
    """The document as Markdown."""
    checks = in_order()
    lines = [INTRO, f"{len(checks)} checks in {len(FAMILIES)} families.", ""]
    for family in FAMILIES:
        lines += [
            f"## {family}",
            "",
            "| check | severity | what it says | made for | reads | limits |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for c in checks:
            if c.family == family:
                reads = ", ".join(f"`{r}`" for r in c.reads)
                limits = ", ".join(f"`{x}`" for x in c.limits)
                lines.append(
                    f"| {c.name.split('.')[1]} | {c.severity} | {_cell(c.meaning)} | {_cell('; '.join(c.catches))} | {reads} | "
                    f"{limits} |"
                )
        lines.append("")
    lines += _examples({c.name for c in checks})
    lines += _operators()
    lines += ["## Limits", "", "| field | default | meaning |", "| --- | --- | --- |"]
    for name, field in Limits.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = ", ".join(f"{k} {v[0]:g}–{v[1]:g}" for k, v in default.items()) if isinstance(default, dict) else f"{default}"
        lines.append(f"| `{name}` | {_cell(shown)} | {_cell(field.description or '')} |")
    policy = Policy()
    lines += ["", "## Policy", "", f"`{policy.label}`", "", "| field | default | meaning |", "| --- | --- | --- |"]
    for name, field in Policy.model_fields.items():
        lines.append(f"| `{name}` | {field.default} | {_cell(field.description or '')} |")
    lines += [
        "",
        f"Accept at {policy.accept_at:g} and above, reject at {policy.reject_at:g} and below; between, asking is cheapest.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(render())
