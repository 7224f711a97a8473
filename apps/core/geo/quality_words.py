"""What quality bands and their flags are called where people read of them; the names in records stay those of the schemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCHEME_WORDS: Mapping[str, str] = {
    "sentinel2_scl": "Sentinel-2’s scene classification",
    "landsat_c2": "Landsat’s quality band (Collection 2)",
    "landsat_c1": "Landsat’s quality band (Collection 1)",
    "landsat_precollection": "Landsat’s quality band (before collections)",
    "modis_state_1km": "MODIS’ state flags",
    "mod13_reliability": "MODIS’ pixel reliability",
    "sentinel2_qa60": "Sentinel-2’s cloud mask QA60",
}
# The scheme that tells how sure its clouds are; of them the surest alone are taken.
_SURE = frozenset({"landsat_precollection"})


def flags_text(flags: Sequence[str], scheme: str) -> str:
    """``cloud of high confidence by Landsat’s quality band (before collections)``: what is taken out, in the words of people."""
    named = [f.replace("_", " ") + (" of high confidence" if scheme in _SURE and f != "fill" else "") for f in flags]
    listed = ", ".join(named[:-1]) + (" and " if len(named) > 1 else "") + "".join(named[-1:])
    return f"{listed} by {SCHEME_WORDS.get(scheme, scheme)}"


def quality_text(record: str) -> str:
    """``cloud, shadow by landsat_c2`` of a record in the words of people; a record of another form as it is."""
    flags, by, scheme = record.rpartition(" by ")
    return flags_text(flags.split(", "), scheme) if by and scheme in SCHEME_WORDS else record
