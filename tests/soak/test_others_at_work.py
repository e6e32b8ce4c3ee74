"""Others who change the cluster while a run does: nothing is fought over, nothing is lost, and they are named.

Each run ends with 0 or 4: the cluster is at the target, or as it was. One that lost its lock while it slept is no run
of this cluster any more, and ends as interrupted. More: test_edited_by_hand.py, test_stopped.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testkit.api_load import ApiLoad
from testkit.command import REPOSITORY, running
from testkit.kills import ONE, TWO, Moment, TwoReleases
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.others import EDITOR, GITOPS, MIRROR, SIDECAR, Other, cut_off, mutating, reverting
from testkit.processes import children
from testkit.waiting import stretched
from upgrader.ports import Kind

_HELM_PROGRAM = REPOSITORY / ".venv" / "bin" / "helm"
_PODS = Kind("v1", "pods")
_GATES = Moment("StepApplied", ONE)
"""The first release is changed, and its gates are checked."""
_HELM = Moment("StepStarted", ONE, "pending-upgrade")
"""Helm is at work on the first release."""


@pytest.fixture
def releases(cluster: LabCluster, tmp_path: Path) -> Iterator[TwoReleases]:
    """Two small releases, in place."""
    two = TwoReleases(cluster, tmp_path)
    yield two
    two.remove()


def ended(process: subprocess.Popen[str], seconds: float = 300.0) -> tuple[int, str]:
    """Wait for a run; its exit code, and all that it said."""
    output, _ = process.communicate(timeout=stretched(seconds))
    return process.returncode, output


def test_gitops_controller_reverts_a_release_of_the_users(releases: TwoReleases) -> None:
    """A controller that reverts a Deployment every two seconds is named; the run goes back, and nothing is repeated."""
    before, _ = releases.change()
    with reverting(releases.cluster.folder / "kubeconfig", f"deployments/{ONE}", "default") as theirs:
        done = releases.cluster.run(OLD)
    assert done.exit_code == 4, done
    assert GITOPS in done.stderr, done
    assert theirs.number == 1, "it was fought with"
    assert releases.turns == (before, before) and releases.settled


def test_gitops_controller_reverts_kube_apiserver(cluster: LabCluster) -> None:
    """The same of an upgrade of Kubernetes, of which no request fails."""
    before = cluster.manifests()
    with (
        ApiLoad(cluster.folder / "kubeconfig") as load,
        reverting(cluster.folder / "kubeconfig", "deployments/kube-apiserver") as theirs,
    ):
        done = cluster.run(TARGET)
        seen = load.stop()
    assert done.exit_code == 4, done
    assert GITOPS in done.stderr, done
    assert theirs.number <= 2, "it was fought with"
    assert seen.failed == 0, seen
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before


def test_pipeline_upgrades_the_same_release_in_the_middle(releases: TwoReleases) -> None:
    """A `helm upgrade` of others behind a step's own is noticed and named, and stays in Helm's history."""
    before, _ = releases.change()
    with releases.run_until(_GATES) as process:
        helm_upgrade(releases, ONE, "theirs")
        theirs, _ = releases.revisions()
        code, output = ended(process)
    assert code == 4, output
    assert "another Helm process changed it" in output and f"revision {theirs} " in output, output
    assert releases.turns == (before, before) and releases.settled
    assert "turn: theirs" in kept(releases, ONE, theirs)


def test_pipeline_begins_before_the_step_does(releases: TwoReleases) -> None:
    """Where others' Helm works on a release as its step is due, the run goes back, and theirs is left to its end."""
    before, _ = releases.change()
    with releases.run_until(_GATES) as process, helm_that_takes_long(releases, TWO) as theirs:
        code, output = ended(process)
        assert code == 4, output
        assert "pending-upgrade" in output, output
        assert theirs.poll() is None, "their Helm was disturbed"
        theirs.send_signal(signal.SIGTERM)
        theirs.wait(stretched(90))
    assert releases.turns == (before, before)


def test_pipeline_was_quicker_than_the_step(releases: TwoReleases) -> None:
    """What others have deployed since the plan was made is not overwritten: the run goes back, and theirs stays."""
    before, _ = releases.change()
    with releases.run_until(_GATES) as process:
        helm_upgrade(releases, TWO, "theirs")
        _, theirs = releases.revisions()
        code, output = ended(process)
    assert code == 4, output
    assert f"release {TWO}: revision {theirs} " in output, output
    assert releases.turns == (before, "theirs") and releases.settled


def test_sleeps_until_its_lock_is_gone(releases: TwoReleases) -> None:
    """A laptop that wakes up after another run has begun changes nothing more, and says whose the cluster is now."""
    _, after = releases.change()
    with releases.run_until(_GATES) as process:
        asleep = [process.pid, *children(process.pid, "helm")]
        send(asleep, signal.SIGSTOP)
        try:
            other = releases.from_another_machine("run", "--to", OLD, "--new", "--yes")
        finally:
            send(asleep, signal.SIGCONT)
        assert other.exit_code == 0, other
        left = releases.revisions()
        code, output = ended(process)
    assert code == 130, output
    assert "was taken over by" in output, output
    assert releases.revisions() == left, "it changed something after it had woken up"
    assert releases.turns == (after, after) and releases.settled


@pytest.mark.parametrize("moment", [_GATES, _HELM], ids=str)
def test_laptop_that_sleeps_for_three_minutes(releases: TwoReleases, moment: Moment) -> None:
    """The run and its Helm go on after three minutes, longer than the lock lasts, or the run goes back."""
    turns = releases.change()
    with releases.run_until(moment) as process:
        asleep = [process.pid, *children(process.pid, "helm")]
        send(asleep, signal.SIGSTOP)
        try:
            time.sleep(180)
        finally:
            send(asleep, signal.SIGCONT)
        code, output = ended(process, 600)
    assert_one_state(releases, turns, code, output)


@pytest.mark.parametrize("moment", [_GATES, _HELM], ids=str)
def test_vpn_that_drops_for_two_minutes(releases: TwoReleases, moment: Moment) -> None:
    """Two minutes without the cluster: the run goes back once it is there again, or goes on."""
    turns = releases.change()
    with releases.run_until(moment) as process:
        with cut_off(releases.cluster):
            time.sleep(120)  # as long on a busy machine, too: it isn't a deadline
            assert process.poll() is None, process.communicate()
        code, output = ended(process, 600)
    assert_one_state(releases, turns, code, output)


@pytest.mark.parametrize("moment", [Moment("StepStarted", "kube-apiserver", "pending-upgrade")], ids=str)
def test_vpn_that_drops_while_kube_apiserver_is_replaced(cluster: LabCluster, moment: Moment) -> None:
    """The same of an upgrade of Kubernetes."""
    before = set(cluster.runs())
    with running("-C", cluster.folder, "run", "--to", TARGET, "--new", "--yes") as process:
        until(str(moment), lambda: reached(cluster, moment, before), timeout_seconds=300, interval_seconds=0.1)
        with cut_off(cluster):
            time.sleep(120)  # as long on a busy machine, too: it isn't a deadline
            assert process.poll() is None, process.communicate()
        code, output = ended(process, 900)
    assert code in (0, 4), output
    cluster.wait_healthy(TARGET if code == 0 else OLD)


@pytest.mark.parametrize("expression", [SIDECAR, MIRROR], ids=["adds a sidecar", "takes images from a mirror"])
def test_policy_engine_changes_pods(cluster: LabCluster, expression: str) -> None:
    """Every pod has one more container, or its images from a mirror: the upgrade succeeds, and no request fails."""
    tags = "ctr -n k8s.io images ls -q | grep '^registry.k8s.io/' | grep -v @"
    cluster.on_controller(
        f"for image in $({tags}); do ctr -n k8s.io images tag --force $image mirror.example/${{image#*/}}; done"
    )
    with mutating(cluster, expression), ApiLoad(cluster.folder / "kubeconfig") as load:
        done = cluster.run(TARGET)
        seen = load.stop()
    assert done.exit_code == 0, done
    assert seen.failed == 0, seen
    images = {
        container["image"]
        for pod in cluster.kube.list(_PODS, "kube-system", labels="app.kubernetes.io/name=kube-apiserver")
        for container in pod["spec"]["containers"]
    }
    changed = "mirror.example/" if expression == MIRROR else "registry.k8s.io/pause:"
    assert any(image.startswith(changed) for image in images), images


def test_pod_is_deleted_by_hand(releases: TwoReleases) -> None:
    """A pod that somebody deletes while the gates are checked is replaced, and the run succeeds."""
    _, after = releases.change()
    with releases.run_until(_GATES) as process:
        for pod in releases.cluster.kube.list(_PODS, "default", labels=f"app={ONE}"):
            releases.cluster.kube.delete(_PODS, pod["metadata"]["name"], "default")
        code, output = ended(process)
    assert code == 0, output
    assert releases.turns == (after, after) and releases.settled


def test_pods_are_restarted_by_hand(releases: TwoReleases) -> None:
    """`kubectl rollout restart` while the gates are checked is waited for: the run succeeds, and the restart stays."""
    _, after = releases.change()
    with releases.run_until(_GATES) as process:
        kubectl = "kubectl --kubeconfig=/etc/kubernetes/admin.conf --namespace=default"
        releases.cluster.on_controller(f"{kubectl} rollout restart deployment/{ONE}")
        code, output = ended(process)
    assert code == 0, output
    assert releases.turns == (after, after) and releases.settled
    restarted = "kubectl.kubernetes.io/restartedAt"
    pods = releases.cluster.kube.list(_PODS, "default", labels=f"app={ONE}")
    assert all(
        restarted in pod["metadata"]["annotations"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
    )


def test_deployment_is_edited_by_hand(releases: TwoReleases) -> None:
    """What somebody makes of a field of the release while its gates are checked is named, and the run goes back."""
    before, _ = releases.change()
    with releases.run_until(_GATES) as process:
        client = Other(releases.cluster.folder / "kubeconfig", EDITOR, "default", f"deployments/{ONE}")
        found = client.get()
        found["spec"]["template"]["metadata"]["annotations"]["turn"] = "by hand"
        del found["metadata"]["resourceVersion"]  # its status changes meanwhile
        client.replace(found)
        code, output = ended(process)
    assert code == 4, output
    assert EDITOR in output and "by hand" in output, output
    assert releases.turns == (before, before) and releases.settled


def assert_one_state(releases: TwoReleases, turns: tuple[str, str], code: int, output: str) -> None:
    """The run ended with 0 and both releases are changed, or with 4 and none is."""
    before, after = turns
    assert code in (0, 4), output
    assert releases.turns == ((after, after) if code == 0 else (before, before)) and releases.settled, output


def reached(cluster: LabCluster, moment: Moment, before: set[str]) -> bool:
    """Whether a new run of the cluster is there."""
    if not set(cluster.runs()) - before:
        return False
    return moment.reached(cluster.journal()) and cluster.releases()[moment.step]["status"] == moment.helm


def send(pids: list[int], number: signal.Signals) -> None:
    """Signal these processes, as far as they still are."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def helm_upgrade(releases: TwoReleases, release: str, turn: str) -> None:
    """A pipeline's own `helm upgrade`, to its end."""
    chart = str(releases.chart)
    releases.cluster.helm(
        "upgrade", release, chart, "--namespace", "default", "--reuse-values", "--set", f"turn={turn}"
    )


@contextmanager
def helm_that_takes_long(releases: TwoReleases, release: str) -> Iterator[subprocess.Popen[bytes]]:
    """A pipeline's `helm upgrade` at work: it waits for a pod that no node runs. Killed at the end, if it still is."""
    command: list[str | Path] = [
        _HELM_PROGRAM,
        "--kubeconfig",
        releases.cluster.folder / "kubeconfig",
        "--namespace",
        "default",
    ]
    command += ["upgrade", release, releases.chart, "--reuse-values", "--set", "turn=theirs,node=nowhere"]
    command += ["--rollback-on-failure", "--timeout", "10m"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kept(releases: TwoReleases, release: str, revision: int) -> str:
    """The values that Helm keeps of a revision."""
    return releases.cluster.helm("get", "values", release, "--namespace", "default", "--revision", str(revision))
