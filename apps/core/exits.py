"""Exit statuses of the commands, and how an error leaves a command: what, why, what to do; never a traceback for bad input."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from apps.core.errors import UserError
from apps.core.ids import new_id

EXIT_DONE, EXIT_FAULT, EXIT_BAD_INPUT, EXIT_ABSTAINED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
log = logging.getLogger(__name__)


def guarded(work: Callable[[], int], options: Mapping[str, Any]) -> int:
    """Runs a command's work; a UserError becomes status 2 with its three sentences (and an object on stdout for ``--json``).

    So does what the system refuses of a path that the person gave (too long, not readable, not writable, a folder), and a word
    that is no text. Anything else is a fault: status 1 with an id, its traceback in the log. ``options`` are the command's own;
    ``json`` or ``as_json`` among them asks for the object.
    """
    try:
        _check_texts(options)
        return work()
    except UserError as error:
        return _told(error, options)
    except BrokenPipeError:
        return EXIT_DONE
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        refused = _refused_path(error, options)
        if refused is not None:
            return _told(refused, options)
        error_id = new_id()
        log.exception("command failed (%s)", error_id)
        print(f"A fault of ours stopped the command ({error_id}); the log above holds its cause.", file=sys.stderr)
        return EXIT_FAULT


def _told(error: UserError, options: Mapping[str, Any]) -> int:
    if options.get("json") or options.get("as_json"):
        print(_escaped(json.dumps({"error": error.as_json()}, ensure_ascii=False)))
    print(_escaped(f"{error.code}: {error.what}\n  Why: {error.why}\n  What to do: {error.fix}"), file=sys.stderr)
    return EXIT_BAD_INPUT


def _escaped(text: str) -> str:
    """The text with the odd bytes of a name that is no UTF-8 as escapes, which JSON reads too."""
    return text.encode(errors="backslashreplace").decode()


def _given(options: Mapping[str, Any]) -> Iterator[tuple[str, str | Path]]:
    """(name of the option, word) of all words that the person gave, lists taken apart."""

    def words(value: Any) -> Iterator[str | Path]:
        if isinstance(value, str | Path):
            yield value
        elif isinstance(value, list | tuple):
            for one in value:
                yield from words(one)

    for name, value in options.items():
        for word in words(value):
            yield name, word


def _check_texts(options: Mapping[str, Any]) -> None:
    """UserError BAD_ARGUMENT for what no text can hold: a NUL character, or bytes that are no UTF-8, unless they name a file,
    which may have any name."""
    for name, word in _given(options):
        if isinstance(word, Path) or not any("\ud800" <= c <= "\udfff" or c == "\0" for c in word) or os.path.lexists(word):
            continue
        raise UserError(
            "BAD_ARGUMENT",
            f"What was given for “{name.replace('_', '-')}” is no text.",
            "It holds a NUL character." if "\0" in word else "Its bytes are no UTF-8.",
            "Write it in UTF-8, which a terminal does where the locale says so (LANG=C.UTF-8).",
        )


def _refused_path(error: Exception, options: Mapping[str, Any]) -> UserError | None:
    """What the person is told where the system refused a path that was given, or one below it; None for other failures."""
    if not isinstance(error, OSError):
        return None
    for path in (error.filename, error.filename2):
        if not isinstance(path, str | bytes | os.PathLike):
            continue
        name = os.fsdecode(path)
        for _, word in _given(options):
            whole = os.fspath(word)
            if whole and (name == whole or name.startswith(whole.rstrip(os.sep) + os.sep)):
                shown = os.path.basename(name)
                return UserError(
                    "UNREADABLE",
                    f"“{shown if len(shown) <= 80 else shown[:77] + '…'}” cannot be used.",
                    f"{error.strerror or 'The system refused it'}.",
                    "Check the path, and that it is yours to read or write.",
                )
    return None
