"""The series that a pod-checkpointer exports, made by its own code: on a good day, and on a bad one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from upgrader.in_cluster.checkpointer.observed_values import ApiState
from upgrader.in_cluster.checkpointer.reporting.metrics import render
from upgrader.in_cluster.checkpointer.reporting.pass_report import Counters, Report, WorkloadReport
from upgrader.onhost.node.workload_policy import Workload

__all__ = ["BAD", "GOOD", "Series", "series_of"]

Series = dict[str, float]
"""By name and labels, as Prometheus writes them."""

_API, _SELF = Workload("kube-system", "kube-apiserver"), Workload("kube-system", "pod-checkpointer")
_FINE = WorkloadReport(3, kept=3, damaged=0, failed=0, active=False, reason="")

GOOD = Report(
    at=1.0,
    acting=True,
    api=ApiState.ANSWERING,
    runtime_known=True,
    workloads={_API: _FINE, _SELF: WorkloadReport(3, kept=3, damaged=0, failed=0, active=True, reason="")},
)
BAD = Report(
    at=-500.0,
    acting=True,
    api=ApiState.AWAY,
    runtime_known=False,
    pending={"kube-system/kube-apiserver-x": "its image is missing"},
    workloads={_API: WorkloadReport(0, kept=0, damaged=1, failed=1, active=True, reason="")},
    down=("kube-apiserver",),
)


def series_of(report: Report) -> Series:
    """What `/metrics` has after this pass."""
    found: Series = {}
    for family in text_string_to_metric_families(render(report, Counters(), 2.0)):
        for sample in family.samples:
            if sample.name.startswith("upgrader_"):
                labels = {**sample.labels, "instance": "10.0.0.1:10280"}
                text = ",".join(f'{name}="{value}"' for name, value in labels.items())
                found[f"{sample.name}{{{text}}}"] = sample.value
    return found
