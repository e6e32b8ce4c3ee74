"""`upgrader check --metrics`: the number of findings, for the cluster's monitoring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from upgrader.app.upgrade import CheckedPlan
from upgrader.app.wiring import open_session
from upgrader.errors import UpgraderError, UsageError
from upgrader.reporting.observability.check_metrics import check_metrics
from upgrader.reporting.observability.exposition import rendered

__all__ = ["publish_check"]

_KIND = "check"


def publish_check(folder: Path, checked: CheckedPlan, note: Callable[[str], None]) -> None:
    """Write the metrics to where upgrader.yaml has those of runs go; `note` is told of each that can't be written.

    Raises UsageError where it names none.
    """
    with open_session(folder) as session:
        sinks, cluster = session.metric_sinks(), session.settings.observability.cluster
        if not sinks:
            raise UsageError(
                "upgrader.yaml has no destination for metrics",
                remedy="Set observability.textfileDirectory or observability.pushgateway, or omit --metrics.",
            )
        now = session.tools.clock.now()
        content = rendered(check_metrics(checked.all_findings, cluster, now, blocked=checked.blocked))
        for sink in sinks:
            try:
                sink.write(_KIND, content)
            except (UpgraderError, OSError) as error:
                note(f"metrics can't be written to {sink.name}: {error}")
