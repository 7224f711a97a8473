"""Numbers and words on the page never claim more than they are."""

import math
from typing import Any, Literal

import pytest
from django.template import Context, Template

from apps.core.evidence import CheckResult, Decision, PriorView
from apps.core.evidence.decision import Outcome, Severity
from rsure_web import presentation as page

NBSP = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (79670, "79,670"),
        (0.5303, "0.5303"),
        (302.354, "302.4"),
        (-0.218, "−0.218"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (True, "–"),
        (0, "0"),
        (61.0, "61"),
        (0.5, "0.5"),
        (1234567.89, "1,234,568"),
        (4.37e-7, "4.370e−07"),
        (-0.00001, "−1.000e−05"),
    ],
)
def test_number(value: Any, text: str) -> None:
    assert page.format_number(value) == text


def test_a_rounded_nothing_has_no_sign() -> None:
    assert page.format_number(-0.001, 2) == "0.00"


@pytest.mark.parametrize(
    ("value", "text"), [(0.864, ".86"), (1.0, ">.99"), (0.996, ">.99"), (0.0, "<.01"), (None, "–"), (0.5, ".50")]
)
def test_a_probability_is_never_certain(value: Any, text: str) -> None:
    assert page.probability(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0956, f"9.56{NBSP}%"),
        (1.0, f"100{NBSP}%"),
        (0.0, f"0{NBSP}%"),
        (0.00001, f"<{NBSP}0.01{NBSP}%"),
        (0.999999, f">{NBSP}99.99{NBSP}%"),
        (0.9995, f"99.95{NBSP}%"),
        (0.885, f"88.5{NBSP}%"),
        (None, "–"),
    ],
)
def test_share(value: Any, text: str) -> None:
    assert page.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, f"12{NBSP}ms"),
        (3.21, f"3.2{NBSP}s"),
        (95, f"1{NBSP}min 35{NBSP}s"),
        (7300, f"2{NBSP}h 1{NBSP}min"),
        (0.9999, f"1.0{NBSP}s"),
    ],
)
def test_seconds(value: Any, text: str) -> None:
    assert page.seconds(value) == text


def render(text: str, **values: object) -> str:
    return Template(text).render(Context(values))


def check(outcome: Outcome, severity: Severity = "block") -> CheckResult:
    return CheckResult(check="x", family="geometry", severity=severity, outcome=outcome, message="A sentence.")


def test_failures_come_first_blocking_before_warning() -> None:
    checks = [check("passed"), check("failed", "warn"), check("inconclusive"), check("failed", "block"), check("errored")]
    order = [(c.outcome, c.severity) for c in page.failures_first(checks)]
    assert order == [
        ("errored", "block"),
        ("failed", "block"),
        ("failed", "warn"),
        ("inconclusive", "block"),
        ("passed", "block"),
    ]


@pytest.mark.parametrize("decision", ["accept", "request_evidence", "reject"])
@pytest.mark.parametrize("verdict", [None, "accept", "reject", "unsure"])
def test_the_twelve_pairs_have_word_icon_and_colour(
    decision: Literal["accept", "request_evidence", "reject"], verdict: str | None
) -> None:
    html = render(
        '{% include "components/pair.html" %}',
        decision=Decision(decision=decision, stage="verifier", p_correct=0.86),
        verdict=verdict and {"value": verdict},
    )
    kind, word, _ = page.DECISIONS[decision]
    assert f'class="dec {kind}"' in html
    assert word in html
    assert "#i-chip" in html
    assert "#i-person" in html
    if verdict is None:
        assert 'class="ver none"' in html
        assert "No person yet" in html
    else:
        assert f'class="ver {page.VERDICTS[verdict][0]}"' in html
        assert page.VERDICTS[verdict][1] in html
    # the machine's word is never the person's and the other way round
    assert ("Right" in html) == (verdict == "accept")


def test_the_accept_of_the_machine_is_not_green() -> None:
    html = render('{% include "components/decision.html" %}', decision={"decision": "accept", "p_correct": 1.0})
    assert "ver" not in html.split(">")[0]
    assert "&gt;.99" in html


def test_an_unverified_decision_says_so() -> None:
    html = render('{% include "components/decision.html" %}', decision=Decision(decision="request_evidence", stage="unverified"))
    assert "unverified" in html


def test_a_prior_is_shown_whole() -> None:
    prior = PriorView(
        r_hat=0.66,
        interval=(0.51, 0.79),
        n=22,
        level="fine",
        version="128",
        task_type="object_counting",
        configuration="count/auto/regions",
    )
    html = render('{% include "components/prior.html" %}', prior=prior)
    for part in ("0.66", "0.51–0.79", "n = 22", "fine", "version 128", "90 % interval"):
        assert part in html
    assert 'x="66.00%"' in html


def test_few_outcomes_are_drawn_hollow() -> None:
    few = {"r_hat": 0.6, "interval": (0.3, 0.9), "n": 3}
    assert "iv thin" in render("{% prior_bar p %}", p=few)
    assert "iv thin" not in render("{% prior_bar p %}", p={**few, "n": 20})


def test_text_of_files_cannot_become_markup() -> None:
    html = render(
        '{% include "components/evidence_part.html" with title="Source" part=part %}', part={"sensor": "<script>x</script>"}
    )
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_the_map_configuration_cannot_leave_its_script_element() -> None:
    text = page.map_json({"name": "</script><script>alert(1)</script>&"})
    assert "<" not in text
    assert "&" not in text


def test_nothing_infinite_is_written_into_a_map() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        page.map_json({"bounds": [math.nan]})


def test_missing_evidence_is_marked() -> None:
    html = render('{% include "components/evidence_part.html" with title="V" part=part %}', part={"quality_mask": None})
    assert 'class="miss"' in html


def test_a_quality_mask_reads_as_what_it_hid() -> None:
    entry = {"scene": "s", "scheme": "landsat_c2", "flags": ["cloud", "shadow"], "n_px": 12, "of_px": 300, "share": 0.04}
    html = render('{% include "components/evidence_part.html" with title="V" part=part %}', part={"quality_mask": [entry]})
    assert "cloud, shadow by landsat_c2: 4.0% of 300 pixels hidden" in html
    html = render('{% include "components/evidence_part.html" with title="V" part=part %}', part={"quality_mask": ["by QA"]})
    assert "by QA" in html


def test_long_lists_are_cut_and_say_how_long_they_are() -> None:
    assert page.as_text(list(range(2000))).endswith("… 2,000 in all")


def test_an_empty_check_list_is_named() -> None:
    assert "No rule check applies" in render('{% include "components/check_table.html" %}', checks=[])


def test_a_sentence_keeps_its_dates_whole_and_is_escaped() -> None:
    assert page.prose("NDVI fell by -0.218 <b> from 2002-07-20 on") == (
        'NDVI fell by −0.218 &lt;b&gt; from <span class="nowrap">2002-07-20</span> on'
    )


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [("302.4", "ha", "302.4 ha"), ("14.7", "degree", "14.7°"), ("5", "1", "5"), ("5", None, "5"), ("5", "", "5")],
)
def test_a_figure_stands_before_its_unit(text: str, unit: str | None, told: str) -> None:
    assert page.in_unit(text, unit) == told


def test_a_range_is_not_broken_in_its_numbers_and_a_reason_is_told_in_words() -> None:
    (row,) = page.evidence_rows({"area": {"low": 0, "high": 51_100_000_000, "unit": "ha"}})
    assert (row["text"], row["is_figure"]) == ("0 to 51,100,000,000\N{NO-BREAK SPACE}ha", True)
    (row,) = page.evidence_rows({"slope": {"low": 0, "high": 90, "unit": "degree"}})
    assert row["text"] == "0 to 90°"
    assert page.reason_words("missed") == "Objects or area are missed"
