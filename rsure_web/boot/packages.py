"""The virtual environment: made once, filled from the pinned requirements, refilled when they change."""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import system
from .console import SetupError, say
from .paths import PYTHON, ROOT, VENV, home_path
from .processes import die_with_parent

REQUIREMENTS = ROOT / "requirements.txt"
REQUIREMENTS_ML = ROOT / "requirements-ml.txt"


@contextmanager
def _locked() -> Iterator[None]:
    """One set-up at a time in this checkout; a second one waits."""
    with (home_path() / "setup.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest(*paths: Path) -> str:
    text = f"{sys.version_info[:2]}" + "".join(path.read_text() for path in paths)
    return hashlib.sha256(text.encode()).hexdigest()


def _stamp(name: str) -> Path:
    return VENV / f".rsure-{name}"


def _is_stamped(name: str, digest: str) -> bool:
    path = _stamp(name)
    return PYTHON.exists() and path.exists() and path.read_text() == digest


def _pip(arguments: list[str], *, log: Path) -> None:
    """Runs pip in the venv; its new steps go to standard error, all of it to `log`."""
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        *arguments,
    ]
    for attempt in (1, 2):
        with (
            log.open("w") as file,
            subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                preexec_fn=die_with_parent,  # nobody else may find it still at work
            ) as process,
        ):
            assert process.stdout is not None
            collected = 0
            for line in process.stdout:
                file.write(line)
                collected += line.startswith("Collecting ")
                if line.startswith("Collecting ") and collected % 25 == 0:
                    say(f"  {collected} packages found ...", is_progress=True)
                elif line.startswith("Installing "):
                    say(f"  {collected} packages found, unpacking ...", is_progress=True)
        if process.returncode == 0:
            return
        if attempt == 1:
            say("pip failed; trying once more ...")
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
    raise SetupError(f"pip could not install the packages (whole log: {log}):\n{tail}")


def _venv_make() -> None:
    works = (
        PYTHON.exists()
        and subprocess.run(
            [PYTHON, "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    if works:
        return
    say(f"making the virtual environment {VENV.name} ...", is_progress=True)
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode and system.can_install():
        system.apt_install("python3-venv")
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        detail = (answer.stdout + answer.stderr).strip()
        raise SetupError(
            f"python -m venv failed. On Debian it needs the package python3-venv "
            f"(as root: apt-get install python3-venv).\n{detail}"
        )


def packages_ensure() -> None:
    """Makes the venv and installs requirements.txt; does nothing when that has been done.

    Raises:
        SetupError: no venv could be made, or pip failed twice.
    """
    digest = _digest(REQUIREMENTS)
    if _is_stamped("requirements", digest):
        return
    with _locked():
        if _is_stamped("requirements", digest):
            return
        _venv_make()
        say("installing packages (about a minute on a fresh machine) ...")
        _pip(["-r", str(REQUIREMENTS)], log=home_path() / "pip.log")
        _stamp("requirements").write_text(digest)
        say("packages are installed.")


def has_ml() -> bool:
    """Whether torch and ultralytics are installed whole (pip writes a package's RECORD last)."""
    names = ("torch", "ultralytics")
    return all(any(VENV.glob(f"lib/python3*/site-packages/{name}-*.dist-info/RECORD")) for name in names)


def ml_ensure() -> None:
    """Installs torch and ultralytics (minutes, gigabytes) without moving any pinned light package.

    Raises:
        SetupError: pip failed, or OpenCV cannot be loaded and its headless form neither.
    """
    digest = _digest(REQUIREMENTS_ML)
    if _is_stamped("requirements-ml", digest):
        return
    with _locked():
        if _is_stamped("requirements-ml", digest):
            return
        home = home_path()
        frozen = subprocess.run([PYTHON, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
        constraints = home / "constraints-ml.txt"
        # What runs already must not change under the running processes.
        kept = [line for line in frozen.splitlines() if "==" in line and not line.startswith("-")]
        constraints.write_text("\n".join(kept) + "\n")
        _pip(["-r", str(REQUIREMENTS_ML), "-c", str(constraints)], log=home / "pip-ml.log")
        _opencv_mend(home)
        _stamp("requirements-ml").write_text(digest)


def _opencv_mend(home: Path) -> None:
    """Takes the headless OpenCV where the one that ultralytics asks for finds no libGL (a bare server)."""
    if subprocess.run([PYTHON, "-c", "import cv2"], capture_output=True, check=False).returncode == 0:
        return
    shown = subprocess.run([PYTHON, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    version = next((line.split("==")[1] for line in shown.splitlines() if line.startswith("opencv-python==")), None)
    subprocess.run([PYTHON, "-m", "pip", "uninstall", "-y", "opencv-python"], capture_output=True, check=False)
    _pip(
        [f"opencv-python-headless=={version}" if version else "opencv-python-headless"],
        log=home / "pip-ml.log",
    )


def command_environment() -> dict[str, str]:
    """`environment` for a command that a person waits for: only what matters is logged, for eyes to read."""
    return {"LOG_LEVEL": "WARNING", "LOG_FORMAT": "plain"} | environment()


def environment() -> dict[str, str]:
    """The environment of a process in the venv: ours, less what would misdirect GDAL and PROJ."""
    env = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PROJ_DATA", "PROJ_LIB", "GDAL_DATA", "PYTHONHOME", "PYTHONPATH")
    }
    env["VIRTUAL_ENV"] = str(VENV)
    env["PATH"] = f"{VENV / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    env["DJANGO_SETTINGS_MODULE"] = "rsure_web.settings"
    env["RSURE_HOME"] = str(home_path())
    return env
