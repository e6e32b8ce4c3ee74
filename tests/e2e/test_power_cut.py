"""Power cuts while a run is at work."""

from __future__ import annotations

import contextlib

from bench.command import start
from tests.labs import OLD, TARGET, LabCluster, until
from upgrader.ports import Kind

_PODS = Kind("v1", "pods")


def test_power_cut_while_two_api_servers_run(cluster: LabCluster) -> None:
    """In the middle of the kube-apiserver step the power is cut: the control plane comes back by itself."""
    run = start("-C", cluster.folder, "run", "--to", TARGET, "--yes")
    try:
        until("the new kube-apiserver beside the old one", lambda: len(_api_servers(cluster)) > 1, timeout_seconds=180)
        cluster.cut_power()
        output, _ = run.communicate(timeout=600)
    finally:
        with contextlib.suppress(ProcessLookupError):
            run.kill()
        run.wait()
        if run.stdout:
            run.stdout.close()

    # Whichever way the run went on (to the target, back, or to a person), it says so with a code of the contract.
    assert run.returncode in (0, 4, 5), output
    until("every pod of the control plane", lambda: not cluster.unready(), timeout_seconds=180)
    assert cluster.versions()["kube-apiserver"] in (OLD, TARGET)


def _api_servers(cluster: LabCluster) -> list[str]:
    """The pods of kube-apiserver whose containers have started."""
    return [
        pod["metadata"]["name"]
        for pod in cluster.kube.list(_PODS, "kube-system")
        if any(
            status["name"] == "kube-apiserver" and status.get("started") is not None and "running" in status["state"]
            for status in pod.get("status", {}).get("containerStatuses", [])
        )
    ]
