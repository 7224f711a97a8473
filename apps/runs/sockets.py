"""What is said over the channel layer: only that there is more. A lost hint loses nothing, the log is the record."""

from __future__ import annotations

import logging
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

log = logging.getLogger(__name__)


def group_of(run_id: Any) -> str:
    return f"run.{run_id}"


def announce(run_id: Any, seq: int) -> None:
    """Hints to the run's listeners that events up to ``seq`` stand in the log. A layer that is down is logged, not raised."""
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(group_of(run_id), {"type": "run.more", "seq": seq})
    except Exception as error:
        log.warning("no hint for run %s: %s", run_id, error)
