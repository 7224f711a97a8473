"""Which packages are installed here, for the headers of runs and the provenance of observations."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=8)
def installed_versions(*names: str) -> dict[str, str]:
    """Name → version of those that are installed; the others are left out."""
    out = {}
    for name in names:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out
