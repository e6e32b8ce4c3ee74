"""Usual replacements of kube-apiserver on the only controller, in which no client loses a request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from testkit.command import REPOSITORY
from testkit.kept_connections import KeptConnections
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.labs import every_address
from testkit.waiting import stretched
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.model.availability import Availability
from upgrader.ports import Kind

_CHART = REPOSITORY / "charts" / "kube-apiserver"
_EVENTS, _PODS = Kind("v1", "events"), Kind("v1", "pods")
_OURS = "app.kubernetes.io/name=kube-apiserver"
_UPGRADE = ("upgrade", "kube-apiserver", str(_CHART), "--reuse-values")
_PER_SECOND = 10.0
_DRAIN = timedelta(seconds=15)
"""The chart's `gracefulShutdown.drainSeconds`."""
_UNTIL_IT_IS_THERE = ("HTTP 429", "closed without an answer", "connection closed while connecting")
_IN_GOOD_ORDER = ("HTTP 429", "closed without an answer", "not processed")


def test_pod_deleted_by_hand(cluster: LabCluster) -> None:
    """`kubectl delete pod` of the only instance, on a settled cluster: it serves until its successor does.

    Not during other rollouts: Kubernetes' controllers may then react later than the old instance's grace period (see
    the chart's README). On a machine that is so busy that the successor needs longer than `drainSeconds`, clients are
    told to try again, get no answer when the old one ends, or aren't connected, until it is there.
    """
    cluster.wait_until_settled(OLD)
    (old,) = _pods(cluster)
    with _clients(cluster) as probe:
        begun = datetime.now(UTC)
        cluster.kube.delete(_PODS, old, "kube-system")
        until("the old pod to be gone", lambda: old not in _pods(cluster), timeout_seconds=90)
        _one_pod(cluster)
        seen = probe.stop()
    successor_took = _ready_since(cluster) - begun
    if successor_took <= _DRAIN:
        _nothing_failed(seen, cluster)
    else:
        assert all(failure.error in _UNTIL_IT_IS_THERE for failure in seen.failures), seen.failures
        assert timedelta(milliseconds=seen.longest_gap_ms) < successor_took


@pytest.mark.soak
def test_proxy_upgrade_its_configuration_and_back_again_in_a_row(cluster: LabCluster) -> None:
    """HAProxy's own upgrade, a change of its configuration right after it, and a rollback of both fail no request.

    Each rollout begins when Helm reports the previous one as done, long before its old instance has ended.
    """
    before = cluster.releases()["kube-apiserver"]["revision"]
    tag = _newer_proxy(cluster)
    with _clients(cluster) as probe:
        _helm(cluster, *_UPGRADE, "--set", f"haproxy.image.tag={tag}")
        _helm(cluster, *_UPGRADE, "--set", "haproxy.idleHours=12")
        _helm(cluster, "rollback", "kube-apiserver", str(before))
        _one_pod(cluster)
        seen = probe.stop()
    _nothing_failed(seen, cluster)


def test_every_kept_connection_is_told_before_it_ends(cluster: LabCluster) -> None:
    """In a roll, each client that keeps an HTTP/1.1 connection gets a 429, and none writes into a dead connection.

    They repeat nothing else. Most write less often than kube-apiserver, by itself, would answer 429 for.
    """
    with KeptConnections(cluster.folder / "kubeconfig", {0.2: 8, 1.0: 8, 2.0: 8, 4.0: 8}) as clients:
        # Each has created its ConfigMap: it has its connection.
        _helm(cluster, *_UPGRADE, "--set-string", "podAnnotations.roll=once")
        _one_pod(cluster)
        before = clients.answers()

        def each_wrote() -> bool:
            return all(now > then for now, then in zip(clients.answers(), before, strict=True))

        until("each to write through the new one", each_wrote, timeout_seconds=60)
        seen = clients.stop()
    assert [group.failures for group in seen] == [()] * 4
    assert [group.told for group in seen] == [group.connections for group in seen]
    # The pods' hooks: one that its container's end cuts off is a warning in each roll.
    assert not [event for event in _events(cluster) if "PreStopHook" in event]


@contextmanager
def _clients(cluster: LabCluster) -> Iterator[AvailabilityProbe]:
    """Clients of all kinds, through the controller's address and through the Service's."""
    kubeconfig, further = cluster.folder / "kubeconfig", every_address(cluster.kube, ())
    with AvailabilityProbe(kubeconfig, requests_per_second=_PER_SECOND, addresses=further) as probe:
        yield probe


def _nothing_failed(seen: Availability, cluster: LabCluster) -> None:
    assert seen.failed == 0, "\n".join([*map(str, seen.failures), *_events(cluster)])
    assert seen.watches.events > 0 and seen.watches.missed == 0, seen.watches
    # First tries may only fail as HTTP provides for: retry later, connection closing, not processed.
    for failure in seen.raw_failures:
        assert any(words in failure.error for words in _IN_GOOD_ORDER), failure


def _events(cluster: LabCluster) -> list[str]:
    """The events of the pods in order of time: was the successor late, or the old instance early?"""
    return sorted(
        f"{event.get('lastTimestamp') or event['eventTime']} {event['involvedObject']['name']}: "
        f"{event['reason']} {event['message']}"
        for event in cluster.kube.list(_EVENTS, "kube-system")
    )


def _newer_proxy(cluster: LabCluster) -> str:
    """Give HAProxy's image a second tag, as a newer version would have, and return it."""
    ctr = ("ctr", "-n", "k8s.io", "images")
    images = cluster.on_controller(*ctr, "ls", "-q").split()
    image = next(name for name in images if "haproxy:" in name and "@" not in name)
    name, _, tag = image.rpartition(":")
    if f"{name}:{tag}-newer" not in images:
        cluster.on_controller(*ctr, "tag", image, f"{name}:{tag}-newer")
    return f"{tag}-newer"


def _helm(cluster: LabCluster, *arguments: str) -> None:
    cluster.helm(*arguments, "--wait", "--timeout", f"{stretched(50):.0f}s")


def _pods(cluster: LabCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.kube.list(_PODS, "kube-system", labels=_OURS)]


def _ready_since(cluster: LabCluster) -> datetime:
    """When the only instance became Ready."""
    (pod,) = cluster.kube.list(_PODS, "kube-system", labels=_OURS)
    (ready,) = (each for each in pod["status"]["conditions"] if each["type"] == "Ready")
    return datetime.fromisoformat(ready["lastTransitionTime"])


def _one_pod(cluster: LabCluster) -> None:
    """Wait until the last old instance has ended, as clients could notice its end."""
    until("the old instances to end", lambda: len(_pods(cluster)) == 1, timeout_seconds=120)
    time.sleep(2)  # for the last requests' answers
