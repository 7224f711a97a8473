"""Exit statuses of the commands, and how an error leaves a command: what, why, what to do; never a traceback for bad input."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable

from apps.core.errors import UserError
from apps.core.ids import new_id

EXIT_DONE, EXIT_FAULT, EXIT_BAD_INPUT, EXIT_ABSTAINED = 0, 1, 2, 3
log = logging.getLogger(__name__)


def guarded(work: Callable[[], int], *, as_json: bool = False) -> int:
    """Runs a command's work; a UserError becomes status 2 with its three sentences (and an object on stdout for ``--json``),
    anything else status 1 with an id, its traceback in the log."""
    try:
        return work()
    except UserError as error:
        if as_json:
            print(json.dumps({"error": error.as_json()}, ensure_ascii=False))
        print(f"{error.code}: {error.what}\n  Why: {error.why}\n  What to do: {error.fix}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        return EXIT_DONE
    except Exception:
        error_id = new_id()
        log.exception("command failed (%s)", error_id)
        print(f"A fault of ours stopped the command ({error_id}); the log above holds its cause.", file=sys.stderr)
        return EXIT_FAULT
