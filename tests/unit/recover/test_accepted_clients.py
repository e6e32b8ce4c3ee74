"""Which clients an API server accepts, asked on a host with what lies there; and how pods are stopped there."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from testkit.certificates import Authority
from testkit.waiting import stretched
from upgrader.onhost.common import tls
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import accepted_clients, container_facts, stop_pods
from upgrader.onhost.facts.accepted_clients import accepted
from upgrader.onhost.node.cri import Runtime

NAMES = ("system:node:c1", "system:kube-controller-manager", "system:kube-scheduler")
UID = "io.kubernetes.pod.uid"


class Sandbox:
    """As much of a sandbox as is asked for."""

    def __init__(self, name: str, uid: str, *, ready: bool = True, from_file: bool = False) -> None:
        self.id, self.name, self.namespace = f"s-{uid}", name, "kube-system"
        self.labels, self.ready, self.from_file = {UID: uid}, ready, from_file


class FakeRuntime:
    """A container runtime with these pods."""

    def __init__(self, *pods: Sandbox) -> None:
        self.pods, self.stopped = pods, list[str]()

    def sandboxes(self) -> list[Any]:
        return list(self.pods)

    def stop(self, sandbox: str) -> None:
        self.stopped.append(sandbox)


class Server:
    """An API server with TLS that refuses the tokens, common names and paths that it is told to."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self.refused: dict[str, int] = {}
        self.writes = (201, b"{}")
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                peer: Any = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
                names = [value for part in (peer or {}).get("subject", ()) for _, value in part]
                token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                server.asked.append(self.path)
                self.send_response(
                    next((server.refused[key] for key in (*names, token, self.path) if key in server.refused), 200)
                )
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                server.asked.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = server.writes
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
        own.load_cert_chain(folder / "server.pem")
        own.verify_mode = ssl.CERT_OPTIONAL
        self.http = HTTPServer((address, 0), Handler)
        self.http.socket = own.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_port
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Stop it."""
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(stretched(5))


def _pem(folder: Path, name: str) -> bytes:
    return (folder / f"{name}.pem").read_bytes() + (folder / f"{name}.key").read_bytes()


def _token(seconds: float, account: str = "coredns", begun: float = 600) -> str:
    now = time.time()
    said = {"exp": now + seconds, "nbf": now - begun, "iat": now - begun, "sub": f"system:serviceaccount:x:{account}"}
    claims = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    return f"head.{claims}.{seconds:.0f}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An API server, and a host with the kubelet's certificate and those of two components."""
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    authority = Authority(certificates / "ca")
    for name in ("server", "system:node:c1", "system:kube-controller-manager", "system:kube-scheduler"):
        authority.issue(certificates / name, name)
    (certificates / "server.pem").write_bytes(_pem(certificates, "server"))
    files = {
        "etc/kubernetes/pki/ca.crt": (certificates / "ca.pem").read_bytes(),
        "var/lib/kubelet/pki/kubelet-client-current.pem": _pem(certificates, "system:node:c1"),
    }
    for name in ("controller-manager", "scheduler"):
        parts = {
            part: base64.b64encode((certificates / f"system:kube-{name}.{suffix}").read_bytes()).decode()
            for part, suffix in (("certificate", "pem"), ("key", "key"))
        }
        text = "".join(f"    client-{part}-data: {value}\n" for part, value in parts.items())
        files[f"etc/kubernetes/{name}.conf"] = text.encode()
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    served = Server(certificates)
    monkeypatch.setattr(accepted_clients, "API_NAME", "127.0.0.1")
    try:
        yield served
    finally:
        served.close()


def _with_token(root: Path, uid: str, token: str) -> None:
    folder = root / f"var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~projected/kube-api-access-x"
    folder.mkdir(parents=True)
    (folder / "token").write_text(token)


def test_every_client_is_asked_for_as_itself(server: Server, tmp_path: Path) -> None:
    """The kubelet, the components and a running pod: each with its own credentials, each with its own answer."""
    token = _token(3600)
    _with_token(tmp_path, "u1", token)
    server.refused = {"system:kube-scheduler": 403, token: 401}
    found = accepted(str(tmp_path), {server.port}, FakeRuntime(Sandbox("coredns-1", "u1")))  # type: ignore[arg-type]
    assert {item["name"]: item["status"] for item in found} == {
        "kubelet": 200,
        "kube-controller-manager": 200,
        "kube-scheduler": 403,
        "the token of kube-system/coredns-1": 401,
    }
    assert token not in json.dumps(found)


@pytest.fixture
def instance(server: Server, tmp_path: Path) -> Iterator[Server]:
    """An instance at an address of its own, on the same host."""
    private = Server(tmp_path / "certificates", "127.9.0.1")
    yield private
    private.close()


DENIED = b'{"message": "events \\"upgrader-trial\\" is forbidden: admission control is denying all modifications"}'


def test_server_that_accepts_everybody_and_lacks_the_rest_is_known(instance: Server, tmp_path: Path) -> None:
    """The kubelet also asks for what no right server refuses it: the workloads' API, and a dry-run write."""
    instance.refused, instance.writes = {"/apis/apps/v1": 404}, (403, DENIED)
    found = accepted(str(tmp_path), {instance.port}, FakeRuntime())  # type: ignore[arg-type]
    assert {item["name"]: item["status"] for item in found if item["conclusive"]} == {
        "kubelet's GET /apis/apps/v1": 404,
        "kubelet's dry-run write of an Event": 403,
    }
    assert "/api/v1/namespaces/default/events?dryRun=All" in instance.asked


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'events is forbidden: User "system:node:c1" cannot create resource "events" in API group ""'),
        (403, 'admission webhook "x.example" denied the request'),
        (403, "expression 'object.type == \"Warning\"' resulted in error: no such key: type"),  # matchConditions
        (403, 'policy "p" with binding "b" denied request: no'),
        (403, "exceeded quota: events"),
        (403, "not yet ready to handle request"),
        (403, ""),
        (500, "admission control is denying all modifications"),
        (422, "Event is invalid"),
    ],
)
def test_refused_write_that_another_server_would_refuse_too(
    instance: Server, tmp_path: Path, status: int, message: str
) -> None:
    """Rights, webhooks and quotas are stored in the API, and a server error passes: no evidence against this one."""
    instance.writes, instance.refused = (status, json.dumps({"message": message}).encode()), {"/apis/apps/v1": 500}
    found = accepted(str(tmp_path), {instance.port}, FakeRuntime())  # type: ignore[arg-type]
    assert found and not [item for item in found if item["conclusive"]]


def test_client_that_is_refused_is_asked_for_nothing_more(instance: Server, tmp_path: Path) -> None:
    """To whom it doesn't accept, a server may well deny that a path exists."""
    instance.refused = {"system:node:c1": 401}
    accepted(str(tmp_path), {instance.port}, FakeRuntime())  # type: ignore[arg-type]
    assert not any("events" in path or "apps" in path for path in instance.asked)


def test_address_that_several_may_share_gives_no_conclusive_evidence(server: Server, tmp_path: Path) -> None:
    """Where an older chart's instances share a port, each request may meet another one of them."""
    server.refused, server.writes = {"/apis/apps/v1": 404}, (403, DENIED)
    found = accepted(str(tmp_path), {server.port}, FakeRuntime())  # type: ignore[arg-type]
    assert len(found) == 3 and not [item for item in found if item["conclusive"]]


def test_write_that_hangs_leaves_what_is_known(
    instance: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook without a backend may hold a write back; tokens that are refused are known all the same."""

    def get(*asked: Any, body: str | None = None, **more: Any) -> tuple[int, str]:
        if body is not None:
            raise Failed("no answer within 4 s")
        return tls.get(*asked, **more)

    monkeypatch.setattr(accepted_clients, "get", get)
    tokens = [_token(3600, account) for account in ("coredns", "kube-proxy")]
    for uid, token in zip(("u1", "u2"), tokens, strict=True):
        _with_token(tmp_path, uid, token)
    instance.refused = {**dict.fromkeys(tokens, 401), "/apis/apps/v1": 404}
    found = accepted(str(tmp_path), {instance.port}, FakeRuntime(Sandbox("a", "u1"), Sandbox("b", "u2")))  # type: ignore[arg-type]
    assert [item["status"] for item in found if "token" in item["name"]] == [401, 401]
    assert [item["status"] for item in found if item["conclusive"]] == [404]


def test_each_instance_is_asked_at_its_private_address(server: Server, tmp_path: Path) -> None:
    """Each answer says which pod gave it; an instance that isn't ready yet, and one that answers nothing, are left out.

    What any of them may answer, at an address that they share, proves nothing about one.
    """
    for uid, address in (("u-right", "127.9.0.1"), ("u-wrong", "127.9.0.2")):
        folder = tmp_path / f"var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/runtime"
        folder.mkdir(parents=True)
        (folder / "address.env").write_text(f"PRIVATE_ADDRESS='{address}'\n")
    certificates = tmp_path / "certificates"
    with contextlib.ExitStack() as stack:
        right, wrong, starting, foreign = (
            Server(certificates, address) for address in ("127.9.0.1", "127.9.0.2", "127.9.0.3", "127.9.0.4")
        )
        for each in (right, wrong, starting, foreign):
            stack.callback(each.close)
        wrong.refused = dict.fromkeys(NAMES, 401)
        starting.refused = {"/readyz": 500, **dict.fromkeys(NAMES, 403)}
        silent = socket.create_server(("127.9.0.5", 0))
        stack.callback(silent.close)

        def hang_up() -> None:
            silent.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        ports = {each.port for each in (server, right, wrong, starting, foreign)} | {silent.getsockname()[1]}
        pods = (Sandbox("kube-apiserver-a", "u-right"), Sandbox("kube-apiserver-b", "u-wrong"))
        found = accepted(str(tmp_path), ports, FakeRuntime(*pods))  # type: ignore[arg-type]
    answers = [("u-right", 200)] * 3 + [("u-wrong", 401)] * 3 + [("", 200)] * 3
    assert [(item["pod"], item["status"]) for item in found] == answers
    assert found[0]["address"] == f"127.9.0.1:{right.port}"
    assert server.asked == []


def test_instances_that_hang_leave_the_others_answers(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody on the host may listen at a loopback address, and say nothing."""
    monkeypatch.setattr(accepted_clients, "_INSTANCE_SECONDS", stretched(0.5))
    with contextlib.ExitStack() as stack:
        wrong = Server(tmp_path / "certificates", "127.9.0.9")
        stack.callback(wrong.close)
        wrong.refused = dict.fromkeys(NAMES, 401)
        silent = [socket.create_server((f"127.9.0.{number}", 0)) for number in (1, 2, 3, 4)]
        for each in silent:
            stack.callback(each.close)
        ports = {wrong.port, *(each.getsockname()[1] for each in silent)}
        found = accepted(str(tmp_path), ports, FakeRuntime())  # type: ignore[arg-type]
        assert [item["status"] for item in found] == [401] * 3
        with pytest.raises(Failed, match="no answer"):
            accepted(str(tmp_path), ports - {wrong.port}, FakeRuntime())  # type: ignore[arg-type]


def test_volumes_of_others_are_not_read(server: Server, tmp_path: Path) -> None:
    """A tenant decides what is in his volume: a FIFO blocks, a link leads anywhere, and a forged address would hide the
    real pod's. In ours, what isn't a plain file is left alone as well.
    """
    private = Server(tmp_path / "certificates", "127.9.0.1")
    for uid in ("u-tenant", "u-fifo", "u-link", "u-other"):
        (tmp_path / f"var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/runtime").mkdir(parents=True)
    files = {
        uid: tmp_path / f"var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/runtime/address.env"
        for uid in ("u-tenant", "u-fifo", "u-link", "u-other")
    }
    for uid in ("u-tenant", "u-other"):
        files[uid].write_text("PRIVATE_ADDRESS='127.9.0.1'\n")
    os.mkfifo(files["u-fifo"])
    files["u-link"].symlink_to(files["u-tenant"])
    tenant = Sandbox("kube-apiserver-x", "u-tenant")
    tenant.namespace = "tenant"
    odd = Sandbox("kube-apiserver-y", "../x")
    ours = (Sandbox("kube-apiserver-f", "u-fifo"), Sandbox("kube-apiserver-l", "u-link"), odd)
    runtime = FakeRuntime(tenant, Sandbox("web", "u-other"), *ours)
    try:
        found = accepted(str(tmp_path), {private.port}, runtime)  # type: ignore[arg-type]
    finally:
        private.close()
    assert {item["pod"] for item in found} == {""} and len(found) == 3


def test_tokens_that_prove_nothing_are_left_out(server: Server, tmp_path: Path) -> None:
    """Expired, not valid yet after a clock was set back, damaged, of a user's pod, of one that doesn't run, or of a
    static pod: their refusal would be their own fault.
    """
    tokens = {"u1": _token(10), "u2": "garbage", "u3": _token(3600), "u4": _token(3600), "u6": _token(3600)}
    for uid, token in {**tokens, "u7": _token(3600, begun=-3000)}.items():
        _with_token(tmp_path, uid, token)
    tenant = Sandbox("f", "u6")
    tenant.namespace = "tenant"
    pods = (Sandbox("a", "u1"), Sandbox("b", "u2"), Sandbox("c", "u3", ready=False), Sandbox("d", "u4", from_file=True))
    found = accepted(str(tmp_path), {server.port}, FakeRuntime(*pods, tenant, Sandbox("e", "u5"), Sandbox("g", "u7")))  # type: ignore[arg-type]
    assert [item["name"] for item in found] == ["kubelet", "kube-controller-manager", "kube-scheduler"]


def test_one_token_of_each_service_account_is_enough(server: Server, tmp_path: Path) -> None:
    """Two pods of one ServiceAccount that was deleted would agree with each other."""
    for uid, account in (("u1", "coredns"), ("u2", "coredns"), ("u3", "kube-proxy")):
        _with_token(tmp_path, uid, _token(3600, account))
    pods = (Sandbox("a", "u1"), Sandbox("b", "u2"), Sandbox("c", "u3"))
    found = accepted(str(tmp_path), {server.port}, FakeRuntime(*pods))  # type: ignore[arg-type]
    assert [item["name"] for item in found][-2:] == ["the token of kube-system/a", "the token of kube-system/c"]
    assert all("PRIVATE" not in item["certificate"] for item in found)
    assert "BEGIN CERTIFICATE" in found[0]["certificate"]


def test_credentials_that_are_not_there_are_not_asked_for(server: Server, tmp_path: Path) -> None:
    """A host without the components' files, or with a damaged certificate, is asked with what is left."""
    (tmp_path / "etc/kubernetes/controller-manager.conf").unlink()
    (tmp_path / "etc/kubernetes/scheduler.conf").write_text("users: []")
    (tmp_path / "var/lib/kubelet/pki/kubelet-client-current.pem").write_text("damaged")
    assert accepted(str(tmp_path), {server.port}, FakeRuntime()) == []  # type: ignore[arg-type]
    (tmp_path / "var/lib/kubelet/pki/kubelet-client-current.pem").unlink()
    assert accepted(str(tmp_path), {server.port}, FakeRuntime()) == []  # type: ignore[arg-type]


def test_no_server_is_no_answer(tmp_path: Path) -> None:
    """Where nothing listens, what it would accept is unknown."""
    with pytest.raises(Failed, match="doesn't listen"):
        accepted(str(tmp_path), {1}, FakeRuntime())  # type: ignore[arg-type]


def test_only_the_named_pods_are_stopped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod by its UID, as long as it runs; every other one is left alone."""
    runtime = FakeRuntime(Sandbox("a", "u1"), Sandbox("b", "u2"), Sandbox("c", "u3", ready=False))
    monkeypatch.setattr(container_facts, "runtime", lambda *_: runtime)
    stop_pods.main("u1", "u3")
    assert runtime.stopped == ["s-u1"]
    assert json.loads(capsys.readouterr().out) == {"stopped": ["a"]}


def test_runtime_that_refuses_to_stop_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason comes back as an answer, not as a traceback."""

    def fail(_method: str, _request: bytes) -> bytes:
        raise Failed("containerd: no answer")

    monkeypatch.setattr(container_facts, "runtime", lambda *_: Runtime(fail))
    stop_pods.main("u1")
    assert json.loads(capsys.readouterr().out) == {"failed": "pods could not be stopped: containerd: no answer"}


def test_stopping_a_sandbox_is_one_call() -> None:
    """`StopPodSandbox` with the sandbox's ID, as the CRI has it."""
    calls: list[tuple[str, bytes]] = []
    Runtime(lambda method, request: calls.append((method, request)) or b"").stop("s1")  # type: ignore[func-returns-value]
    assert calls == [("/runtime.v1.RuntimeService/StopPodSandbox", b"\n\x02s1")]
