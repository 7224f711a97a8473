"""The data folder beside the checkout: real scenes, labels and trajectories, read only."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("RSURE_SHARED") or ROOT.parent / "shared")
DATA = SHARED / "data"


def has_shared() -> bool:
    """Whether the folder is there."""
    return DATA.is_dir()
