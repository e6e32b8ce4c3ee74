"""A controller of a lab that is diagnosed as `recover` does, broken, and fixed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.adapters.hosts import SshHosts
from upgrader.config.inventory import load_hosts
from upgrader.errors import ApiError
from upgrader.onhost.sending.collect import examine
from upgrader.onhost.sending.host_facts import Examined, Unknown
from upgrader.recover.diagnosis.diagnose import Diagnosis, diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen

__all__ = ["Doctor", "broken", "errors", "examining", "ids"]


class Doctor:
    """Examines the cluster's only controller."""

    def __init__(self, cluster: LabCluster, hosts: SshHosts) -> None:
        self._cluster = cluster
        self._hosts = hosts
        self.host = load_hosts(cluster.folder / "hosts.yml")["controllers"][0]

    def examine(self, now: Callable[[], float] = time.time) -> Diagnosis:
        """One examination, and its findings."""
        return diagnose([Examined(self.host, examine(self._hosts, self.host, now))], self._api())

    def _api(self) -> ApiSeen:
        try:
            return ApiSeen(self._cluster.kube.raw("/readyz") == "ok")
        except ApiError as error:
            return ApiSeen(False, error.message)

    def sh(self, script: str) -> str:
        """A shell script on the controller, over SSH; its output."""
        return self._hosts.run(self.host, ["sh", "-ec", script], timeout_seconds=60.0).stdout

    def generations(self) -> set[tuple[str, str]]:
        """The intact generations of each workload: its name, and the digest of its manifest.

        Not the files: a duplicate generation, made while another one was damaged, is removed again.
        """
        workloads = examine(self._hosts, self.host).workloads
        assert not isinstance(workloads, Unknown)
        return {(w.name, g.digest) for w in workloads for g in w.generations if g.intact}

    def wait(self, identity: str, *, timeout_seconds: float = 60.0) -> Diagnosis:
        """Examine until there is a finding with that ID."""
        seen: list[Diagnosis] = []

        def found() -> bool:
            seen.append(self.examine())
            return identity in ids(seen[-1])

        until(identity, found, timeout_seconds=timeout_seconds)
        return seen[-1]


@contextmanager
def examining(cluster: LabCluster) -> Iterator[Doctor]:
    """Before: there are no findings. After: the next test can run at once, and no intact generation is lost."""
    with SshHosts() as hosts:
        doctor = Doctor(cluster, hosts)
        before = doctor.generations()
        assert before
        assert errors(doctor.examine()) == []
        yield doctor
        lost = before - doctor.generations()
        assert not lost, f"generations that are gone or damaged: {lost}"
        cluster.wait_until_settled(OLD)


def ids(diagnosis: Diagnosis) -> list[str]:
    """The ids of all findings."""
    return [finding.id for finding in diagnosis.findings]


def errors(diagnosis: Diagnosis) -> list[str]:
    """The titles of the findings that are errors."""
    return [finding.title for finding in diagnosis.findings if finding.severity == "error"]


@contextmanager
def broken(doctor: Doctor, breaks: str, fixes: str) -> Iterator[None]:
    """Break the controller with one script, and fix it with another, even if the test fails."""
    try:
        doctor.sh(breaks)
        yield
    finally:
        doctor.sh(fixes)
