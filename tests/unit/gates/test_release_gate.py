"""The gates of a release that becomes readable only during the recovery."""

from __future__ import annotations

import pytest

from testkit.fakes.helm import FakeHelm
from upgrader.errors import ApiUnavailable, HelmError, UpgraderError
from upgrader.gates.release_gate import ReleaseGate
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds
from upgrader.pipeline import GateRun

NAME, SPACE = "kube-apiserver", "kube-system"


class Fixed:
    """A gate with one verdict."""

    name = "fixed"

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    def check(self) -> Verdict:
        return self.verdict


def gate(helm: FakeHelm, *verdicts: Verdict, optional: bool = False) -> ReleaseGate:
    """The gate of the release, whose manifest has one gate for each verdict."""

    def made(manifest: str) -> tuple[GateRun, ...]:
        assert manifest == "the manifest"
        return tuple(GateRun(Fixed(verdict), GatePolicy()) for verdict in verdicts)

    return ReleaseGate(NAME, SPACE, helm, made, optional)


def test_all_gates_of_the_newest_revision_must_hold() -> None:
    """Where each holds, the verdict names the revision and every reason; the first that doesn't is the verdict."""
    helm = FakeHelm()
    helm.install(NAME, "an older one")
    helm.install(NAME, "the manifest")
    good = gate(helm, holds("pods are Ready"), holds("it answers")).check()
    assert good == holds("release kube-apiserver is at revision 2; pods are Ready; it answers")
    bad = broken("pod x crashes")
    assert gate(helm, holds("it answers"), bad, holds("never asked")).check() == bad


def test_a_release_that_is_not_installed() -> None:
    """An optional release has nothing that could be unhealthy; of any other one it isn't known where it went."""
    assert gate(FakeHelm(), optional=True).check() == holds("release kube-apiserver is not installed")
    missing = gate(FakeHelm()).check()
    assert (missing.kind, missing.reason) == (VerdictKind.UNKNOWN, "release kube-apiserver is not installed")


@pytest.mark.parametrize("error", [HelmError("timed out"), ApiUnavailable("connection refused")])
def test_a_release_that_cannot_be_read_is_unknown(error: UpgraderError) -> None:
    """While the API isn't back, neither success nor failure is concluded, and the reason is the error's."""

    class Silent(FakeHelm):
        def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
            raise error

    helm = Silent()
    helm.install(NAME, "the manifest")
    verdict = gate(helm, holds("")).check()
    assert (verdict.kind, verdict.reason) == (VerdictKind.UNKNOWN, f"release kube-apiserver: {error.message}")


def test_a_release_in_between_is_unknown() -> None:
    """While Helm still works on it, its manifest isn't what runs."""
    helm = FakeHelm()
    helm.install(NAME, "the manifest", "pending-rollback")
    assert gate(helm, holds("")).check().reason == "release kube-apiserver: revision 1 is pending-rollback"


def test_the_manifest_is_read_once_for_each_revision() -> None:
    """Polling a release doesn't fetch its whole manifest again and again; a new revision is noticed."""
    read: list[int | None] = []

    class Counting(FakeHelm):
        def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
            read.append(revision)
            return super().manifest(release, namespace, revision)

    helm = Counting()
    helm.install(NAME, "the manifest")
    polled = gate(helm, holds("good"))
    for _ in range(3):
        assert polled.check().kind is VerdictKind.HOLDS
    helm.install(NAME, "the manifest")
    assert "revision 2" in polled.check().reason
    assert read == [1, 2]
