"""Settings, all from the environment; the defaults are those of a safe single machine.

| variable | type | default |
| --- | --- | --- |
| DATABASE_URL | postgis://... | the local PostgreSQL, database rsure |
| REDIS_URL | redis://, rediss:// or unix:// | the local Redis |
| RSURE_HOME | folder | .rsure in the checkout |
| RSURE_STATIC_ROOT | folder | static in RSURE_HOME; where collectstatic writes |
| SECRET_KEY | text | made once, kept in RSURE_HOME |
| DEBUG | bool | false |
| ALLOWED_HOSTS | list | localhost, 127.0.0.1, [::1] |
| CSRF_TRUSTED_ORIGINS | list | empty |
| RSURE_HTTPS | bool | false; true behind TLS: secure cookies, redirect, HSTS |
| RSURE_STAC | folder | none; STAC items (JSON) that asset.catalog looks through |
| RSURE_STAC_APIS | list | none; roots of STAC APIs (https://host/path) that asset.catalog may ask; no other host is asked |
| RSURE_SENSORS | file | none; JSON with sensors of one's own: band names, roles, scale, offset, unit, nodata (docs/ingest.md) |
| RSURE_NAMESPACE | text | rsure; prefix of all keys in Redis |
| LOG_LEVEL, LOG_FORMAT | text; json or plain | INFO, json |
| TASK_TIME_LIMIT_S | int | 1800 |
| UPLOAD_MAX_BYTES | int | 20 GiB |
| PROJECT_MAX_BYTES | int | 500 GiB; scenes and vector files of one project together |
| RSURE_TESTING, RSURE_TEST_SUFFIX | bool, text | of the test runner |
"""

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import environ
import rasterio

from apps.imagery.profiles import OWN_VARIABLE, codings_of_text
from apps.imagery.stac import StacApi

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent
RSURE_HOME = Path(env.str("RSURE_HOME", default=str(BASE_DIR / ".rsure"))).expanduser().resolve()
RSURE_HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
TESTING = env.bool("RSURE_TESTING", default=False)
RSURE_STAC = env.str("RSURE_STAC", default="")
RSURE_STAC_APIS = env.list("RSURE_STAC_APIS", default=[])
for url in RSURE_STAC_APIS:
    StacApi(url)  # an address that is none stops the start
RSURE_SENSORS = env.str("RSURE_SENSORS", default="")
if RSURE_SENSORS:
    # read once, and handed to the ingest process, which sees no file of ours
    own_sensors = Path(RSURE_SENSORS).read_text()
    codings_of_text(own_sensors)
    os.environ[OWN_VARIABLE] = own_sensors
NAMESPACE = env.str("RSURE_NAMESPACE", default="rsure")

# --- security


def _secret_key() -> str:
    """The key kept in RSURE_HOME, made on first use; a link makes it appear whole to concurrent processes."""
    path = RSURE_HOME / "secret_key"
    if not path.exists():
        draft = RSURE_HOME / f"secret_key.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        draft.unlink()
    return path.read_text()


SECRET_KEY = env.str("SECRET_KEY", default="") or _secret_key()
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
IS_HTTPS = env.bool("RSURE_HTTPS", default=False)

SECURE_SSL_REDIRECT = IS_HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if IS_HTTPS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if IS_HTTPS else None
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = IS_HTTPS
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"

# --- applications


INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.gis",
    "django.contrib.humanize",
    "channels",
    "leaflet",
    "rest_framework",
    "drf_spectacular",
    "apps.accounts",
    "apps.artifacts",
    "apps.imagery",
    "apps.prior",
    "apps.runs",
    "apps.review",
    "apps.evaluation",
]

AUTH_USER_MODEL = "accounts.User"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "rsure_web.security.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "rsure_web.failures.UserErrorMiddleware",
]

ROOT_URLCONF = "rsure_web.urls"
ASGI_APPLICATION = "rsure_web.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "rsure_web.security.csp_nonce",
                "rsure_web.presentation.page",
            ],
            "builtins": ["rsure_web.presentation", "rsure_web.panels"],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

# --- database


def _database() -> dict[str, Any]:
    """DATABASE_URL as Django wants it; the host may be a socket's folder, percent-encoded."""
    settings: dict[str, Any] = dict(env.db_url("DATABASE_URL", default="postgis:///rsure"))
    settings["ENGINE"] = "django.contrib.gis.db.backends.postgis"
    settings["HOST"] = unquote(settings.get("HOST") or "")
    suffix = env.str("RSURE_TEST_SUFFIX", default="")
    settings["TEST"] = {"NAME": f"test_rsure_{suffix}" if suffix else "test_rsure"}
    # The ASGI process has a thread a request: a connection kept by each would never be reused.
    settings["CONN_MAX_AGE"] = 0
    return settings


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# GeoDjango uses the GDAL and GEOS of rasterio's wheel, loaded above: one GDAL in the process.
_wheel_libraries = Path(rasterio.__file__).resolve().parent.parent / "rasterio.libs"
if _wheel_libraries.is_dir():
    GDAL_LIBRARY_PATH = str(next(_wheel_libraries.glob("libgdal*")))
    GEOS_LIBRARY_PATH = str(next(_wheel_libraries.glob("libgeos_c*")))
# Nothing that a raster file says may make GDAL read a URL or the files beside it.
os.environ["CPL_VSIL_CURL_ALLOWED_EXTENSIONS"] = ".none"
os.environ["GDAL_DISABLE_READDIR_ON_OPEN"] = "EMPTY_DIR"

# --- Redis: channel layer, broker, cache

REDIS_URL = env.str("REDIS_URL", default="redis://localhost:6379/0")

CHANNEL_LAYERS = {
    "default": {
        # The plain Redis layer drops messages to slow consumers.
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": NAMESPACE},
    },
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": NAMESPACE,
    },
}

TASK_TIME_LIMIT_S = env.int("TASK_TIME_LIMIT_S", default=1800)

CELERY_BROKER_URL = (
    "redis+socket://" + REDIS_URL.removeprefix("unix://").replace("?db=", "?virtual_host=")
    if REDIS_URL.startswith("unix://")
    else REDIS_URL
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Above the longest job: a task that outlives it would be delivered a second time while it runs.
    "visibility_timeout": 2 * TASK_TIME_LIMIT_S,
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    "global_keyprefix": f"{NAMESPACE}:",
}
CELERY_TASK_IGNORE_RESULT = True  # runs and their events are the record
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = TASK_TIME_LIMIT_S
CELERY_TASK_SOFT_TIME_LIMIT = TASK_TIME_LIMIT_S - 60
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "light"
# By capability: `vision` workers have torch, `raster` workers memory and disk, `light` ones neither.
CELERY_TASK_ROUTES = {
    "apps.imagery.tasks.*": {"queue": "raster"},
    "apps.runs.tasks.runs_resume": {"queue": "light"},
    "apps.runs.tasks.*": {"queue": "raster"},
    "apps.tools.tasks.*": {"queue": "vision"},
}
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # A run whose worker died is taken up again long before its message becomes visible again.
    "runs-resume": {
        "task": "apps.runs.tasks.runs_resume",
        "schedule": 10.0,
        "options": {"queue": "light", "expires": 10},
    },
    # A scene whose message the broker lost, or never got, is taken up again.
    "scenes-resume": {
        "task": "apps.imagery.tasks.scenes_resume",
        "schedule": 300.0,
        "args": (240.0,),
        "options": {"queue": "raster", "expires": 300},
    },
}
CELERY_BEAT_SCHEDULE_FILENAME = str(RSURE_HOME / "celerybeat-schedule")
CELERY_TIMEZONE = "UTC"

# --- files

STATIC_URL = "static/"
STATIC_ROOT = Path(env.str("RSURE_STATIC_ROOT", default=str(RSURE_HOME / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"] if (BASE_DIR / "static").is_dir() else []
WHITENOISE_USE_FINDERS = DEBUG or TESTING
WHITENOISE_AUTOREFRESH = DEBUG or TESTING
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG or TESTING
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
MEDIA_ROOT = RSURE_HOME / "media"  # nothing is served from it: artifacts go through views that check permission
ARTIFACTS_ROOT = RSURE_HOME / "artifacts"
UPLOADS_ROOT = RSURE_HOME / "uploads"
MODELS_ROOT = RSURE_HOME / "models"
UPLOAD_MAX_BYTES = env.int("UPLOAD_MAX_BYTES", default=20 * 2**30)
PROJECT_MAX_BYTES = env.int("PROJECT_MAX_BYTES", default=500 * 2**30)
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 2**20
FILE_UPLOAD_PERMISSIONS = 0o600

# --- language, time

LANGUAGE_CODE = "en-gb"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# --- libraries

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.api.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": [
        "rsure_web.failures.StrictJsonParser",
        "rest_framework.parsers.FormParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "rsure_web.failures.api_failure",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 50,
}
SPECTACULAR_SETTINGS = {"TITLE": "RSure Web", "VERSION": "1", "SERVE_INCLUDE_SCHEMA": False}
# No basemap service: the land outline is bundled.
LEAFLET_CONFIG = {"TILES": [], "RESET_VIEW": False, "ATTRIBUTION_PREFIX": ""}

# --- logging: structured, on standard error

LOG_LEVEL = env.str("LOG_LEVEL", default="INFO")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "rsure_web.log_records.JsonFormatter"},
        "plain": {"format": "{levelname} {name}: {message}", "style": "{"},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": env.str("LOG_FORMAT", default="json")},
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"level": LOG_LEVEL},
        "rasterio": {"level": "WARNING"},
        "PIL": {"level": "WARNING"},
        "numexpr": {"level": "WARNING"},
    },
}
