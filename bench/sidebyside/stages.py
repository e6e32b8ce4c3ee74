"""The lab's states at the start of trials: snapshots, each made once from the one before it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.recovery.measure import Site
from testkit import pushed_changes
from testkit.kubeadm import bring
from testkit.lab_cluster import OLD, TARGET
from upgrader.errors import UsageError
from upgrader.lab.lifecycle import Lab
from upgrader.lab.snapshot import require_snapshot

__all__ = ["ADOPTED", "DAEMONSET", "KUBEADM", "SHARED_PORT", "controllers", "make_lab", "start_from"]

KUBEADM, ADOPTED, DAEMONSET, SHARED_PORT = "kubeadm", "adopted", "daemonset", "shared-port"


@dataclass(frozen=True)
class _Stage:
    before: str
    make: Callable[[Site], None]


def make_lab(site: Site, count: int) -> None:
    """A new lab with that many controllers in its first stage: kubeadm's cluster, and the target's kubeadm."""
    site.cluster.lab("up", "--kubernetes", OLD, "--controllers", str(count))
    bring(site.lab, TARGET)
    site.cluster.lab("save", KUBEADM)
    _wait_after_boot(site)


def start_from(site: Site, stage: str) -> None:
    """Restore that state, and wait until the lab is healthy; raises TimeoutError."""
    if _exists(site, stage):
        site.cluster.lab("restore", stage)
    elif stage in _STAGES:
        start_from(site, _STAGES[stage].before)
        _STAGES[stage].make(site)
        site.wait_done()
        site.cluster.lab("save", stage)
    else:
        raise UsageError(
            f"lab {site.cluster.name} has no snapshot {stage!r}",
            remedy=f"it wasn't made by this benchmark: upgrader lab down --name {site.cluster.name}",
        )
    _wait_after_boot(site)


def controllers(site: Site) -> list[str]:
    """The names of the controllers."""
    return [node.name for node in site.lab.placement.nodes if node.role == "controller"]


def _adopt(site: Site) -> None:
    ended = site.cluster.upgrader("adopt", "--yes", timeout_seconds=900.0)
    if ended.exit_code:
        raise AssertionError(str(ended))


def _old_style(kind: str) -> Callable[[Site], None]:
    def make(site: Site) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pushed_changes.install_old_style(site.cluster, Path(folder) / "values.yaml", kind=kind)

    return make


_STAGES: Mapping[str, _Stage] = {
    ADOPTED: _Stage(KUBEADM, _adopt),
    DAEMONSET: _Stage(ADOPTED, _old_style("DaemonSet")),
    SHARED_PORT: _Stage(ADOPTED, _old_style("Deployment")),
}


def _exists(site: Site, stage: str) -> bool:
    try:
        require_snapshot(site.lab.placement, stage)
    except UsageError:
        return False
    return True


def _wait_after_boot(site: Site) -> None:
    Lab.find(site.cluster.name).wait_until_ready(240)
    site.wait_done()
