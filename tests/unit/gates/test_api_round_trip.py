"""The round trip fails with a reason when one of its four parts does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.gates.api_round_trip import round_trip
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.ports import Kind, KubeObject


def test_round_trip_leaves_nothing_behind(kube: FakeKube) -> None:
    """Written, watched, read and deleted: no reason, and no object."""
    assert round_trip(kube) == ""
    assert kube.list(CONFIG_MAPS) == ()


def test_another_object_in_the_watch_is_not_the_probe(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event with another token is not taken for the one that was written."""
    watch = kube.watch

    def watch_with_another(kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        yield {"type": "ADDED", "object": {"metadata": {"name": name}, "data": {"token": "another"}}}
        yield from watch(kind, namespace, name, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(kube, "watch", watch_with_another)
    assert round_trip(kube) == ""


def test_what_is_read_must_be_what_was_written(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that a watch shows, but a read doesn't, is no write to rely on."""
    monkeypatch.setattr(kube, "get", lambda *_: None)
    assert "can't be read after" in round_trip(kube)


def test_watch_must_show_the_deletion(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that ends after its first event may have taken that from a list: it proves nothing."""
    watch = kube.watch

    def only_the_first(kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        yield from islice(watch(kind, namespace, name, timeout_seconds=timeout_seconds), 1)

    monkeypatch.setattr(kube, "watch", only_the_first)
    assert "did not show the deletion" in round_trip(kube)
    assert kube.list(CONFIG_MAPS) == ()
