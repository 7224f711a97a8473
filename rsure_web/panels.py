"""Tags by which a page of a lower floor shows what an upper one knows. Built in to every template, like presentation."""

from __future__ import annotations

from typing import Any

from django import template

from apps.accounts.models import User
from apps.evaluation.present import reliability_diagram
from apps.review.selectors import review_count
from apps.review.selectors import verifier_figures as figures

register = template.Library()


@register.simple_tag
def review_waiting(user: User) -> int:
    """How many observations wait for this person: the number beside Review."""
    return review_count(user)


@register.simple_tag
def verifier_figures() -> dict[str, Any]:
    """What people's verdicts say of the verifier: `{% verifier_figures as v %}` (apps.review.selectors)."""
    return figures()


@register.inclusion_tag("components/reliability.html")
def reliability_plot(bins: Any, plot_id: str, title: str = "Reliability diagram", what: str = "right") -> dict[str, Any]:
    """Predicted against observed by bin, with the number of each and, hidden, the table `ID-bins` with all figures.

    ``what`` names the observed share: that of the right, or of the wrong where the probability is one of being wrong.
    """
    return {"d": reliability_diagram(list(bins or ())), "id": plot_id, "title": title, "what": what or "right"}
