"""What is asked of a cluster's API server, and that an answer that is none is an error of that cluster."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.config.copied_kubeconfig import UsedKubeconfig
from upgrader.errors import ApiError
from upgrader.fleet import clusters
from upgrader.fleet.clusters import (
    Answer,
    Answered,
    ask_cluster,
    private_kubeconfig,
    remove_left_kubeconfigs,
    requests_answered,
)
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion.release("v1.37.1")


@pytest.mark.parametrize(
    "said",
    [
        *(None, {}, {"metadata": None}, {"metadata": []}, {"metadata": {}}, {"metadata": {"uid": 1}}),
        *({"metadata": {"uid": uid}} for uid in ("\ud800", "\x7f", "u1\nu2", "u" * 254)),
    ],
)
def test_answer_that_is_none(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is none, or lies, is named; it is known which cluster it is of only by a UID."""
    answers = [said, {"metadata": {"uid": "u1"}}]

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Any]:
        yield SimpleNamespace(get=lambda *_: answers.pop(0))

    monkeypatch.setattr(clusters, "open_api", open_api)
    monkeypatch.setattr(clusters, "server_version", lambda _: SimpleNamespace(binary=TARGET))
    with pytest.raises(ApiError, match="identifies the cluster"):
        ask_cluster(Path("k"))
    assert ask_cluster(Path("k")) == Answer("u1", TARGET)


def test_requests_that_were_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As kube-apiserver's own metrics have them; half a line is no number, and without the time at which the process
    started, the number says nothing. Nor does one of megabytes, which would go to the journal of all clusters.
    """
    line = 'apiserver_request_total{code="200",resource="pods",verb="GET"} '
    start = "process_start_time_seconds 1.7e+09\n"
    said = [f"{start}{line}7\n{line}5\n", f"{start}{line}\n", f"{start}{line}+Inf\n", f"{line}7\n"]
    said.append(f"process_start_time_seconds 1.{'0' * 1_000_000}\n{line}7\n")
    servers = [{"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}, {"endpoints": None}]

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Any]:
        yield SimpleNamespace(raw=lambda _: said.pop(0), list=lambda *_, **__: servers)

    monkeypatch.setattr(clusters, "open_api", open_api)
    assert requests_answered(Path("k")) == Answered("1.7e+09", 12, 2)
    for _ in range(4):
        with pytest.raises(ApiError, match="metrics of kube-apiserver can't be read"):
            requests_answered(Path("k"))


@pytest.mark.parametrize(("status", "servers"), [(403, 1), (404, 1), (500, None)])
def test_servers_that_may_not_be_listed(status: int, servers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that may read the metrics, but not list EndpointSlices, can end a soak; a failure is none."""
    refusal = ApiError("list endpointslices: refused")
    refusal.status = status

    def refused(*_: object, **__: object) -> None:
        raise refusal

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Any]:
        yield SimpleNamespace(raw=lambda _: "process_start_time_seconds 1\n", list=refused)

    monkeypatch.setattr(clusters, "open_api", open_api)
    if servers is None:
        with pytest.raises(ApiError, match="refused"):
            requests_answered(Path("k"))
    else:
        assert requests_answered(Path("k")) == Answered("1", 0, servers)


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        ('code="200",resource="pods",verb="LIST"', True),
        ('code="201",resource="configmaps",verb="POST"', True),
        ('code="404",resource="pods",verb="GET"', True),
        ('code="401",resource="pods",verb="GET"', False),
        ('code="403",resource="pods",verb="GET"', False),
        ('code="429",resource="pods",verb="GET"', False),
        ('code="500",resource="pods",verb="GET"', False),
        ('code="504",resource="pods",verb="GET"', False),
        ('code="0",resource="pods",verb="GET"', False),
        ('code="200",resource="leases",verb="PUT"', False),
        ('code="200",resource="pods",verb="WATCH"', False),
        ('code="101",resource="pods",subresource="exec",verb="CONNECT"', False),
        ('code="200",resource="",subresource="/readyz",verb="GET"', False),
    ],
)
def test_requests_that_say_something_of_clients(labels: str, counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that fails, or has nothing to do but to be probed and to renew Leases, ends no soak."""

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Any]:
        said = f"process_start_time_seconds 1\napiserver_request_total{{{labels}}} 7\n"
        yield SimpleNamespace(raw=lambda _: said, list=lambda *_, **__: ())

    monkeypatch.setattr(clusters, "open_api", open_api)
    assert requests_answered(Path("k")) == Answered("1", 7 if counted else 0)


def test_kubeconfigs_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of a process that lives, of another kind, or new ones, which may not be locked yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, new, other = (tmp_path / name for name in ("upgrader-fleet-left", "upgrader-fleet-new", "else"))
    with private_kubeconfig(UsedKubeconfig("", b"secret")) as live:
        for folder in (left, new, other):
            folder.mkdir()
            (folder / "kubeconfig").write_text("secret")
        for folder in (left, other, live.parent):
            os.utime(folder, (1e9, 1e9))
        (tmp_path / "upgrader-fleet-link").symlink_to(other)
        remove_left_kubeconfigs()
        assert live.read_bytes() == b"secret" and not left.exists()
        assert new.exists() and (other / "kubeconfig").exists()
    assert not live.exists()
