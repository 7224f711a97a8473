"""``manage.py sample_ask``: one question on the sample project, answered here; nothing is done twice."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.selectors import sample_project
from apps.imagery.models import Scene
from apps.runs import selectors, services
from apps.runs.models import Run

SCENE = "geopandas_s2a_l2a_fishbourne"
QUESTION = "How many hectares have NDVI above 0.4?"


class Command(BaseCommand):
    help = "Asks the sample question of the sample project, once."

    def handle(self, *args: Any, **options: Any) -> None:
        project = sample_project()
        if project is None:
            raise CommandError("There is no sample project: run sample_load first.", returncode=2)
        run = Run.objects.filter(project=project, is_sample=True, question_text=QUESTION).first()
        if run is None:
            scene = Scene.objects.filter(project=project, status=Scene.READY, name__startswith=SCENE).first()
            if scene is None:
                raise CommandError(f"The scene {SCENE} of the sample project is not ready.", returncode=2)
            run = services.run_start(user=None, project=project, text=QUESTION, scenes=[scene], is_sample=True, enqueue=False)
        services.run_execute_now(run_id=run.pk)
        answer = selectors.run_state(run.pk).answer
        if answer is None:
            raise CommandError("The sample question got no answer; its run page says why.")
        self.stdout.write(f"Sample question: {QUESTION} {answer.text}")
