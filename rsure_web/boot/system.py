"""Packages of the operating system: PostgreSQL with PostGIS, Chromium, Python's venv.

As root on a Debian-like system they are installed; an ordinary user is told the exact package.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .console import SetupError, say

POSTGRES_ROOT = Path("/usr/lib/postgresql")
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _share_of(folder: Path) -> Path | None:
    try:
        answer = subprocess.run([folder / "pg_config", "--sharedir"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        # Debian puts pg_config in a package of its own; its layout is fixed.
        return Path("/usr/share/postgresql") / folder.parent.name
    return Path(answer.stdout.strip())


def postgres_find() -> Path | None:
    """The `bin` folder of the newest PostgreSQL that has PostGIS, or None."""
    candidates = []
    if POSTGRES_ROOT.is_dir():
        versions = [path for path in POSTGRES_ROOT.iterdir() if path.name.isdigit()]
        candidates = [path / "bin" for path in sorted(versions, key=lambda path: -int(path.name))]
    on_path = shutil.which("postgres")
    if on_path:
        candidates.append(Path(on_path).resolve().parent)
    for folder in candidates:
        share = _share_of(folder)
        has_all = all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres", "psql", "pg_isready"))
        if has_all and share is not None and (share / "extension" / "postgis.control").exists():
            return folder
    return None


def _os_release() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key: value.strip().strip('"') for key, value in pairs}


def postgis_package() -> str:
    """Name of the package that brings PostgreSQL with PostGIS on this system."""
    release = _os_release()
    known = {
        ("debian", "11"): 13,
        ("debian", "12"): 15,
        ("debian", "13"): 17,
        ("ubuntu", "22.04"): 14,
        ("ubuntu", "24.04"): 16,
        ("ubuntu", "26.04"): 18,
    }
    version = known.get((release.get("ID", ""), release.get("VERSION_ID", "")))
    if version is None and shutil.which("apt-cache"):
        answer = subprocess.run(["apt-cache", "pkgnames", "postgresql-"], capture_output=True, text=True, check=False)
        found = re.findall(r"^postgresql-(\d+)-postgis-3$", answer.stdout, re.MULTILINE)
        version = max(map(int, found), default=None)
    return f"postgresql-{version}-postgis-3" if version else "PostgreSQL (13 or newer) with PostGIS 3"


def can_install() -> bool:
    """Whether packages can be installed here: root, and apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(package: str) -> None:
    """Installs one package with apt-get.

    Raises:
        SetupError: apt-get failed; its last lines are in the message.
    """
    say(f"installing {package} with apt-get (about half a minute) ...")
    # RUNLEVEL=1 keeps the package from starting a server of its own; ours is another cluster.
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    options = ["-o", "DPkg::Lock::Timeout=300", "-q"]
    subprocess.run(["apt-get", *options, "update"], env=env, capture_output=True, check=False)
    answer = subprocess.run(
        ["apt-get", *options, "install", "-y", "--no-install-recommends", package],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if answer.returncode:
        tail = "\n".join(answer.stdout.splitlines()[-8:])
        raise SetupError(f"apt-get could not install {package}:\n{tail}")


def postgres_ensure() -> Path:
    """The `bin` folder of a PostgreSQL with PostGIS; installs it as root.

    Raises:
        SetupError: it is missing and cannot be installed here; the message names the package.
    """
    folder = postgres_find()
    if folder is not None:
        return folder
    package = postgis_package()
    if not can_install():
        raise SetupError(
            f"PostgreSQL with PostGIS is missing. Install it (as root: apt-get install {package}) "
            "or set DATABASE_URL to a PostGIS database, then run this command again."
        )
    apt_install(package)
    folder = postgres_find()
    if folder is None:
        raise SetupError(f"{package} was installed, but no PostGIS was found under {POSTGRES_ROOT}.", status=1)
    return folder


def chromium_find() -> str | None:
    """Path of a Chromium, or None."""
    given = os.environ.get("RSURE_CHROMIUM")
    if given:
        return given
    return next((path for path in map(shutil.which, CHROMIUM_NAMES) if path), None)


def chromium_ensure() -> str | None:
    """Path of a Chromium for the browser tests; installed as root, else None with a message."""
    path = chromium_find()
    if path is None and can_install():
        apt_install("chromium")
        path = chromium_find()
    if path is None:
        say("Chromium is missing: browser tests will be skipped. As root: apt-get install chromium")
    return path
