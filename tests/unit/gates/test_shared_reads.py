"""Reads that several gates have in common."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiUnavailable
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.ports import Kind, KubeObject

MAPS, PODS = Kind("v1", "configmaps"), Kind("v1", "pods")
MAP: KubeObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "old"}}


class Asked(FakeKube):
    """Counts what reaches the API."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        self.reads += 1
        return super().get(kind, name, namespace)

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        self.reads += 1
        return super().list(kind, namespace, labels=labels, fields=fields)

    def logs(self, *where: Any, **which: Any) -> str:
        self.reads += 1
        return super().logs(*where, **which)

    def raw(self, path: str, *, server: str = "", token: str = "") -> str:
        self.reads += 1
        return super().raw(path, server=server, token=token)


@pytest.fixture
def kube() -> Asked:
    """With one ConfigMap."""
    kube = Asked()
    kube.put(MAPS, MAP, "default")
    return kube


@pytest.fixture
def clock() -> FakeClock:
    """The gates' clock."""
    return FakeClock()


def data(kube: SharedReads) -> str:
    """What the ConfigMap says, as one gate reads it."""
    found = kube.get(MAPS, "a", "default")
    assert found is not None
    return str(found["data"]["k"])


def test_a_round_of_gates_asks_once(kube: Asked, clock: FakeClock) -> None:
    """Each gate has its own reader, and all share the answers to the same question; another question is asked."""
    memory = ReadMemory()
    for _ in range(3):
        reads = SharedReads(kube, clock, memory)
        assert data(reads) == "old"
        assert len(reads.list(MAPS, "default")) == 1
        assert reads.logs("default", "pod", "main") == ""
    assert kube.reads == 3
    assert reads.list(MAPS, "default", labels="a=b") == ()
    assert reads.get(MAPS, "missing", "default") is None
    assert kube.reads == 5


def test_the_next_round_asks_anew(kube: Asked, clock: FakeClock) -> None:
    """A gate never judges by what was true a round ago."""
    reads = SharedReads(kube, clock, ReadMemory())
    assert data(reads) == "old"
    kube.put(MAPS, {**MAP, "data": {"k": "new"}}, "default")
    assert data(reads) == "old"
    clock.sleep(1.0)
    assert data(reads) == "new"


def test_a_change_of_our_own_is_seen_at_once(kube: Asked, clock: FakeClock) -> None:
    """Whoever changes something reads what came of it; a dry run changes nothing."""
    reads = SharedReads(kube, clock, ReadMemory())
    assert data(reads) == "old"
    reads.patch(MAPS, "a", {"data": {"k": "new"}}, "default")
    assert data(reads) == "new"
    reads.create(MAPS, {**MAP, "metadata": {"name": "b"}}, "default", dry_run=True)
    before = kube.reads
    assert (data(reads), kube.reads) == ("new", before)
    reads.delete(MAPS, "a", "default")
    assert reads.get(MAPS, "a", "default") is None


def test_a_change_of_another_kind_says_nothing_of_what_was_read(kube: Asked, clock: FakeClock) -> None:
    """The ConfigMap that proves that writing works doesn't make every gate behind it read the pods again."""
    reads = SharedReads(kube, clock, ReadMemory())
    for _ in range(2):
        assert reads.list(PODS, "default") == ()
        assert reads.logs("default", "pod", "main") == ""
        reads.create(MAPS, {**MAP, "metadata": {"name": "b"}}, "default")
        reads.delete(MAPS, "b", "default")
    assert kube.reads == 2
    reads.create(PODS, {"metadata": {"name": "pod"}}, "default")
    assert len(reads.list(PODS, "default")) == 1
    assert reads.logs("default", "pod", "main") == ""
    assert kube.reads == 4


def test_raw_answers_are_shared(kube: Asked, clock: FakeClock) -> None:
    """Of one instance and one credential, and until an object of its kind is changed."""
    secret = "/api/v1/namespaces/default/configmaps/a"
    kube.raw_answers = {f"{at}{path}": "{}" for at in ("", "https://other") for path in (secret, "/version", "/apis")}
    reads = SharedReads(kube, clock, ReadMemory())
    for _ in range(2):
        for path in (secret, "/version", "/apis"):
            reads.raw(path)
        reads.raw("/version", server="https://other")
    assert kube.reads == 4
    reads.patch(MAPS, "a", {"data": {"k": "new"}}, "default")
    for path in (secret, "/version", "/apis"):
        reads.raw(path)
    assert kube.reads == 6, "which groups are served may follow from an object, too"


@pytest.mark.parametrize("path", ["/readyz", "/metrics"])
def test_what_is_asked_of_this_moment_is_never_shared(kube: Asked, clock: FakeClock, path: str) -> None:
    """An instance that was ready when another gate asked may not be so now."""
    kube.raw_answers[path] = "ok"
    reads = SharedReads(kube, clock, ReadMemory())
    reads.raw(path)
    kube.raw_answers[path] = ApiUnavailable("it has just stopped")
    with pytest.raises(ApiUnavailable):
        reads.raw(path)


def test_a_slow_round_is_one_round(kube: Asked, clock: FakeClock) -> None:
    """Most of a second may pass between two gates of a round; the next round begins a second after its end."""
    reads = SharedReads(kube, clock, ReadMemory())
    data(reads)
    clock.sleep(0.8)
    data(reads)
    assert kube.reads == 1
    clock.sleep(0.2)
    data(reads)
    assert kube.reads == 2


def test_each_check_of_a_quick_gate_is_an_answer_of_its_own(kube: Asked, clock: FakeClock) -> None:
    """With checks a tenth of a second apart, one answer must not count for several."""
    reads = SharedReads(kube, clock, ReadMemory(), interval_seconds=0.1)
    assert (data(reads), data(reads)) == ("old", "old")
    kube.put(MAPS, {**MAP, "data": {"k": "new"}}, "default")
    clock.sleep(0.1)
    assert data(reads) == "new"


def test_an_api_that_does_not_answer_is_asked_again(kube: Asked, clock: FakeClock) -> None:
    """An error is nobody's answer but that of who asked, and what was known before it is not given for it."""
    reads = SharedReads(kube, clock, ReadMemory())
    kube.unavailable = True
    with pytest.raises(ApiUnavailable):
        data(reads)
    kube.unavailable = False
    assert data(reads) == "old"
    reads.reconnect()
    kube.unavailable = True
    with pytest.raises(ApiUnavailable):
        data(reads)
