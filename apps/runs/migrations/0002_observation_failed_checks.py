"""Names of failed checks beside each observation; of those that were decided before, from their events."""

from typing import Any

import django.contrib.postgres.fields
from django.contrib.gis.db import models
from django.db import migrations


def fill(apps: Any, schema_editor: Any) -> None:
    events, rows = apps.get_model("runs", "RunEvent"), apps.get_model("runs", "ObservationRow")
    for payload in (
        events.objects.filter(type="DecisionMade").order_by("run_id", "seq").values_list("payload", flat=True).iterator()
    ):
        failed = [c["check"] for c in payload.get("checks", []) if c.get("outcome") == "failed"]
        rows.objects.filter(pk=payload.get("observation_id")).update(failed_checks=failed)


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="observationrow",
            name="failed_checks",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=80),
                blank=True,
                default=list,
                help_text="names of failed checks",
                size=None,
            ),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
