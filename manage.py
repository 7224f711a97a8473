#!/usr/bin/env python
"""Django's entry point; also the command line (`ask`, `verify`, `evaluate`, `models`, `prior`, `bench`)."""

import os
import sys


def main() -> None:
    """Runs one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rsure_web.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
