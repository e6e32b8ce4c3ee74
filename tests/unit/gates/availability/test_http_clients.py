"""Clients and the rules that they follow, against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

import pytest

from testkit.waiting import stretched
from tests.unit.gates.availability.server import TOKEN, ApiServer, Step
from upgrader.gates.availability.api_endpoint import ApiEndpoint, read_endpoint
from upgrader.gates.availability.http_clients import Client, FreshClient, KeptClient, SharedClient
from upgrader.gates.availability.http_exchange import Attempt, Request
from upgrader.gates.availability.retry_policy import Outcome, ask

GET = Request("GET", "/version")
CREATE = Request("POST", "/x", json.dumps({"metadata": {"name": "a"}}).encode())

Kind = Callable[[ApiEndpoint], Client]


def fresh(endpoint: ApiEndpoint) -> Client:
    """A client that connects anew, by HTTP/1.1."""
    return FreshClient(endpoint, "HTTP/1.1")


def fresh2(endpoint: ApiEndpoint) -> Client:
    """A client that connects anew, by HTTP/2."""
    return FreshClient(endpoint, "HTTP/2")


ALL: tuple[Kind, ...] = (fresh, fresh2, KeptClient, SharedClient)
KEPT: tuple[Kind, ...] = (KeptClient, SharedClient)


def send(
    api: ApiServer,
    kind: Kind,
    request: Request = GET,
    *,
    script: tuple[Step, ...] = (),
    warm: bool = False,
    deadline_seconds: float = 30.0,
) -> tuple[Outcome, list[float]]:
    """The outcome of a request that meets a script, and how long the client was told to wait (it doesn't).

    `warm`: the client has used its connection before.
    """
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async def work() -> Outcome:
        client, now = kind(read_endpoint(api.kubeconfig)), asyncio.get_running_loop().time
        if warm:
            assert (await client.send(GET, now() + 30)).ok
            api.requests.clear()
        api.script[:] = script
        outcome = await ask(client, request, deadline=now() + deadline_seconds, monotonic=now, sleep=wait)
        client.close()
        return outcome

    return asyncio.run(work()), waits


def together(api: ApiServer, kind: Kind, count: int) -> list[Attempt]:
    """Requests that are all under way at the same time."""

    async def work() -> list[Attempt]:
        client, deadline = kind(read_endpoint(api.kubeconfig)), asyncio.get_running_loop().time() + 30
        attempts = await asyncio.gather(*(client.send(GET, deadline) for _ in range(count)))
        attempts += await asyncio.gather(*(client.send(GET, deadline) for _ in range(count)))
        client.close()
        return attempts

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("kind", "connections"),
    [(fresh, ["http/1.1"] * 6), (fresh2, ["h2"] * 6), (KeptClient, ["http/1.1"] * 3), (SharedClient, ["h2"])],
)
def test_connections(api: ApiServer, kind: Kind, connections: list[str]) -> None:
    """Twice three requests at once: fresh clients connect for each, kept ones only as often as they have to."""
    assert all(attempt.ok for attempt in together(api, kind, 3))
    assert api.connections == connections


@pytest.mark.parametrize("api", [False], indirect=True)
@pytest.mark.parametrize("kind", ALL)
def test_a_server_without_http2(api: ApiServer, kind: Kind) -> None:
    """Where the server doesn't agree on HTTP/2, its clients go on with HTTP/1.1, as every client does."""
    assert all(attempt.ok for attempt in together(api, kind, 3))
    assert set(api.connections) <= {"http/1.1"}


@pytest.mark.parametrize("kind", KEPT)
def test_a_kept_connection_that_closes_is_tried_once_more(api: ApiServer, kind: Kind) -> None:
    """RFC 9112 lets a client repeat an idempotent request there: raw failure, but none of the client's."""
    outcome, _ = send(api, kind, script=("close",), warm=True)
    assert outcome == Outcome(True, True, "closed without an answer")


@pytest.mark.parametrize("kind", KEPT)
def test_a_second_close_is_a_failure(api: ApiServer, kind: Kind) -> None:
    """Once more means once: a server that goes on closing fails the request."""
    outcome, _ = send(api, kind, script=("close", "close"), warm=True)
    assert outcome == Outcome(False, True, "closed without an answer")


@pytest.mark.parametrize("kind", KEPT)
def test_a_request_that_is_not_idempotent_is_not_repeated(api: ApiServer, kind: Kind) -> None:
    """A POST on a connection that closed may have been carried out, so it has failed."""
    outcome, _ = send(api, kind, CREATE, script=("close",), warm=True)
    assert not outcome.ok
    assert api.requests == [("POST", "/x")]


@pytest.mark.parametrize("kind", [fresh, fresh2])
def test_a_fresh_connection_that_closes_is_a_failure(api: ApiServer, kind: Kind) -> None:
    """No rule lets a client repeat a request that the server closed a new connection on."""
    assert send(api, kind, script=("close",))[0] == Outcome(False, True, "closed without an answer")


@pytest.mark.parametrize("kind", ALL)
def test_half_an_answer_is_a_failure(api: ApiServer, kind: Kind) -> None:
    """An answer that began can't be had again: it is a failure, also of an idempotent request on a kept connection."""
    outcome, _ = send(api, kind, script=("truncate",), warm=True)
    assert not outcome.ok
    assert outcome.error == "closed in the middle of the answer"


@pytest.mark.parametrize("kind", [fresh, SharedClient])
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(api: ApiServer, kind: Kind, status: int) -> None:
    """429 and 503 with Retry-After are raw failures only: the client waits as long as it is told and asks again."""
    outcome = send(api, kind, script=((status, "2"), (status, "1")))
    assert outcome == (Outcome(True, True, f"HTTP {status}"), [2.0, 1.0])


def test_retry_after_may_be_a_date(api: ApiServer) -> None:
    """The other form that RFC 9110 allows is read too; a time in the past means now."""
    outcome = send(api, fresh, script=((503, "Wed, 21 Oct 2015 07:28:00 GMT"),))
    assert outcome == (Outcome(True, True, "HTTP 503"), [0.0])


@pytest.mark.parametrize("step", [429, 503, (403, "1"), 500, (429, "soon")])
def test_other_refusals_are_failures(api: ApiServer, step: Step) -> None:
    """Without Retry-After, or with another status, there is nothing that a client may wait for."""
    outcome, waits = send(api, fresh, script=(step,))
    assert (outcome.ok, outcome.raw_failed, waits) == (False, True, [])


def test_a_wait_beyond_the_deadline_is_a_failure(api: ApiServer) -> None:
    """A server that asks for more patience than there is has failed the request."""
    assert send(api, fresh, script=((429, "60"),))[0] == Outcome(False, True, "HTTP 429")


@pytest.mark.parametrize("kind", ALL)
def test_a_server_that_never_answers(api: ApiServer, kind: Kind) -> None:
    """A request has failed at its deadline, and says what it waited for."""
    outcome, _ = send(api, kind, script=("hang",), deadline_seconds=stretched(1))
    assert outcome == Outcome(False, True, "timed out while waiting for the answer")


def test_a_request_whose_time_has_passed_is_not_sent(api: ApiServer) -> None:
    """A request that is too late to be sent has failed, rather than being late unnoticed."""
    outcome, _ = send(api, fresh, deadline_seconds=0)
    assert outcome == Outcome(False, True, "not sent: earlier attempts took too long")
    assert api.requests == []


@pytest.mark.parametrize("kind", ALL)
def test_an_update_creates_what_is_missing(api: ApiServer, kind: Kind) -> None:
    """The first PUT is answered with 404 and followed by a POST; that is no failure, not even a raw one."""
    update = Request("PUT", "/x/a", b"{}", when_missing=CREATE)
    assert send(api, kind, update)[0] == Outcome(True, raw_failed=False)
    assert api.requests == [("PUT", "/x/a"), ("POST", "/x")]


@pytest.mark.parametrize("script", [("leave",), ("refuse",)])
def test_what_a_server_did_not_process_is_sent_again(api: ApiServer, script: tuple[Step, ...]) -> None:
    """GOAWAY below the request and REFUSED_STREAM let a client repeat even a POST: a raw failure and no more."""
    outcome, _ = send(api, SharedClient, CREATE, script=script, warm=True)
    assert (outcome.ok, outcome.raw_failed) == (True, True)
    assert outcome.error.startswith("not processed")


def test_a_server_that_moves_its_clients_away(api: ApiServer) -> None:
    """GOAWAY in good order, before an answer that is still to come, costs nothing; the next request goes elsewhere."""
    outcome, _ = send(api, SharedClient, script=("drain",), warm=True)
    assert outcome == Outcome(True, raw_failed=False)

    async def work() -> list[bool]:
        api.script[:] = ["drain"]
        client, deadline = SharedClient(read_endpoint(api.kubeconfig)), asyncio.get_running_loop().time() + 30
        oks = [(await client.send(GET, deadline)).ok for _ in range(3)]
        client.close()
        return oks

    api.connections.clear()
    assert asyncio.run(work()) == [True, True, True]
    assert api.connections == ["h2", "h2"]


@pytest.mark.parametrize("kind", ALL)
def test_nobody_listens(api: ApiServer, kind: Kind) -> None:
    """A refused connection is a failure with that word, for every kind of client."""
    api.kubeconfig.write_text(api.kubeconfig.read_text().replace(str(api.port), "1"))
    assert send(api, kind)[0] == Outcome(False, True, "connection refused while connecting")


@pytest.mark.parametrize("kind", ALL)
def test_a_stranger_is_not_trusted(api: ApiServer, kind: Kind) -> None:
    """A server whose certificate is for another name is not the API server, whatever it answers."""
    config = json.loads(api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["tls-server-name"] = "elsewhere"
    api.kubeconfig.write_text(json.dumps(config))
    assert "certificate not trusted" in send(api, kind)[0].error
    assert api.requests == []


def test_the_name_may_differ_from_the_address(api: ApiServer) -> None:
    """`tls-server-name` is what the certificate is checked against."""
    config = json.loads(api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes"
    api.kubeconfig.write_text(json.dumps(config))
    assert send(api, fresh)[0].ok


def test_idle_connections_that_were_closed_are_not_used(api: ApiServer) -> None:
    """A client looks at a kept connection before it uses it: one that ended while idle costs nothing, not even raw."""

    async def work() -> Attempt:
        endpoint = read_endpoint(api.kubeconfig)
        client, loop = KeptClient(endpoint), asyncio.get_running_loop()
        assert (await client.send(GET, loop.time() + 30)).ok
        api.script[:] = ["bye"]
        assert (await client.send(GET, loop.time() + 30)).ok
        while not client._idle[0].stale:
            await asyncio.sleep(0)
        attempt = await client.send(GET, loop.time() + 30)
        client.close()
        return attempt

    assert asyncio.run(work()).ok
    assert len(api.connections) == 2


def test_a_token_that_has_ended_is_no_failure(api: ApiServer) -> None:
    """A projected token that was replaced while a client worked is read again: not even the first try has failed."""
    config = json.loads(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": "token"}
    api.kubeconfig.write_text(json.dumps(config))
    token = api.kubeconfig.parent / "token"

    async def work(kind: Kind) -> tuple[Outcome, Outcome]:
        token.write_text("ended")
        client, now = kind(read_endpoint(api.kubeconfig)), asyncio.get_running_loop().time
        token.write_text(TOKEN)
        seen = [await ask(client, GET, deadline=now() + 30, monotonic=now, sleep=asyncio.sleep) for _ in range(2)]
        client.close()
        return seen[0], seen[1]

    for kind in ALL:
        for outcome in asyncio.run(work(kind)):
            assert (outcome.ok, outcome.raw_failed) == (True, False)


@pytest.mark.parametrize("kind", KEPT)
def test_a_renewed_certificate_needs_a_new_connection(api: ApiServer, kind: Kind) -> None:
    """A server judges the certificate that a connection was opened with: kept ones are replaced."""
    config = json.loads(api.kubeconfig.read_text())
    folder = api.kubeconfig.parent
    config["users"][0]["user"] |= {"client-certificate": "server.pem", "client-key": "server.pem"}
    api.kubeconfig.write_text(json.dumps(config))

    async def work() -> None:
        client, now = kind(read_endpoint(api.kubeconfig)), asyncio.get_running_loop().time
        assert (await client.send(GET, now() + 30)).ok
        assert (await client.send(GET, now() + 30)).ok
        assert len(api.connections) == 1
        (folder / "server.pem").write_text((folder / "server.pem").read_text() + "\n")
        assert await client.credentials.renewed(client.credentials.version)
        assert (await client.send(GET, now() + 30)).ok
        client.close()

    asyncio.run(work())
    assert len(api.connections) == 2


class Proxy:
    """An HTTP proxy for one connection after the other; `asked` has the head of each request."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n") -> None:
        self.asked: list[str] = []
        self.tasks: list[asyncio.Task[None] | None] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass everything on, after the answer."""
        self.tasks.append(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        writer.write(self._answer)
        if b" 200 " in self._answer:
            host, _, port = head.split()[1].rpartition(":")
            there, to = await asyncio.open_connection(host, int(port))
            await asyncio.gather(_pass_on(reader, to), _pass_on(there, writer))
        writer.close()


async def _pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(65536):
            to.write(part)
    to.close()


def through(api: ApiServer, proxy: Proxy, kind: Kind) -> Attempt:
    """A request through a proxy that the kubeconfig names."""

    async def work() -> Attempt:
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        config = json.loads(api.kubeconfig.read_text())
        port = server.sockets[0].getsockname()[1]
        config["clusters"][0]["cluster"]["proxy-url"] = f"http://me:secret@127.0.0.1:{port}"
        api.kubeconfig.write_text(json.dumps(config))
        client = kind(read_endpoint(api.kubeconfig))
        attempt = await client.send(GET, asyncio.get_running_loop().time() + 30)
        client.close()
        await asyncio.gather(*filter(None, proxy.tasks))
        server.close()
        return attempt

    return asyncio.run(work())


@pytest.mark.parametrize("kind", ALL)
def test_a_proxy_is_used(api: ApiServer, kind: Kind) -> None:
    """Every kind of client goes through the kubeconfig's proxy, and logs in there."""
    proxy = Proxy()
    assert through(api, proxy, kind).ok
    assert proxy.asked[0].startswith(f"CONNECT 127.0.0.1:{api.port} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in proxy.asked[0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [(b"HTTP/1.1 407 Login required\r\n\r\n", "refused the connection: HTTP/1.1 407"), (b"", "without an answer")],
)
def test_a_proxy_that_refuses_is_named(api: ApiServer, answer: bytes, message: str) -> None:
    """What a proxy refuses is told as its answer, without its password."""
    attempt = through(api, Proxy(answer), fresh)
    assert message in attempt.error and "secret" not in attempt.error
