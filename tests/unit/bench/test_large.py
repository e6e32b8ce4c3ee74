"""The measurement on large clusters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.large.audit import read_requests, unpaged
from bench.large.etcd import batches
from bench.large.measure import measured
from bench.large.memory import medians
from bench.large.objects import config_maps, nodes, pods
from bench.large.page import page
from bench.large.parts_of_a_run import counted
from bench.large.reading import parts_of
from bench.large.served import CONTROLLER, NEW_KUBELET, cluster_of, kubeconfig_of, pods_of, served
from bench.large.upgrading import main as upgrading
from testkit.fakes.clock import FakeClock
from tests.unit.bench.tables import row
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind

_ROW: dict[str, Any] = {
    "what": "with 1,000 nodes", "seconds": 120.04, "steps": {"images": 20.2, "kubernetes": None},
    "requests": 20_000, "leases": 12_000, "parts": {"prober": 800, "gates": 190},
    "most": {"get nodes": 40}, "load": 2.6,
}  # fmt: skip
NODE: dict[str, Any] = {
    "metadata": {
        "name": "controller-1",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"},
    },
    "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane"}]},
    "status": {"nodeInfo": {"machineID": "m", "kubeletVersion": "v1.36.3"}},
}


def pod(name: str) -> dict[str, Any]:
    """A real pod, as a list has it: without its kind."""
    labels = {"k8s-app": name}
    metadata = {"name": name, "generateName": f"{name}-", "namespace": "kube-system", "uid": "u", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": "controller-1"}, "status": {"podIP": "10.0.0.9"}}


def decoded(objects: Iterator[tuple[str, bytes]]) -> dict[str, dict[str, Any]]:
    """Key → object."""
    return {key: json.loads(value) for key, value in objects}


def test_objects_are_as_the_api_server_stores_them() -> None:
    """Each has its kind, a name as in its key, and a uid of its own; none has a version, which is etcd's."""
    made = {
        **decoded(nodes(NODE, 300)),
        **decoded(pods(pod("dns"), pod("proxy"), 900, 300)),
        **decoded(config_maps(120)),
    }
    assert len(made) == 300 + 900 + 120
    assert len({item["metadata"]["uid"] for item in made.values()}) == len(made)
    for key, item in made.items():
        metadata = item["metadata"]
        assert key.endswith(f"{metadata.get('namespace', '')}/{metadata['name']}")
        assert item["apiVersion"] == "v1" and item["kind"] and "resourceVersion" not in metadata


def test_copies_are_workers_with_addresses_and_pods_of_their_own() -> None:
    """No node is taken for a controller; no two share an address, a machine or a range, in which their pods are."""
    made = decoded(nodes(NODE, 600))
    for item in made.values():
        hostname = {"kubernetes.io/hostname": item["metadata"]["name"]}
        assert item["metadata"]["labels"] == {"kubernetes.io/os": "linux", **hostname}
    assert not any("taints" in item["spec"] for item in made.values())
    assert len({item["spec"]["podCIDR"] for item in made.values()}) == 600
    assert len({item["status"]["addresses"][0]["address"] for item in made.values()}) == 600
    assert len({item["status"]["nodeInfo"]["machineID"] for item in made.values()}) == 600
    for key, item in decoded(pods(pod("dns"), pod("proxy"), 1800, 600)).items():
        node = made[f"/registry/minions/{item['spec']['nodeName']}"]
        assert item["status"]["podIP"].rpartition(".")[0] == node["spec"]["podCIDR"].rpartition(".")[0]
        assert item["status"]["hostIP"] == node["status"]["addresses"][0]["address"]
        assert ("k8s-app" in item["metadata"]["labels"]) == key.startswith("/registry/pods/kube-system/")


def test_batches_keep_etcds_limits() -> None:
    """Neither too many operations nor too many bytes are in one transaction, and nothing is lost."""
    small, large = [(f"s{n}", b"x") for n in range(250)], [(f"l{n}", b"x" * 400_000) for n in range(5)]
    found = list(batches([*small, *large]))
    assert [item for batch in found for item in batch] == [*small, *large]
    assert max(map(len, found)) <= 128
    assert max(sum(len(value) for _, value in batch) for batch in found) <= 1_500_000
    assert list(batches([])) == []


def line(verb: str, uri: str, agent: str, resource: str = "pods", second: int = 9) -> str:
    """One of an audit log."""
    asked = {"verb": verb, "requestURI": uri, "userAgent": agent, "objectRef": {"resource": resource}, "user": {}}
    return json.dumps({**asked, "requestReceivedTimestamp": f"2026-01-02T03:04:{second:02}.123456Z"})


def test_lists_without_a_limit_are_told_from_the_audit_log() -> None:
    """Only ours count, and only lists; a half-written last line is left out."""
    log = [
        line("list", "/api/v1/pods?limit=500", "upgrader"),
        line("list", "/api/v1/nodes", "upgrader"),
        line("get", "/api/v1/nodes/a", "upgrader"),
        line("list", "/api/v1/namespaces/kube-system/secrets?labelSelector=a", "Helm/4.3.1"),
        line("list", "/api/v1/pods", "kube-scheduler/v1.36.3"),
        '{"verb": "list", "requ',
    ]
    requests = list(read_requests(log))
    assert unpaged(requests) == {
        "upgrader: /api/v1/nodes": 1,
        "Helm: /api/v1/namespaces/kube-system/secrets?labelSelector": 1,
    }


def test_requests_of_a_run_are_told_by_its_parts() -> None:
    """What isn't known to be another part's counts for the gates; what others ask counts for nobody."""
    system = "/api/v1/namespaces/kube-system"
    lock = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    before = [line("list", "/api/v1/nodes?limit=500", "upgrader", second=1)]
    meanwhile = [
        line("list", "/api/v1/nodes?limit=500", "upgrader"),
        line("get", f"{lock}/kube-scheduler", "upgrader", "leases"),
        line("create", f"{system}/pods?dryRun=All", "upgrader"),
        line("create", f"{system}/pods", "upgrader"),
        line("delete", f"{system}/pods/upgrader-image-puller-1", "upgrader"),
        line("update", f"{lock}/upgrader?fieldManager=upgrader", "upgrader", "leases"),
        line("update", f"{system}/secrets/upgrader.run.1", "upgrader", "secrets"),
        line("create", f"{system}/secrets", "upgrader", "secrets"),
        line("get", "/api/v1/namespaces/default", "upgrader-availability"),
        line("list", f"{system}/secrets", "Helm/4.3.1", "secrets"),
    ]
    found = counted(read_requests([*before, *meanwhile]), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert found == {"gates": 3, "lock and journal": 3, "images": 2, "checks": 1, "prober": 1}


def test_command_is_measured_with_its_children(tmp_path: Path) -> None:
    """Output, exit code, and the memory of a child that had more than the command itself."""
    child = "import sys; x = bytearray(80 << 20); sys.exit(3)"
    program = f"import subprocess, sys; print('out'); sys.exit(subprocess.call([sys.executable, '-c', {child!r}]))"
    found = measured([sys.executable, "-c", program], tmp_path)
    assert (found.exit_code, found.stdout.strip(), found.stderr) == (3, "out", "")
    assert found.largest_mib > 80 and found.seconds > 0 and found.cpu_seconds > 0


def test_page_shows_what_a_check_cost() -> None:
    """A row for each cluster, with its size, the cost, and which lists had no limit."""
    cost = {
        "exit_code": 0, "seconds": 12.34, "cpu_seconds": 5.6, "largest_mib": 101, "together_mib": 140, "requests": 84,
    }  # fmt: skip
    large = {"nodes": 5001, "pods": 100_009, "configmaps": 20_112}
    check = {
        "date": "2026-01-02", "cores": 2, "target": "v1.37.1",
        "seconds": 60.0, "mebibytes": 400.0, "median_seconds": 12.3,
        "rows": [{"what": "large", "objects": large, **cost, "unpaged": {"Helm: /secrets": 3}, "load": 1.4}],
        "remarks": ["Measured by hand."],
    }  # fmt: skip
    text = page({"check": check})
    found = row(text, "large")
    assert (found["nodes"], found["pods"], found["ConfigMaps"]) == ("5,001", "100,009", "20,112")
    assert (found["s"], found["together, MiB"], found["lists without a limit"]) == ("12.3", "140", "3 × Helm: /secrets")
    assert found["load average"] == "1"
    assert "2026-01-02, 2 cores" in text and "- Measured by hand.\n" in text
    assert "for the median of the tries (12.3 s)" in text
    assert "check" not in page({}).partition("\n\n")[2].replace("bench-large", "")


def test_page_shows_what_a_run_cost() -> None:
    """Each row has its time by steps, and how often gates ask; the other parts' requests are shown beside it."""
    run = {
        "date": "2026-01-02", "cores": 2, "target": "v1.37.1", "a_second": 3.0, "limit": 1.3, "ratio": 1.25,
        "rows": [_ROW],
    }  # fmt: skip
    text = page({"run": run})
    found = row(text, "with 1,000 nodes")
    assert (found["s"], found["steps, s"], found["gates, requests a second"]) == ("120.0", "images 20", "1.6")
    assert (found["its own"], found["most asked by gates"]) == ("800 prober, 190 gates", "40 × get nodes")
    assert (
        "measured: 1.25 ×" in text
        and "3 requests a second on average, however many nodes there are (measured: 1.6)" in text
    )
    assert "by kubectl" not in text


def test_page_shows_what_kubernetes_itself_takes() -> None:
    """The same rollouts without `upgrader` are a row of their own, and the ratio without them is stated."""
    run = {
        "date": "2026-01-02", "cores": 2, "target": "v1.37.1", "a_second": 3.0, "limit": 1.3, "ratio": 2.0,
        "rows": [_ROW], "by_kubectl": {"images": 20.25, "kubernetes": 60.5}, "ratio_beside": 1.19,
    }  # fmt: skip
    text = page({"run": run})
    found = row(text, "the same rollouts by kubectl alone")
    assert (found["s"], found["steps, s"], found["requests"]) == ("80.8", "images 20, kubernetes 60", "")
    assert "1.19 × as long as the run without these nodes" in text


def test_page_shows_the_memory_of_a_run() -> None:
    """A column for each part, and whether the limit is kept with the most nodes."""
    rows = [
        {"nodes": 1, "pods": 21, "peaks": {"its own modules": 90.4, "gates": 106.0}, "load": 1.0},
        {"nodes": 1000, "pods": 10_011, "peaks": {"its own modules": 90.1, "gates": 117.7}, "load": 1.0},
    ]
    memory = {"date": "2026-01-02", "cores": 2, "limit": 120.0, "tries": 5, "rows": rows}
    text = page({"memory": memory})
    assert row(text, "1,000") == {
        "nodes": "1,000", "pods": "10,011", "its own modules": "90", "gates": "118", "load average": "1"
    }  # fmt: skip
    assert "Limit: 120 MiB (measured: 118)" in text
    assert medians([{"a": 1.0}, {"a": 9.0}, {"a": 2.04}]) == {"a": 2.0}


def test_what_a_run_reads_is_read_from_a_served_cluster(tmp_path: Path) -> None:
    """The parts whose memory is measured end as they would on a cluster where all is well, and leave no pod behind."""
    kube = cluster_of(2, metrics=40)
    with served(kube) as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(url)))
        adapter = KubeAdapter(kubeconfig)
        for part in parts_of(adapter, FakeClock()).values():
            part()
        adapter.close()
    assert len(kube.list(Kind("v1", "pods"))) == pods_of(2)


def test_workers_of_a_served_cluster_are_upgraded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the step itself, whose CPU time is measured: all pods but the DaemonSet's are evicted, and no node stays
    cordoned.
    """
    kube = cluster_of(3, metrics=40, reads_a_beat=2)
    with served(kube) as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(url)))
        assert upgrading([str(kubeconfig)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["workers"] == 3 and found["cpu_seconds"] > 0 and found["requests"] > 3 * 9
    nodes = {node["metadata"]["name"]: node for node in kube.list(Kind("v1", "nodes", namespaced=False))}
    del nodes[CONTROLLER]
    assert {node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes.values()} == {NEW_KUBELET}
    assert not any(node["spec"].get("unschedulable") for node in nodes.values())
    left = [pod for pod in kube.list(Kind("v1", "pods")) if pod["spec"]["nodeName"] in nodes]
    assert {pod["metadata"]["namespace"] for pod in left} == {"kube-system"} and len(left) == 3


def test_page_shows_what_a_worker_costs() -> None:
    """Beside its limit."""
    figures = {"date": "2026-01-02", "cores": 2, "limit": 0.5, "tries": 3, "workers": 100, "load": 1.0}
    text = page({"workers": {**figures, "cpu_seconds": 0.083, "requests": 47, "task_seconds": 0.0016}})
    assert "a run needs 0.08 s of CPU and 47 requests" in text and "1.6 ms" in text and "Limit: 0.5 s" in text
