"""Clients and the rules that they follow, against a real server that misbehaves."""

from __future__ import annotations

import json
import time

import pytest

from tests.unit.availability.conftest import ApiServer
from upgrader.availability.clients import Client, FreshClient, KeptClient, Request
from upgrader.availability.endpoint import read_endpoint
from upgrader.availability.policy import Outcome, ask

GET = Request("GET", "/version")


def send(client: Client, request: Request = GET, deadline_seconds: float = 30.0) -> tuple[Outcome, list[float]]:
    """The outcome of a request, and how long the client was told to wait (it doesn't)."""
    waits: list[float] = []
    outcome = ask(
        client, request, deadline=time.monotonic() + deadline_seconds, monotonic=time.monotonic, sleep=waits.append
    )
    client.close()
    return outcome, waits


def kept(api: ApiServer) -> KeptClient:
    """A client that has a connection already."""
    client = KeptClient(read_endpoint(api.kubeconfig))
    assert client.send(GET, 30).ok
    return client


def test_a_fresh_client_connects_every_time(api: ApiServer) -> None:
    """Two requests are two connections, and both succeed over verified TLS with the kubeconfig's token."""
    client = FreshClient(read_endpoint(api.kubeconfig))
    assert client.send(GET, 30).ok
    assert client.send(GET, 30).ok
    assert len(api.connections) == 2


def test_a_kept_client_connects_once(api: ApiServer) -> None:
    """Two requests share a connection."""
    client = kept(api)
    assert client.send(GET, 30).ok
    client.close()
    assert len(api.connections) == 1


def test_a_kept_connection_that_closes_is_tried_once_more(api: ApiServer) -> None:
    """RFC 9112 lets a client repeat an idempotent request there: raw failure, but none of the client's."""
    client = kept(api)
    api.script = ["close"]
    assert send(client)[0] == Outcome(True, raw_failed=True)


def test_a_second_close_is_a_failure(api: ApiServer) -> None:
    """Once more means once: a server that goes on closing fails the request."""
    client = kept(api)
    api.script = ["close", "close"]
    assert send(client)[0] == Outcome(False, True, "closed without an answer")


def test_a_request_that_is_not_idempotent_is_not_repeated(api: ApiServer) -> None:
    """A POST on a connection that closed may have been carried out, so it has failed."""
    client = kept(api)
    api.script = ["close"]
    assert send(client, Request("POST", "/x", lambda: b"{}"))[0].ok is False
    assert api.requests.count(("POST", "/x")) == 1


def test_a_fresh_connection_that_closes_is_a_failure(api: ApiServer) -> None:
    """No rule lets a client repeat a request that the server closed a new connection on."""
    api.script = ["close"]
    assert send(FreshClient(read_endpoint(api.kubeconfig)))[0] == Outcome(False, True, "closed without an answer")


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(api: ApiServer, status: int) -> None:
    """429 and 503 with Retry-After are raw failures only: the client waits as long as it is told and asks again."""
    api.script = [(status, "2"), (status, "1")]
    assert send(FreshClient(read_endpoint(api.kubeconfig))) == (Outcome(True, raw_failed=True), [2.0, 1.0])


def test_retry_after_may_be_a_date(api: ApiServer) -> None:
    """The other form that RFC 9110 allows is read too; a time in the past means now."""
    api.script = [(503, "Wed, 21 Oct 2015 07:28:00 GMT")]
    assert send(FreshClient(read_endpoint(api.kubeconfig))) == (Outcome(True, raw_failed=True), [0.0])


@pytest.mark.parametrize("script", [[429], [503], [(403, "1")], [500], [(429, "soon")]])
def test_other_refusals_are_failures(api: ApiServer, script: list[int | tuple[int, str] | str]) -> None:
    """Without Retry-After, or with another status, there is nothing that a client may wait for."""
    api.script = script
    outcome, waits = send(FreshClient(read_endpoint(api.kubeconfig)))
    assert (outcome.ok, outcome.raw_failed, waits) == (False, True, [])


def test_a_wait_beyond_the_deadline_is_a_failure(api: ApiServer) -> None:
    """A server that asks for more patience than there is has failed the request."""
    api.script = [(429, "60")]
    assert send(FreshClient(read_endpoint(api.kubeconfig)))[0] == Outcome(False, True, "429 Too Many Requests")


def test_a_request_whose_time_has_passed_is_not_sent(api: ApiServer) -> None:
    """A request that waited too long for its connection has failed, rather than being late unnoticed."""
    outcome, _ = send(FreshClient(read_endpoint(api.kubeconfig)), deadline_seconds=0)
    assert (outcome.ok, outcome.error) == (False, "not sent: the tries before it took too long")
    assert api.requests == []


def test_an_update_creates_what_is_missing(api: ApiServer) -> None:
    """The first PUT is answered with 404 and followed by a POST; that is no failure, not even a raw one."""
    create = Request("POST", "/x", lambda: json.dumps({"metadata": {"name": "a"}}).encode())
    update = Request("PUT", "/x/a", lambda: b"{}", when_missing=create)
    assert send(FreshClient(read_endpoint(api.kubeconfig)), update)[0] == Outcome(True, raw_failed=False)
    assert api.requests == [("PUT", "/x/a"), ("POST", "/x")]


def test_nobody_listens(api: ApiServer) -> None:
    """A refused connection is a failure with that word, for either kind of client."""
    text = api.kubeconfig.read_text().replace(str(api.port), "1")
    api.kubeconfig.write_text(text)
    for client in (FreshClient(read_endpoint(api.kubeconfig)), KeptClient(read_endpoint(api.kubeconfig))):
        assert send(client)[0] == Outcome(False, True, "connection refused")


def test_a_stranger_is_not_trusted(api: ApiServer) -> None:
    """A server whose certificate is for another name is not the API server, whatever it answers."""
    config = json.loads(api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["tls-server-name"] = "elsewhere"
    api.kubeconfig.write_text(json.dumps(config))
    outcome, _ = send(FreshClient(read_endpoint(api.kubeconfig)))
    assert "certificate not trusted" in outcome.error
    assert api.requests == []


def test_the_name_may_differ_from_the_address(api: ApiServer) -> None:
    """`tls-server-name` is what the certificate is checked against."""
    config = json.loads(api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes"
    api.kubeconfig.write_text(json.dumps(config))
    assert send(FreshClient(read_endpoint(api.kubeconfig)))[0].ok
