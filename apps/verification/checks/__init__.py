"""Rule checks: deterministic predicates over an observation, its evidence and its question, in seven families."""

from apps.verification.case import Case, Finding, LayerUnreadableError
from apps.verification.checks import (
    completeness,
    consistency,
    contract,
    densities,
    drawn,
    geometry,
    layers,
    outlines,
    places,
    plausibility,
    provenance,
    radiometry,
    tables,
    things,
    veils,
)
from apps.verification.checks.catalogue import CHECKS, Check, in_order, run_checks
from apps.verification.limits import Limits

CHECKS.freeze()

__all__ = [
    "CHECKS",
    "Case",
    "Check",
    "Finding",
    "LayerUnreadableError",
    "Limits",
    "completeness",
    "consistency",
    "contract",
    "densities",
    "drawn",
    "geometry",
    "in_order",
    "layers",
    "outlines",
    "places",
    "plausibility",
    "provenance",
    "radiometry",
    "run_checks",
    "tables",
    "things",
    "veils",
]
