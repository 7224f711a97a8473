"""The database itself refuses to change or delete an event of the prior (TRUNCATE of a test database stays possible)."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION prior_event_refuse() RETURNS trigger AS $$
BEGIN
    RAISE EXCEPTION 'the log of the prior is append-only';
END
$$ LANGUAGE plpgsql;
CREATE TRIGGER prior_event_append_only BEFORE UPDATE OR DELETE ON prior_priorevent
    FOR EACH ROW EXECUTE FUNCTION prior_event_refuse();
"""
BACKWARD = """
DROP TRIGGER prior_event_append_only ON prior_priorevent;
DROP FUNCTION prior_event_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("prior", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
