"""The fault bench: real imagery × questions with known answers × injected tool faults × {none, verification, with prior}.

A faulty tool still says "ok" and hands over evidence as a real one would: faults sit in the reader, in the layer store, in what
the call does, or in what it reports. They are plug-ins: ``FAULTS.add(name, fault)`` before the registry is frozen.
"""

from apps.evaluation.faultbench import given_faults  # noqa: F401  registers its faults
from apps.evaluation.faultbench.faults import FAULTS, Fault

__all__ = ["FAULTS", "Fault"]
