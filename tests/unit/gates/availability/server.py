"""A small API server for HTTP/1.1 and HTTP/2 that keeps ConfigMaps, lets them be watched, and misbehaves as told."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events

from testkit.waiting import stretched

TOKEN = "sesame"
Step = int | tuple[int, str] | str
Answer = tuple[int, bytes]


@dataclass
class ApiServer:
    """What the server did, and what it shall do: each entry of `script` is for one request, then all is well.

    Entries: a status, a (status, Retry-After) pair, or a word: "close" (end the connection without an answer),
    "hang" (no answer, no end), "truncate" (end it in the middle of the answer), "bye" (end it after the answer,
    without a word: HTTP/1.1), "refuse" (the stream), "leave" (say that this request won't be processed here, and go),
    "drain" (say that there shall be no further requests, answer this one, then go; the last three are for HTTP/2).

    `watch_script` is the same for watches: "end" (in good order), "break" (without), "lose" (leave the next event
    out), "again" (tell the last event a second time), 410.
    """

    kubeconfig: Path
    port: int
    script: list[Step] = field(default_factory=list)
    watch_script: list[Step] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of all but those of watches."""
    watches: list[str] = field(default_factory=list)
    """The queries of lists and watches of one object."""
    connections: list[str] = field(default_factory=list)
    """The protocol of each connection, in order."""
    objects: set[str] = field(default_factory=set)
    hanging: threading.Event = field(default_factory=threading.Event)
    """Set when a request hangs."""
    release: threading.Event = field(default_factory=threading.Event)
    """Ends all hanging."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    version: int = 100
    hang_writes: bool = False
    """Whether no PUT is answered."""
    open_writes: int = 0

    def write(self, name: str) -> bytes:
        """Change an object; tells watches."""
        with self.changed:
            self.version += 1
            self.objects.add(name)
            self.changed.notify_all()
            return _object(self.version)

    def next_step(self, script: list[Step]) -> Step | None:
        """Take the next entry."""
        with self.changed:
            return script.pop(0) if script else None


@dataclass(frozen=True)
class Connection:
    """One client's."""

    state: ApiServer
    tls: ssl.SSLSocket

    def serve(self) -> None:
        """Until either end has enough."""
        with contextlib.suppress(OSError), self.tls:
            self.tls.do_handshake()
            protocol = self.tls.selected_alpn_protocol() or ""
            self.state.connections.append(protocol)
            with contextlib.suppress(_Enough):
                if protocol == "h2":
                    _Http2(self).serve()
                else:
                    self.serve_http1()
            # Otherwise what the client sent meanwhile would turn the end into a reset, and take the answer with it.
            self.tls.shutdown(socket.SHUT_WR)
            while self.tls.recv(65536):
                """Until the client has gone."""

    def serve_http1(self) -> None:
        """One request after the other."""
        with self.tls.makefile("rb") as reader:
            while line := reader.readline().decode():
                method, path, _ = line.split(" ")
                headers = {}
                while field_line := reader.readline().decode().strip():
                    name, _, value = field_line.partition(":")
                    headers[name.lower()] = value.strip()
                body = reader.read(int(headers.get("content-length", 0)))
                if "watch=1" in path:
                    self.tls.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    watch(self.state, path, lambda part: self.tls.sendall(b"%x\r\n%s\r\n" % (len(part), part)))
                    self.tls.sendall(b"0\r\n\r\n")
                    continue
                step, (status, content) = answer(self.state, method, path, body, headers)
                if step == "close":
                    return
                wait = f"Retry-After: {step[1]}\r\n" if isinstance(step, tuple) else ""
                self.tls.sendall(f"HTTP/1.1 {status} X\r\n{wait}Content-Length: {len(content)}\r\n\r\n".encode())
                if step == "truncate":
                    self.tls.sendall(content[:1])
                    return
                self.tls.sendall(content)
                if step == "bye":
                    return


class _Enough(Exception):
    """The connection ends here."""


class _Http2:
    def __init__(self, connection: Connection) -> None:
        self.state, self.tls = connection.state, connection.tls
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.lock = threading.Lock()
        self.asked: dict[int, tuple[dict[str, str], bytearray]] = {}

    def serve(self) -> None:
        self.h2.initiate_connection()
        self.flush()
        while data := self.tls.recv(65536):
            with self.lock:
                events = self.h2.receive_data(data)
            for event in events:
                if isinstance(event, h2.events.RequestReceived):
                    assert event.headers is not None and event.stream_id is not None
                    headers = {str(name): str(value) for name, value in event.headers}
                    self.asked[event.stream_id] = headers, bytearray()
                elif isinstance(event, h2.events.DataReceived):
                    assert event.stream_id is not None and event.data is not None
                    self.asked[event.stream_id][1].extend(event.data)
                elif isinstance(event, h2.events.StreamEnded):
                    assert event.stream_id is not None
                    headers, body = self.asked[event.stream_id]
                    self.on_request(event.stream_id, headers, bytes(body))
            self.flush()

    def flush(self) -> None:
        with self.lock:
            self.tls.sendall(self.h2.data_to_send())

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        with self.lock:
            self.h2.send_data(stream, data, end_stream=end)
        self.flush()

    def goaway(self, last: int) -> None:
        """By hand: the library would end the connection with it."""
        self.tls.sendall(struct.pack(">I", 8)[1:] + struct.pack(">BBIII", 7, 0, 0, last, 0))

    def on_request(self, stream: int, headers: dict[str, str], body: bytes) -> None:
        path = headers[":path"]
        if "watch=1" in path:
            threading.Thread(target=self.watch, args=(stream, path), daemon=True).start()
            return
        step, (status, content) = answer(self.state, headers[":method"], path, body, headers)
        match step:
            case "close":
                raise _Enough
            case "refuse":
                with self.lock:
                    self.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
                return
            case "leave":
                self.goaway(stream - 2 if stream > 1 else 0)
                raise _Enough
            case "drain":
                self.goaway(2**31 - 1)
        wait = [("retry-after", step[1])] if isinstance(step, tuple) else []
        with self.lock:
            self.h2.send_headers(stream, [(":status", str(status)), *wait])
        self.flush()
        if step == "truncate":
            self.send(stream, content[:1])
            raise _Enough
        self.send(stream, content, end=True)
        if step == "drain":
            self.goaway(stream)

    def watch(self, stream: int, path: str) -> None:
        with contextlib.suppress(OSError, _Enough):
            with self.lock:
                self.h2.send_headers(stream, [(":status", "200")])
            self.flush()
            try:
                watch(self.state, path, lambda part: self.send(stream, part))
            except _Enough:
                self.tls.shutdown(socket.SHUT_RDWR)
                raise
            with self.lock:
                self.h2.end_stream(stream)
            self.flush()


def answer(
    state: ApiServer, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[Step | None, Answer]:
    """What the script says of this request, and its answer."""
    if "fieldSelector" in path:
        state.watches.append(path)
        return None, (200, _object(state.version))
    state.requests.append((method, path))
    step = state.next_step(state.script)
    if state.hang_writes and method == "PUT":
        state.open_writes += 1
        step = "hang"
    if step == "hang":
        state.hanging.set()
        state.release.wait()
        step = "close"
    if isinstance(step, tuple | int):
        return step, (step if isinstance(step, int) else step[0], b"{}")
    return step, usual(state, method, path, body, headers)


def usual(state: ApiServer, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    """What a well server does."""
    if headers.get("authorization") != f"Bearer {TOKEN}":
        return 401, b"{}"
    name = path.rpartition("/")[2]
    if method == "POST":
        return 201, state.write(json.loads(body)["metadata"]["name"])
    if method == "PUT":
        return (200, state.write(name)) if name in state.objects else (404, b"{}")
    if method == "DELETE":
        state.objects.discard(name)
    return 200, b"{}"


def watch(state: ApiServer, path: str, tell: Callable[[bytes], None]) -> None:
    """Tell of every version after the one asked for, until the script says otherwise."""
    state.watches.append(path)
    told = int(parse_qs(urlsplit(path).query)["resourceVersion"][0])
    while True:
        with state.changed:
            while not (state.version > told or state.watch_script or state.release.is_set()):
                state.changed.wait(stretched(60))
            newest = state.version
        step = state.next_step(state.watch_script)
        match step:
            case "end":
                return
            case "break":
                raise _Enough
            case 410:
                told = newest
                status = {"kind": "Status", "code": 410, "message": "too old resource version"}
                tell(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                return
            case "lose":
                told += 1
            case "again":
                tell(_event(told))
        if state.release.is_set():
            return
        for version in range(told + 1, newest + 1):
            tell(_event(version))
        told = max(told, newest)


def _object(version: int) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": str(version)}}).encode()


def _event(version: int) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": json.loads(_object(version))}).encode() + b"\n"


class Listener:
    """Accepts connections in a thread until it is closed, and serves each in one of its own."""

    def __init__(self, folder: Path, kubeconfig: Path, *, http2: bool) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(folder / "server.pem")
        self._tls.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.state = ApiServer(kubeconfig, self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end all hanging."""
        self.state.release.set()
        with self.state.changed:
            self.state.changed.notify_all()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return  # closed
            with contextlib.suppress(OSError):  # the client may have gone already
                plain.settimeout(stretched(60))
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                tls = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
                threading.Thread(target=Connection(self.state, tls).serve, daemon=True).start()
