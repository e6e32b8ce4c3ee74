"""The logs of a lab's nodes, for readers of a failed test's results after the lab is gone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from upgrader.errors import UpgraderError
from upgrader.lab.lifecycle import Lab

__all__ = ["keep_logs"]

_JOURNAL = "journalctl --quiet --no-pager --lines 3000 --output short-precise"
_PODS = 'cd /var/log/pods && for log in */*/*.log; do echo "--- $log"; tail -n 200 "$log"; done'
_CONTAINERS = "ctr -n k8s.io tasks ls"
_OBJECTS = "kubectl --kubeconfig=/etc/kubernetes/admin.conf --request-timeout=10s get nodes,pods,events -A -o wide"


def keep_logs(lab: str, folder: Path) -> None:
    """Write each node's journal, pods' logs, containers, and the API's objects; what can't be read is left out."""
    found = Lab.find(lab)
    for node in found.placement.nodes:
        place = folder / lab / node.name
        place.mkdir(parents=True, exist_ok=True)
        for name, script in (("journal", _JOURNAL), ("pods", _PODS), ("containers", _CONTAINERS), ("api", _OBJECTS)):
            with suppress(UpgraderError):
                (place / f"{name}.log").write_text(found.run(node.name, f"{script} 2>&1 || true", timeout_seconds=30))
