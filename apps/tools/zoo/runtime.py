"""How this project holds torch and ultralytics: offline, silent, imported only when a model is really needed."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

from apps.core.errors import ToolAbstainedError

HOW_TO_SWITCH_ON = ("Models are off: torch is not installed. Switch them on with "
                    "`pip install -r requirements-ml.txt` in the project's environment (`./rsure setup` does it).")
_ULTRALYTICS_SETTINGS = ("sync", "clearml", "comet", "dvc", "mlflow", "neptune", "raytune", "tensorboard", "wandb", "hub",
                         "vscode_msg")
_log = logging.getLogger(__name__)
_lock = threading.RLock()
_ready = False
_device = ""
T = TypeVar("T")


class OneLoad(Generic[T]):
    """What a process has loaded, by key: each thing once, whichever threads ask. ``lock`` also keeps two threads from looking
    with one model at a time. A forked child begins with nothing: memory of a GPU does not cross a fork."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._leave)

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self._held: dict[Hashable, T] = {}

    def _leave(self) -> None:
        """What a child inherits is never destroyed there: threads that its end would wait for did not cross the fork."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._held))
        self._begin()

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        """The thing of that key, loaded by the first who asks; what ``load`` raises is passed on and nothing is kept."""
        with self.lock:
            if key not in self._held:
                self._held[key] = load()
            return self._held[key]

    def forget(self) -> None:
        """Lets everything go, as a test of another setting needs."""
        with self.lock:
            self._held = {}

    def __len__(self) -> int:
        return len(self._held)


def state_home() -> Path:
    """The folder of the machine's own state: RSURE_HOME, else ``.rsure`` in the checkout."""
    given = os.environ.get("RSURE_HOME")
    return Path(given) if given else Path(__file__).resolve().parents[3] / ".rsure"


def has_torch() -> bool:
    """True where torch is installed and not switched off (``up --no-ml``); nothing is imported."""
    if os.environ.get("RSURE_NO_ML"):
        return False
    return importlib.util.find_spec("torch") is not None


def has_ultralytics() -> bool:
    return has_torch() and importlib.util.find_spec("ultralytics") is not None


def torch_module() -> Any:
    """torch, imported on first use. Raises ToolAbstainedError (MODEL_MISSING) where it is not installed."""
    if not has_torch():
        raise ToolAbstainedError(HOW_TO_SWITCH_ON, code="MODEL_MISSING", needs={"packages": ["torch"]})
    with _lock:
        return _imported("torch")


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:   # a shared library is missing: libGL of OpenCV, a driver
        raise ToolAbstainedError(f"{name} is installed but cannot be loaded: {str(error)[:200]}. {HOW_TO_SWITCH_ON}",
                                 code="MODEL_MISSING", needs={"packages": [name]}) from error


def has_onnxruntime() -> bool:
    return not os.environ.get("RSURE_NO_ML") and importlib.util.find_spec("onnxruntime") is not None


def onnxruntime_module() -> Any:
    """onnxruntime, imported on first use. Raises ToolAbstainedError (MODEL_MISSING) where it is not installed."""
    if not has_onnxruntime():
        raise ToolAbstainedError(HOW_TO_SWITCH_ON, code="MODEL_MISSING", needs={"packages": ["onnxruntime"]})
    with _lock:
        return _imported("onnxruntime")


def ultralytics_module() -> Any:
    """ultralytics, imported on first use with everything that phones home switched off and no network needed.

    It asks its site for a font and a version on first use; a font copy of matplotlib and YOLO_OFFLINE keep it quiet.
    Raises ToolAbstainedError (MODEL_MISSING) where it is not installed.
    """
    torch_module()
    if not has_ultralytics():
        raise ToolAbstainedError(HOW_TO_SWITCH_ON, code="MODEL_MISSING", needs={"packages": ["ultralytics"]})
    global _ready
    with _lock:
        if not _ready:
            _prepare_offline()
        module = _imported("ultralytics")
        if not _ready:
            settings = module.settings
            off = {k: False for k in _ULTRALYTICS_SETTINGS if k in settings}
            if any(settings[k] for k in off):
                settings.update(off)
            _ready = True
        return module


def _prepare_offline() -> None:
    os.environ["YOLO_OFFLINE"] = "true"
    os.environ["YOLO_AUTOINSTALL"] = "false"
    os.environ.setdefault("YOLO_VERBOSE", "false")
    folder = state_home() / "ultralytics"
    os.environ["YOLO_CONFIG_DIR"] = str(folder)
    inner = folder / "Ultralytics"
    inner.mkdir(parents=True, exist_ok=True)
    font = inner / "Arial.ttf"
    spec = importlib.util.find_spec("matplotlib")
    if not font.exists() and spec is not None and spec.origin is not None:
        source = Path(spec.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"
        if source.exists():
            shutil.copyfile(source, font)
    broken = inner / "settings.json"
    if broken.exists():
        try:
            json.loads(broken.read_text())
        except ValueError:
            broken.unlink()


def device_name() -> str:
    """``cuda:0`` where torch sees a GPU and a sum made on it comes back right, else ``cpu``; asked once a process.

    A driver that is too old, a GPU that this torch has no code for and a fork after the GPU was first used all show only at the
    first sum. Sums there are plain float32, as the evidence says: TensorFloat-32, the default of convolutions, keeps ten
    bits of each factor.
    """
    global _device
    torch = torch_module()
    with _lock:
        if not _device:
            _device = _probed(torch)
        return _device


def _probed(torch: Any) -> str:
    if not torch.cuda.is_available():
        return "cpu"
    try:
        ones = torch.ones(2, 2, device="cuda:0")
        works = float((ones @ ones).sum().cpu()) == 8.0
    except (RuntimeError, AssertionError) as error:   # a torch without CUDA asserts
        _log.warning("a GPU is there but cannot be used, models run on the processor: %s", str(error).split("\n")[0][:200])
        return "cpu"
    if not works:
        _log.warning("a GPU is there but adds up wrongly, models run on the processor")
        return "cpu"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return "cuda:0"


def onnx_device_name() -> str:
    """Where ONNX models run: ``cuda:0`` where torch has a GPU and onnxruntime was built for it, else ``cpu``."""
    has_cuda = has_onnxruntime() and "CUDAExecutionProvider" in onnxruntime_module().get_available_providers()
    return device_name() if has_cuda else "cpu"


def _after_fork() -> None:
    global _device, _lock
    _device, _lock = "", threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def package_versions(*names: str) -> dict[str, str]:
    """Versions of the named packages that are installed, for provenance."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
