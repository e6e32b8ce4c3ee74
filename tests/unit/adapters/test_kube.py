"""How the API adapter asks, asks again, and says in whose words it failed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.adapters.conftest import ScriptedServer, write_kubeconfig
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError, ApiUnavailable, ConfigError
from upgrader.ports import Kind

PODS = Kind("v1", "pods")
DEPLOYMENTS = Kind("apps/v1", "deployments")
NODES = Kind("v1", "nodes", namespaced=False)


@pytest.fixture
def clock() -> FakeClock:
    """Time that passes only in the pauses between tries."""
    return FakeClock()


@pytest.fixture
def kube(kubeconfig: Path, clock: FakeClock) -> Iterator[KubeAdapter]:
    """The adapter in front of the scripted server."""
    adapter = KubeAdapter(kubeconfig, clock=clock)
    yield adapter
    adapter.close()


def test_paths_and_queries(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Core and group kinds, namespaced and not, with selectors: what the API expects."""
    server.answers(200)
    kube.get(PODS, "a", "ns")
    kube.list(PODS, labels="app=web,tier", fields="metadata.name=a")
    kube.get(NODES, "n1")
    kube.apply(DEPLOYMENTS, {"metadata": {"name": "web"}}, "ns")
    assert [f"{method} {path}" for method, path, _ in server.asked] == [
        "GET /api/v1/namespaces/ns/pods/a",
        "GET /api/v1/pods?labelSelector=app%3Dweb%2Ctier&fieldSelector=metadata.name%3Da",
        "GET /api/v1/nodes/n1",
        "PATCH /apis/apps/v1/namespaces/ns/deployments/web?fieldManager=upgrader&force=true",
    ]
    assert server.headers[-1]["Content-Type"] == "application/apply-patch+yaml"
    assert server.headers[0]["authorization"] == "Bearer s3cret-token"


@pytest.mark.parametrize("trouble", [None, 500, 502, 503, 504, 429])
def test_reads_are_tried_again(kube: KubeAdapter, server: ScriptedServer, trouble: int | None) -> None:
    """A broken connection or a moment's trouble doesn't reach the caller of a read."""
    server.answers(trouble, trouble, trouble, (200, {}, b'{"kind": "Pod"}'))
    assert kube.get(PODS, "a", "ns") == {"kind": "Pod"}


def test_tries_are_counted(kube: KubeAdapter, server: ScriptedServer) -> None:
    """After four tries it is over, and the error says how many there were."""
    server.answers(None)
    with pytest.raises(ApiUnavailable, match=r"get pods ns/a\) \(4 tries\)"):
        kube.get(PODS, "a", "ns")
    assert len(server.asked) == 4


def test_retry_after_is_heeded_within_bounds(kube: KubeAdapter, server: ScriptedServer, clock: FakeClock) -> None:
    """A server that asks for 5 s gets one: it is stopping, and the next connection reaches another."""
    server.answers((429, {"Retry-After": "5", "Connection": "close"}, b""), 200)
    kube.list(PODS)
    assert clock.monotonic() == 1.0


@pytest.mark.parametrize("trouble", [None, 500, 503])
def test_writes_are_not_tried_again(kube: KubeAdapter, server: ScriptedServer, trouble: int | None) -> None:
    """Whether a write that went wrong was carried out isn't known: only the caller can decide to repeat it."""
    server.answers(trouble)
    with pytest.raises(ApiError):
        kube.create(PODS, {"metadata": {"name": "a"}}, "ns")
    assert len(server.asked) == 1


def test_refused_for_now_may_be_written_again(kube: KubeAdapter, server: ScriptedServer) -> None:
    """429 means that nothing was done: the one error after which a write is safe to repeat."""
    server.answers(429, 201)
    kube.create(PODS, {"metadata": {"name": "a"}}, "ns")
    assert len(server.asked) == 2


@pytest.mark.parametrize(("status", "kind"), [(503, ApiUnavailable), (429, ApiUnavailable), (403, ApiError)])
def test_answers_become_errors(kube: KubeAdapter, server: ScriptedServer, status: int, kind: type[ApiError]) -> None:
    """What nobody could serve is unavailable; what was refused isn't; both carry the server's own words."""
    words = json.dumps({"kind": "Status", "message": "because of this"}).encode()
    server.answers((status, {}, words))
    with pytest.raises(ApiError, match=f"'list pods ns'.*HTTP {status} because of this") as caught:
        kube.list(PODS, "ns")
    assert type(caught.value) is kind


def test_direct_probe_is_asked_once(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A question to one instance is about this moment: asking again would hide what it said."""
    server.answers((500, {}, b"[-]etcd failed"))
    with pytest.raises(ApiError, match=r"\[-\]etcd failed"):
        kube.raw("/readyz", server=server.url)
    assert len(server.asked) == 1


def test_something_else_than_json_is_no_api(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A proxy's login page is not taken for an object."""
    server.answers((200, {}, b"<html>Log in</html>"))
    with pytest.raises(ApiError, match="not answered by a Kubernetes API"):
        kube.list(PODS)


def test_token_is_in_no_error(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Errors go into logs and reports: credentials must not."""
    server.answers(401)
    with pytest.raises(ApiError) as caught:
        kube.list(PODS)
    assert "s3cret" not in caught.value.message + caught.value.remedy


def test_refused_connection_is_said_at_once(tmp_path: Path, clock: FakeClock) -> None:
    """Nobody listens: that doesn't pass in a fifth of a second, so it isn't tried again."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ApiUnavailable, match=r"did not answer: Connection refused \(list pods\)") as caught:
            KubeAdapter(write_kubeconfig(tmp_path, {"server": url}), clock=clock).list(PODS)
    assert url in caught.value.remedy
    assert clock.monotonic() == 0.0


def test_unverified_tls_is_refused(tmp_path: Path) -> None:
    """A kubeconfig that turns verification off is a mistake here: the admin credentials would go to anybody."""
    path = write_kubeconfig(tmp_path, {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True})
    with pytest.raises(ConfigError, match="insecure-skip-tls-verify"):
        KubeAdapter(path).raw("/readyz")


def test_unknown_context_is_named(kubeconfig: Path) -> None:
    """A context that the kubeconfig doesn't have is an error of configuration, with the file's name."""
    with pytest.raises(ConfigError, match=r"kubeconfig.*production"):
        KubeAdapter(kubeconfig, "production").raw("/readyz")


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """`upgrader --help` must stay quick: the libraries come with the first request."""
    code = (
        "import sys, upgrader.adapters.kube, upgrader.adapters.hosts, upgrader.adapters.playbooks;"
        "sys.exit(' '.join({'kubernetes', 'urllib3', 'paramiko', 'ansible_runner'} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
