"""Every command of `./rsure`, and every part of one, tells its own use."""

import argparse
from collections.abc import Iterator

import pytest
from django.core.management import load_command_class

COMMANDS = {
    "ask": "apps.runs",
    "verify": "apps.runs",
    "models": "apps.runs",
    "evaluate": "apps.evaluation",
    "bench": "apps.evaluation",
    "verifier": "apps.evaluation",
    "prior": "apps.prior",
}


def parsers_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from parsers_of(part)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_part_is_written_and_names_the_entry(name: str) -> None:
    parts = list(parsers_of(load_command_class(COMMANDS[name], name).create_parser("manage.py", name)))
    for part in parts:
        text = part.format_help()
        assert text.startswith("usage: rsure "), text[:80]
        assert "-h, --help" in text
    assert (len(parts) > 1) == (name in ("models", "evaluate", "verifier", "prior"))
