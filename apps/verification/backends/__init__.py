"""Verifier back ends behind one contract: ``calibrated`` (default, offline), ``vlm`` (opt-in), ``panel`` (several)."""

from apps.verification.backends.calibrated import CalibratedVerifier, ModelWeights, load_weights
from apps.verification.backends.contract import Opinion, Subject, Verifier, VerifierError
from apps.verification.backends.panel import PanelVerifier

__all__ = [
    "CalibratedVerifier",
    "ModelWeights",
    "Opinion",
    "PanelVerifier",
    "Subject",
    "Verifier",
    "VerifierError",
    "load_weights",
]
