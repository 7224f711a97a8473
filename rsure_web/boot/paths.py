"""Where things lie: the checkout, its state folder, and the folder of its embedded services."""

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from .console import SetupError

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"

# A socket's address holds 108 bytes with its end mark; PostgreSQL also writes `.s.PGSQL.5432.lock` beside it.
SOCKET_PATH_LIMIT = 100


@dataclass(frozen=True)
class Places:
    """Folders of one checkout.

    Attributes:
        home: RSURE_HOME, the state of the application (secret key, artifacts, logs, lock files).
        state: folder of the embedded services, one for each pair of checkout path and instance mark.
        postgres: data, log and socket of the cluster; owned by the user that runs PostgreSQL.
        valkey: data, log and socket of Valkey.
    """

    home: Path
    state: Path
    postgres: Path
    valkey: Path


def home_path() -> Path:
    """RSURE_HOME, by default `.rsure` in the checkout; created with mode 0700."""
    home = Path(os.environ.get("RSURE_HOME") or ROOT / ".rsure").expanduser().resolve()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot create the state folder {home}: {error.strerror}. Set RSURE_HOME to another one.") from error
    if not os.access(home, os.W_OK):
        raise SetupError(f"cannot write to the state folder {home}. Set RSURE_HOME to one of yours.")
    return home


def _instance_mark(home: Path) -> str:
    """A random mark kept in `home`: a new clone at an old path does not meet the old clone's database."""
    path = home / "instance"
    if not path.exists():
        draft = home / f"instance.{os.getpid()}"
        draft.write_text(secrets.token_hex(8))
        try:
            os.link(draft, path)  # all or nothing: a concurrent command never reads half of it
        except FileExistsError:
            pass
        draft.unlink()
    return path.read_text()


def _state_root() -> Path:
    if os.geteuid() == 0:
        # PostgreSQL refuses uid 0 and runs as `postgres`, who may not enter the checkout's parents.
        return Path("/var/lib/rsure")
    base = os.environ.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "rsure"
    return Path("~/.local/state/rsure").expanduser()


def places() -> Places:
    """The folders of this checkout; made where absent.

    Raises:
        SetupError: a folder cannot be made.
    """
    home = home_path()
    key = hashlib.sha256(f"{home}\n{_instance_mark(home)}".encode()).hexdigest()[:12]
    state = _state_root() / key
    if len(str(state / "postgres" / ".s.PGSQL.5432.lock")) > SOCKET_PATH_LIMIT:
        state = Path("/tmp") / f"rsure-{os.geteuid()}" / key
    try:
        state.parent.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        state.mkdir(mode=0o711, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot create {state}: {error.strerror}. Set XDG_STATE_HOME to a folder of yours.") from error
    for folder in (state.parent, state):
        if folder.stat().st_uid != os.geteuid():
            raise SetupError(f"{folder} belongs to somebody else: refused. Remove it or set XDG_STATE_HOME.")
    (state / "checkout").write_text(f"{home}\n")
    return Places(home=home, state=state, postgres=state / "postgres", valkey=state / "valkey")
