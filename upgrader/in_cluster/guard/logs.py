"""Where guard logs."""

from __future__ import annotations

import logging

from upgrader.in_cluster.shared.json_logs import to_stdout

__all__ = ["LOG", "set_up"]

LOG = logging.getLogger("guard")


def set_up(level: str) -> None:
    """Send this process's log lines to stdout."""
    to_stdout(LOG, level)
