"""What an abstained answer lacks is said in the words of the command line, and only where an option can give it."""

import pytest

from apps.agent.answers import abstain
from apps.core.evidence.plan import Answer
from apps.runs.present import options_asked


@pytest.mark.parametrize(
    ("needs", "has_unknown_bands", "told"),
    [
        ({"roles": ["nir", "red"]}, True, ["--roles nir=N,red=N"]),
        ({"roles": ["nir"]}, False, []),
        ({"roles": ["nir"], "gsd_m": True}, True, ["--roles nir=N", "--gsd-m METRES"]),
        ({"dates": ["a.tif", "b.tif"]}, False, ["--acquired YYYY-MM-DD"]),
        ({"region": True}, False, ["--region FILE"]),
        ({"landmarks": ["A", "B"]}, False, ["--landmarks FILE"]),
        ({"crs": True}, True, []),
        ({"unit": "reflectance"}, False, ["--scale NUMBER --offset NUMBER --unit UNIT"]),
        ({"unit": ["DN", "reflectance"]}, False, ["--scale NUMBER --offset NUMBER --unit UNIT"]),
        ({"unit": "dB"}, False, []),
    ],
)
def test_what_is_lacking_is_said_as_options(needs: dict[str, object], has_unknown_bands: bool, told: list[str]) -> None:
    lines = options_asked(abstain("Something is missing.", "NEEDS_BANDS", needs=needs), has_unknown_bands=has_unknown_bands)
    assert len(lines) == len(told)
    assert all(line.startswith(f"  Say it with {option}") for line, option in zip(lines, told, strict=True))


def test_an_answer_lacks_nothing() -> None:
    assert options_asked(Answer(text="Mean NDVI is 0.530.", value=0.53, unit="1"), has_unknown_bands=True) == []
