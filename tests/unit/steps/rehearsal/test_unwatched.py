"""What keeps pods and Secrets out of a scratch kube-apiserver's memory, and lists complete."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import rehearse
from upgrader.onhost.rehearsal.processes import Etcd
from upgrader.onhost.rehearsal.unwatched import KEYS, block_informers, first, only_these


@pytest.mark.parametrize("plural", ["pods", "secrets"])
def test_lists_begin_after_what_can_not_be_read(plural: str) -> None:
    """And before the first namespace of any name, as etcd sorts its keys."""
    token = first("", plural, 7)
    said = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    (key,) = (key for key in KEYS if key.startswith(f"/{plural}/"))
    assert said["rv"] == 7 and key < f"/{plural}/{said['start']}" <= f"/{plural}/0/a" < f"/{plural}/a/a"


def test_other_lists_begin_at_their_beginning() -> None:
    """So do those of a server whose data has no such key."""
    assert [first("", "configmaps", 7), first("metrics.k8s.io", "pods", 7), first("", "pods", 0)] == ["", "", ""]


@pytest.mark.parametrize(
    ("informers", "only"),
    [("*v1.Pod", True), ("*v1.Secret *v1.Pod", True), ("*v1.Pod *v1.Namespace", False), ("*v1.PodTemplate", False)],
)
def test_other_informers_are_waited_for(informers: str, only: bool) -> None:
    """One that never has all objects is a finding, as admission refuses everything then."""
    count = len(informers.split())
    assert only_these(f"internal server error: {count} informers not started yet: [{informers}]") is only


def test_what_says_nothing_of_informers_is_waited_for() -> None:
    """Such as a server that no longer checks them."""
    assert not only_these("ok") and not only_these("")


def test_real_objects_that_can_not_be_read_keep_the_target_from_getting_ready() -> None:
    """On the cluster itself, its informers have nothing before them."""
    assert block_informers({"secrets", "configmaps"}) and not block_informers({"configmaps", "pods.metrics.k8s.io"})


class Asked:
    """Stands in for a scratch etcd's gateway, which has these alarms."""

    def __init__(self, *alarms: dict[str, str]) -> None:
        self.alarms = alarms
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("action") == "GET":
            return {"alarms": list(self.alarms)} if self.alarms else {}
        self.sent.append((path, body))
        return {"header": {"revision": str(len(self.sent))}}


def start_etcd(monkeypatch: pytest.MonkeyPatch, asked: Asked) -> int:
    """The revision that is returned; without an etcd, nothing is a result."""
    monkeypatch.setattr(Etcd, "_ask", asked)
    started: list[dict[str, bool]] = []
    processes: Any = SimpleNamespace(start=lambda *_, **how: started.append(how), wait=lambda *_: "")
    given = {"work": "/work", "servers": {"target": {"prefix": "/other"}}}
    revision = rehearse._start_etcd(given, processes, "target", "etcd")
    assert started == [{"needed": True}]
    return revision


def test_a_scratch_etcd_has_them_below_the_servers_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written last: what is stored after its revision is the servers' own."""
    asked = Asked()
    assert start_etcd(monkeypatch, asked) == len(asked.sent)
    sent = [(path, base64.b64decode(body["key"]).decode()) for path, body in asked.sent]
    assert sent[-2:] == [("/v3/kv/put", f"/other{key}") for key in KEYS]
    assert {path for path, _ in sent[:-2]} == {"/v3/kv/deleterange"}


def test_data_of_an_etcd_without_space_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot has the alarm of the member that ran out of space; no other alarm is touched."""
    asked = Asked({"memberID": "7", "alarm": "NOSPACE"}, {"memberID": "8", "alarm": "CORRUPT"})
    start_etcd(monkeypatch, asked)
    path, body = asked.sent[0]
    assert (path, body) == ("/v3/maintenance/alarm", {"action": "DEACTIVATE", "memberID": "7", "alarm": "NOSPACE"})
    assert all(path != "/v3/maintenance/alarm" for path, _ in asked.sent[1:])


NOT_READY = "[+]ping ok\n[-]informer-sync failed: reason withheld\n"


@pytest.mark.parametrize(
    ("said", "informers", "missing"),
    [
        (NOT_READY, "[*v1.Secret *v1.Pod]", ""),
        (NOT_READY, "[*v1.Secret *v1.Namespace]", "it is not ready: informer-sync"),
        (f"[-]etcd failed: reason withheld\n{NOT_READY}", "[*v1.Pod]", "it is not ready: etcd, informer-sync"),
    ],
)
def test_a_server_is_ready_without_them(said: str, informers: str, missing: str) -> None:
    """But not if it lacks anything else."""
    why = f"internal server error: 2 informers not started yet: {informers}"
    answers = {"/readyz?verbose": said, "/readyz/informer-sync": why}
    api: Any = SimpleNamespace(ask=lambda _, path: (500, {"message": answers[path]}))
    assert rehearse._lacking(api) == missing


def test_a_server_that_ends_while_it_is_asked() -> None:
    """It isn't ready, and what it said last is told: a target that can't serve the data is a finding, and no failure of
    the rehearsal.
    """

    def ask(_: str, path: str) -> tuple[int, dict[str, Any]]:
        if path != "/readyz?verbose":
            raise Failed("the target kube-apiserver no longer answers: refused")
        return 500, {"message": NOT_READY}

    api: Any = SimpleNamespace(ask=ask)
    assert rehearse._lacking(api) == "the target kube-apiserver no longer answers: refused"
