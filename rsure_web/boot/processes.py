"""Small facts about processes, and child processes that end with their parent."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def start_ticks(pid: int) -> str | None:
    """Start time of a process in ticks since boot, or None if it is gone; tells a reused pid from the old."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def command_line(pid: int) -> list[str]:
    """Arguments of a process; empty if it is gone or not ours to read."""
    try:
        return [part.decode(errors="replace") for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if part]
    except OSError:
        return []


def pids_in_folder(folder: Path) -> list[int]:
    """Processes whose working directory is `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if Path(os.readlink(entry / "cwd")) == folder:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_gone(pid: int, *, timeout_s: float) -> bool:
    """Waits until a process is gone; False if it is still there at the end."""
    mark = start_ticks(pid)
    end = time.monotonic() + timeout_s
    while mark is not None and start_ticks(pid) == mark:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def die_with_parent() -> None:
    """For `preexec_fn`: the child gets SIGTERM when the thread that forked it is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def start_child(command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts a process of its own session whose output goes to `log` and which gets SIGTERM if we are killed.

    To be called from the main thread: the kernel binds the signal to the thread that forked.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def stop_child(process: subprocess.Popen[bytes], *, timeout_s: float = 10.0) -> None:
    """SIGTERM, then SIGKILL to the whole session when it has not ended in time."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
