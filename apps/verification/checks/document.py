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
