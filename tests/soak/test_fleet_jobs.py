"""Two real clusters, canary and production, upgraded by Jobs of a third under load, with the wheel and the image of one
release. What the API alone can show: tests/contract/test_fleet_jobs.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from testkit.command import says
from testkit.lab_cluster import TARGET, LabCluster, until
from tests.soak.fleet_release import fleet_release
from tests.soak.lab_fleet import LabFleet, lab_fleet
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.gates.kubernetes_kinds import SECRETS

Record = Callable[[str, object], None]
CANARY, PRODUCTION = "canary", "production"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFleet]:
    release = fleet_release(tmp_path_factory.mktemp("release"))
    with lab_fleet(tmp_path_factory.mktemp("fleet"), (CANARY, PRODUCTION), release) as made:
        yield made


def test_each_cluster_is_upgraded_by_a_job(fleet: LabFleet, record_property: Record) -> None:
    """One campaign, of a saved plan: the canary, a soak of its own requests, then production. Each is upgraded by the
    only pod of one Job, which connects to nothing but its cluster's API and SSH; no request fails, and no Secret is
    left. What was planned for production before the canary's run is what its own run does.
    """
    plan = fleet.plan()
    with fleet.clients() as clients:
        ended = fleet.run("--plan", str(plan))
        seen = nothing_failed(clients)
    assert ended.exit_code == 0, ended
    for name, cluster in fleet.clusters.items():
        cluster.wait_healthy(TARGET)
        assert cluster.on_controller("cat", "/etc/upgrader-fleet") == "here\n"
        assert outcome(cluster) == "succeeded" and emulates(cluster)
        (job,) = fleet.jobs(name)
        assert job["status"].get("succeeded") == 1 and "failed" not in job["status"], job["status"]
        assert len(fleet.pods(name)) == 1
        assert fleet.secrets(name) == []
    canary, production = (fleet.clusters[name].journal() for name in (CANARY, PRODUCTION))
    assert canary[-1]["time"] < production[0]["time"]
    assert fleet.refused() == []
    record_property("seconds", round(ended.seconds))
    record_property("clients", seen)


def test_bad_flag_does_not_get_from_the_canary_to_production(fleet: LabFleet, record_property: Record) -> None:
    """The flag is in the values of both: with it, kube-apiserver is Ready, but accepts no token. The canary's run is
    rolled back, which ends the campaign with exit code 4. Production has no Job, no run, no journal and no revision
    more than before. No request fails in either.
    """
    before = traces(fleet)
    version = set(fleet.clusters[CANARY].versions().values())
    bad = {"extraArgs": {"service-account-issuer": "https://other.example"}}
    with changed(fleet, bad), fleet.clients() as clients:
        ended = fleet.run("--new")
        seen = nothing_failed(clients)
    assert ended.exit_code == 4, ended
    canary = fleet.clusters[CANARY]
    assert outcome(canary) == "rolled-back", ended
    says(ended, "canary: rolled-back: ", "no longer accepts tokens")
    assert set(canary.versions().values()) == version and not canary.unready()
    assert "other.example" not in canary.helm("get", "manifest", "kube-apiserver")
    assert traces(fleet) == before
    assert fleet.refused() == []
    record_property("seconds", round(ended.seconds))
    record_property("clients", seen)


def test_emulation_ends_in_a_campaign_of_its_own(fleet: LabFleet, record_property: Record) -> None:
    """The same stages, soaks and Jobs, by the coordinator that the chart installs, whose pod is deleted in the middle:
    each cluster goes on at the same version, without the old minor's features. No request fails.
    """
    fleet.install_coordinator(action="finalize")
    before = len(fleet.jobs(CANARY))
    with fleet.clients() as clients:
        fleet.start_on_hub("run", "--new", "--executor", "jobs", "--yes")
        until("the canary's Job", lambda: len(fleet.jobs(CANARY)) > before, timeout_seconds=300)
        fleet.delete_coordinator()
        until("both clusters to be finalized", lambda: phases(fleet) == {"succeeded"}, timeout_seconds=1200)
        seen = nothing_failed(clients)
    for name, cluster in fleet.clusters.items():
        cluster.wait_healthy(TARGET)
        assert not emulates(cluster) and fleet.secrets(name) == []
    assert len(fleet.jobs(CANARY)) == before + 1, "the next coordinator began none again"
    record_property("clients", seen)


def test_run_of_an_evicted_pod_is_resumed(fleet: LabFleet, record_property: Record) -> None:
    """A drain of the hub's worker in the middle of the canary's step: the Job's next pod resumes the run by the journal
    that is in the cluster, and the campaign goes on to its end. No request fails.
    """
    with changed(fleet, {"podAnnotations": {"example.com/changed": "yes"}}), ThreadPoolExecutor(1) as pool:
        before = len(fleet.pods(CANARY))
        with fleet.clients() as clients:
            campaign = pool.submit(fleet.run, "--new")
            until("the Job's pod", lambda: len(fleet.pods(CANARY)) > before, timeout_seconds=120)
            pod = max(fleet.pods(CANARY), key=lambda each: each["metadata"]["creationTimestamp"])
            until("its step", lambda: in_step(fleet.log(pod), "kube-apiserver"), timeout_seconds=180)
            fleet.hub.kube.evict(pod["metadata"]["name"], pod["metadata"]["namespace"], uid=pod["metadata"]["uid"])
            ended = campaign.result()
            seen = nothing_failed(clients)
    assert ended.exit_code == 0, ended
    journal = fleet.clusters[CANARY].journal()
    (resumed,) = (each["data"]["by"] for each in journal if each["type"] == "RunResumed")
    assert pod["metadata"]["name"] not in resumed
    for cluster in fleet.clusters.values():
        cluster.wait_healthy(TARGET)
        assert outcome(cluster) == "succeeded"
    record_property("seconds", round(ended.seconds))
    record_property("clients", seen)


def phases(fleet: LabFleet) -> set[str]:
    """Of its clusters, as the coordinator on the hub has them; empty as long as that doesn't answer."""
    said = fleet.on_hub("status", "-o", "json")
    return {each["phase"] for each in json.loads(said)["clusters"]} if said.startswith("{") else set()


def emulates(cluster: LabCluster) -> bool:
    """Whether its API server has the features of the old minor."""
    return "--emulated-version=" in cluster.helm("get", "manifest", "kube-apiserver")


def in_step(log: str, step: str) -> bool:
    """Whether a run has started that step."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{") and line.endswith("}")]
    return any(each["type"] == "StepStarted" and each["data"]["step"] == step for each in lines)


@contextmanager
def changed(fleet: LabFleet, values: Mapping[str, object]) -> Iterator[None]:
    """Values of kube-apiserver in all clusters, until the end of the block."""
    files = [cluster.folder / "values/kube-apiserver.yaml" for cluster in fleet.clusters.values()]
    before = [file.read_text() for file in files]
    try:
        for cluster in fleet.clusters.values():
            cluster.change_values("kube-apiserver", values)
        yield
    finally:
        for file, text in zip(files, before, strict=True):
            file.write_text(text)


def traces(fleet: LabFleet) -> Mapping[str, Any]:
    """What any run leaves in production."""
    cluster = fleet.clusters[PRODUCTION]
    return {
        "revisions": cluster.releases(),
        "runs": cluster.runs(),
        "journals": {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in cluster.kube.list(SECRETS, "kube-system", labels="app.kubernetes.io/managed-by=upgrader")
        },
        "jobs": [each["metadata"]["uid"] for each in fleet.jobs(PRODUCTION)],
    }


def outcome(cluster: LabCluster) -> object:
    """Of the newest run, by the journal that was brought from the cluster; one that was resumed has two ends."""
    return [each["data"]["outcome"] for each in cluster.journal() if each["type"] == "RunEnded"][-1]


def nothing_failed(clients: Mapping[str, AvailabilityProbe]) -> Mapping[str, Mapping[str, float]]:
    """Stop the clients; the counts, which are the test's figures. Raises AssertionError with what failed."""
    found = {name: client.stop() for name, client in clients.items()}
    for name, seen in found.items():
        assert seen.failed == 0, "\n".join([name, *map(str, seen.failures)])
        assert seen.watches.events > 0 and seen.watches.missed == 0, (name, seen.watches)
    return {
        name: {"requests": seen.requests, "failed": seen.failed, "longest_gap_ms": round(seen.longest_gap_ms)}
        for name, seen in found.items()
    }
