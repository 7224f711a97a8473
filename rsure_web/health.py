"""/healthz: whether this process can reach what it needs."""

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


def has_database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True
    except DatabaseError:
        return False


def has_broker() -> bool:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when database and broker answer, else 503; tells which does not, and nothing else."""
    parts = {"database": has_database(), "broker": has_broker()}
    return JsonResponse({"ok": all(parts.values()), **parts}, status=200 if all(parts.values()) else 503)
