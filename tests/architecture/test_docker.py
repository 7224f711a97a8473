"""What can be checked of the images and the compose file without a Docker engine."""

import ast
import re
import shlex
from typing import Any

import pytest
import yaml
from django.conf import settings

from tests.architecture.imports import python_files
from tests.shared import ROOT

FOLDER = ROOT / "docker"
# Read by the images of others, not by us.
FOREIGN = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}
OF_PYTHON = re.compile(r"^(PYTHON|PIP_)")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((FOLDER / "compose.yaml").read_text()))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(compose["services"])


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (FOLDER / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines]


def _variables_read() -> set[str]:
    """Names that our code reads from the environment: env.<type>("NAME") and os.environ."""
    names = set()
    for file in python_files(ROOT, "apps", "rsure_web"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                function = ast.unparse(node.func)
                if function.startswith("env.") or function in ("os.environ.get", "os.environ.setdefault"):
                    names.add(str(node.args[0].value))
    return names


def test_services_are_those_of_the_design(services: dict[str, dict[str, Any]]) -> None:
    assert {"web", "worker-light", "worker-raster", "worker-vision", "postgis", "redis"} <= set(services)


def test_every_variable_is_one_that_the_code_reads(
    services: dict[str, dict[str, Any]], instructions: list[tuple[str, str]]
) -> None:
    used = {name for service in services.values() for name in service.get("environment", {})}
    for keyword, rest in instructions:
        if keyword == "ENV":
            used |= {part.partition("=")[0] for part in shlex.split(rest)}
    ours = {name for name in used - FOREIGN if not OF_PYTHON.match(name)}
    assert ours <= _variables_read()
    assert {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ALLOWED_HOSTS"} <= ours


def test_every_substituted_variable_is_in_the_example() -> None:
    substituted = set(re.findall(r"\$\{(\w+)", (FOLDER / "compose.yaml").read_text()))
    lines = (FOLDER / "example.env").read_text().splitlines()
    assert substituted == {line.partition("=")[0] for line in lines if "=" in line and not line.startswith("#")}


def test_referenced_things_exist(
    compose: dict[str, Any], services: dict[str, dict[str, Any]], instructions: list[tuple[str, str]]
) -> None:
    stages = {rest.split()[-1] for keyword, rest in instructions if keyword == "FROM"}
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"]
        if "build" in service:
            context = (FOLDER / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]).is_file()
            assert service["build"]["target"] in stages
    for keyword, rest in instructions:
        if keyword == "COPY":
            for source in shlex.split(rest)[:-1]:
                assert (ROOT / source).exists(), source


def test_what_is_copied_is_not_ignored(instructions: list[tuple[str, str]]) -> None:
    kept = {line[1:] for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = {part for keyword, rest in instructions if keyword == "COPY" for part in shlex.split(rest)[:-1]}
    assert copied == kept


def test_workers_serve_every_queue_and_know_it(services: dict[str, dict[str, Any]]) -> None:
    served = set()
    for name, service in services.items():
        if name.startswith("worker-"):
            command = service["command"]
            queues = command[command.index("--queues") + 1]
            assert service["environment"]["RSURE_QUEUES"] == queues
            served |= set(queues.split(","))
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()}
    assert served == routed | {settings.CELERY_TASK_DEFAULT_QUEUE}


def test_static_files_lie_outside_the_volume(services: dict[str, dict[str, Any]], instructions: list[tuple[str, str]]) -> None:
    """A volume keeps what the first image put there: static files in it would never be renewed."""
    values: dict[str, str] = {}
    for keyword, rest in instructions:
        if keyword == "ENV":
            values |= dict(part.split("=", 1) for part in shlex.split(rest))
    mounts = {volume.split(":")[1] for volume in services["web"]["volumes"]}
    assert values["RSURE_HOME"] in mounts
    assert not values["RSURE_STATIC_ROOT"].startswith(values["RSURE_HOME"])


def test_programs_of_the_commands_are_required() -> None:
    requirements = (ROOT / "requirements.txt").read_text()
    assert re.search(r"^uvicorn", requirements, re.MULTILINE)
    assert re.search(r"^celery", requirements, re.MULTILINE)
