"""What a host says of its own kube-apiserver."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from testkit.waiting import stretched
from upgrader.onhost.facts import apiserver_answer


@pytest.mark.parametrize(
    ("addresses", "instances", "listening"),
    [
        (["10.0.0.1", "127.8.1.2"], 1, 1),
        (["10.0.0.1", "127.0.0.1", "127.8.1.2"], 1, 1),
        (["10.0.0.1", "127.0.0.1", "127.8.1.2", "127.9.1.2"], 2, 1),
        (["10.0.0.1", "10.0.0.1", "127.0.0.1", "127.8.1.2", "127.9.1.2"], 2, 2),
    ],
)
def test_instances_are_counted_where_no_other_answers(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], instances: int, listening: int
) -> None:
    """Each has a private address; at 127.0.0.1, which the chart serves where clients use it, any of them answers.

    Those that serve clients share an address: one may answer already, whose HAProxy doesn't listen yet.
    """
    monkeypatch.setattr(apiserver_answer, "listeners", lambda _: Counter((address, 6443) for address in addresses))
    monkeypatch.setattr(apiserver_answer, "authority", lambda _: "")
    monkeypatch.setattr(
        apiserver_answer, "_ask", lambda _root, _ca, address, port: {"answers": True, "address": f"{address}:{port}"}
    )
    found = apiserver_answer.readyz("", {6443})
    assert (found["instances"], found["listeners"], found["private"]) == (instances, listening, instances)


def test_instance_that_hangs_leaves_the_others_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too slow to answer isn't counted, and keeps nothing from being known of its replacement."""
    given_up = threading.Event()

    def ask(_root: str, _authority: str, address: str, port: int) -> dict[str, object]:
        if address == "127.8.1.2":
            given_up.wait()
        return {"answers": True, "address": f"{address}:{port}"}

    addresses = ["10.0.0.1", "10.0.0.1", "127.8.1.2", "127.9.1.2"]
    monkeypatch.setattr(apiserver_answer, "listeners", lambda _: Counter((address, 6443) for address in addresses))
    monkeypatch.setattr(apiserver_answer, "authority", lambda _: "")
    monkeypatch.setattr(apiserver_answer, "_ask", ask)
    monkeypatch.setattr(apiserver_answer, "_ALL_SECONDS", stretched(0.5))
    try:
        found = apiserver_answer.readyz("", {6443})
    finally:
        given_up.set()
    assert (found["answers"], found["instances"], found["listeners"], found["private"]) == (True, 1, 2, 2)
