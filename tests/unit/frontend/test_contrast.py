"""Contrast of ink on ground in both themes, from the tokens themselves (WCAG 2.2, 1.4.3 and 1.4.11)."""

import re

import pytest

from tests.shared import ROOT

TOKENS = (ROOT / "frontend" / "css" / "tokens.css").read_text()

# ink, ground, least ratio: 4.5 for text, 3 for controls, icons and plot lines
TEXT = [
    ("text", "bg"),
    ("text", "surface"),
    ("text", "surface-2"),
    ("text", "surface-3"),
    ("text", "hover"),
    ("text", "accent-soft"),
    ("text-2", "bg"),
    ("text-2", "surface"),
    ("text-2", "surface-2"),
    ("text-2", "surface-3"),
    ("text-2", "accent-soft"),
    ("text-3", "bg"),
    ("text-3", "surface"),
    ("text-3", "surface-2"),
    ("text-3", "surface-3"),
    ("accent-text", "surface"),
    ("accent-text", "bg"),
    ("accent-text", "accent-soft"),
    ("on-accent", "accent"),
    ("on-accent", "accent-hover"),
    ("dec-accept", "dec-accept-bg"),
    ("dec-ask", "dec-ask-bg"),
    ("dec-reject", "dec-reject-bg"),
    ("ver-right-on", "ver-right"),
    ("ver-wrong-on", "ver-wrong"),
    ("ver-unsure-on", "ver-unsure"),
    ("ver-none", "surface"),
    ("ver-none", "accent-soft"),
    ("chk-pass", "surface"),
    ("chk-fail", "surface"),
    ("chk-fail", "chk-fail-bg"),
    ("chk-open", "surface"),
    ("chk-open", "chk-open-bg"),
    ("chk-na", "surface"),
    ("chk-err", "surface"),
    ("chk-err", "chk-err-bg"),
    ("sev-ok", "surface"),
    ("sev-ok", "sev-ok-bg"),
    ("sev-warn", "surface"),
    ("sev-warn", "sev-warn-bg"),
    ("sev-block", "surface"),
    ("sev-block", "sev-block-bg"),
    ("map-ink", "map-canvas"),
    ("map-ink", "map-land"),
    *((f"ramp-ink-{step}", f"ramp-{step}") for step in range(6)),
    ("surface", "text"),  # toast
]
GRAPHICS = [
    ("line-ctl", "surface"),
    ("line-ctl", "bg"),
    ("accent", "surface"),
    ("accent", "bg"),
    ("plot-1", "surface"),
    ("plot-2", "surface"),
    ("ver-right", "surface"),
    ("ver-wrong", "surface"),
    ("ver-unsure", "surface"),
]


def block(theme: str) -> dict[str, str]:
    light = TOKENS.split(":root{", 1)[1].split("\n}", 1)[0]
    values = dict(re.findall(r"--([\w-]+):(#[0-9a-fA-F]{3,8})", light))
    if theme == "dark":
        dark = TOKENS.split(':root[data-theme="dark"]{', 1)[1].split("\n}", 1)[0]
        values |= dict(re.findall(r"--([\w-]+):(#[0-9a-fA-F]{3,8})", dark))
    return values


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    if len(digits) in (3, 4):
        digits = "".join(digit * 2 for digit in digits)
    channels = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ratio(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula_gives_known_ratios() -> None:
    assert ratio("#000", "#fff") == pytest.approx(21)
    assert ratio("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_is_legible(theme: str, ink: str, ground: str) -> None:
    values = block(theme)
    assert ratio(values[ink], values[ground]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), GRAPHICS)
def test_controls_and_lines_are_visible(theme: str, ink: str, ground: str) -> None:
    values = block(theme)
    assert ratio(values[ink], values[ground]) >= 3
