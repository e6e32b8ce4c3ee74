"""Where the pod-checkpointer logs."""

from __future__ import annotations

import logging

from upgrader.in_cluster.shared.json_logs import to_stdout

LOG = logging.getLogger("checkpointer")


def set_up(level: str) -> None:
    """Send this process's log lines to stdout."""
    to_stdout(LOG, level)
