"""The kubeconfig's own credentials last longer than a run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from upgrader.errors import ConfigError
from upgrader.model.finding import Finding
from upgrader.model.time_text import duration
from upgrader.preflight.context import PreflightContext

__all__ = ["check_credentials"]

_LONG_SECONDS = 12 * 3600.0
"""Longer than most runs, and than a working day."""
_WRITTEN_SECONDS = 1.0
"""A login writes the kubeconfig in less: kubectl and others replace its content in place."""


def check_credentials(context: PreflightContext) -> Iterator[Finding]:
    """Read only in the kubeconfig. By the end of a token, kube-apiserver and Helm refuse a rollback as well."""
    end = _end(context)
    if end is None:
        return
    left = (end - context.clock.now()).total_seconds()
    if left < _LONG_SECONDS:
        yield Finding(
            "access.credentials-expiring",
            "warning",
            f"the kubeconfig's credentials expire in {duration(max(0.0, left))}",
            f"After {end:%Y-%m-%d %H:%M} UTC, the API refuses every request of a run, including those of a rollback. "
            "`upgrader` doesn't renew a token or a certificate that is in the kubeconfig itself.",
            "Log in again before the run. A run reads the kubeconfig every minute, and uses new credentials in it. "
            "Or use an `exec` plugin, a token file or a client certificate of longer validity.",
        )


def _end(context: PreflightContext) -> datetime | None:
    """When they end. Raises ConfigError for a kubeconfig that can't be read twice: once, it may just be written."""
    try:
        return context.credentials_end()
    except ConfigError:
        context.clock.sleep(_WRITTEN_SECONDS)
        return context.credentials_end()
