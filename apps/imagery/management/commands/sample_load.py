"""``manage.py sample_load``: the sample project with its imagery; nothing is done twice."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from apps.imagery.sample import sample_load


class Command(BaseCommand):
    help = "Loads the sample project and its imagery."

    def handle(self, *args: Any, **options: Any) -> None:
        tell = (lambda name: self.stdout.write(f"  {name}")) if options["verbosity"] > 1 else (lambda name: None)
        project, n = sample_load(tell=tell)
        self.stdout.write(f"Sample project “{project.name}”: {n} scene{'s' if n != 1 else ''} added.")
