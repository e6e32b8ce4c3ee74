"""Offline: upgrader.yaml and the files that it names are valid. Each problem is shown with its file and line."""

from __future__ import annotations

from upgrader.config.load import RemoteChart
from upgrader.config.untrusted_folder import NotOpened
from upgrader.errors import ConfigError
from upgrader.model.finding import Finding

__all__ = ["as_finding"]


def as_finding(error: ConfigError) -> Finding:
    """A problem of a file. A file that was not opened is unknown: it may be valid."""
    if isinstance(error, NotOpened):
        return Finding("files.not-opened", "unknown", error.message, "", error.remedy)
    if isinstance(error, RemoteChart):
        why = "It can't be rendered; a run refuses it."
        return Finding("charts.remote", "unknown", error.message, why, error.remedy)
    title, _, more = error.message.partition("\n")
    return Finding("files.invalid", "error", title, more, error.remedy)
