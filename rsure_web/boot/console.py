"""Messages of `./rsure`: all on standard error, so that standard output carries results alone."""

import sys


class SetupError(Exception):
    """The set-up cannot go on.

    Attributes:
        status: exit status of the command line; 2 for what the person can mend, 1 for a fault of ours.
    """

    def __init__(self, message: str, *, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


_is_quiet = False


def set_quiet(*, is_quiet: bool) -> None:
    """Keeps progress lines back (a fast command that has nothing to set up prints none)."""
    global _is_quiet
    _is_quiet = is_quiet


def say(message: str, *, is_progress: bool = False) -> None:
    """Prints one line on standard error; a progress line only when not quiet."""
    if is_progress and _is_quiet:
        return
    print(f"rsure: {message}", file=sys.stderr, flush=True)
