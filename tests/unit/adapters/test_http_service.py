"""Requests to services beside the cluster: every one ends in time, verified, and keeps its secrets."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.http_server import Handler, HttpServer, http_server
from tests.unit.gates.availability.server import ApiServer
from upgrader.adapters.http_service import HttpClient
from upgrader.errors import ServiceError
from upgrader.model.observability import HttpEndpoint
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.redaction.printable import mask_secrets

SECONDS = 30.0


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine's environment says."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server(lambda request: request.reply(200, b"well")) as state:
        yield state


def test_answer(server: HttpServer) -> None:
    """Method, path, body and headers arrive; status and body come back, whatever the status."""
    server.answer = lambda request: request.reply(503, b"later")
    answer = HttpClient(HttpEndpoint(server.url), SECONDS).send("PUT", "/a?b=c", b"body", {"X-A": "1"})
    assert (answer.status, answer.body) == (503, b"later")
    assert (server.requests, server.bodies, server.headers["X-A"]) == (["PUT /a?b=c"], [b"body"], "1")


def test_request_after_one_that_was_answered(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has handed over its answer, and hasn't ended yet on a busy machine, keeps no other from asking."""
    monkeypatch.setattr(threading.Thread, "is_alive", lambda _: True)
    client = HttpClient(HttpEndpoint(server.url), SECONDS)
    assert [client.send("GET", "/").body for _ in range(2)] == [b"well", b"well"]


def test_password(server: HttpServer, tmp_path: Path) -> None:
    """It is read from its file for each request, and masked from then on."""
    file = tmp_path / "password"
    client = HttpClient(HttpEndpoint(server.url, username="ann", password_file=file), SECONDS)
    file.write_text("hunter22\n")
    client.send("GET", "/")
    assert server.headers["Authorization"] == "Basic YW5uOmh1bnRlcjIy"
    assert "hunter22" not in mask_secrets("it said hunter22") and "YW5u" not in mask_secrets("x YW5uOmh1bnRlcjIy")
    file.write_text("changed!")
    client.send("GET", "/")
    assert server.headers["Authorization"] == "Basic YW5uOmNoYW5nZWQh"


def test_token(server: HttpServer, tmp_path: Path) -> None:
    """A bearer token works the same way."""
    (tmp_path / "token").write_text("t0ken-of-mine")
    HttpClient(HttpEndpoint(server.url, token_file=tmp_path / "token"), SECONDS).send("GET", "/")
    assert server.headers["Authorization"] == "Bearer t0ken-of-mine"


@pytest.mark.parametrize("content", [None, "", "two\nlines"])
def test_secret_that_is_none(server: HttpServer, tmp_path: Path, content: str | None) -> None:
    """Without the credentials that upgrader.yaml wants, nothing is sent at all."""
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(ServiceError, match="token") as caught:
        HttpClient(HttpEndpoint(server.url, token_file=tmp_path / "token"), SECONDS).send("GET", "/")
    assert server.requests == [] and "lines" not in caught.value.message.replace("must contain exactly one line", "")


def test_secret_of_a_team(server: HttpServer, tmp_path: Path) -> None:
    """What is learned for one cluster is masked in what is said of it, and not in what is said of all others."""
    (tmp_path / "token").write_text("rolled-back-by-ann")
    with KNOWN.apart():
        HttpClient(HttpEndpoint(server.url, token_file=tmp_path / "token"), SECONDS).send("GET", "/")
        assert "rolled-back-by-ann" not in KNOWN.mask("it was rolled-back-by-ann")
    assert KNOWN.mask("it was rolled-back-by-ann") == "it was rolled-back-by-ann"


def test_redirects_are_not_followed(server: HttpServer) -> None:
    """Credentials are for the server that upgrader.yaml names, and for no other."""
    server.answer = lambda request: request.reply(302, Location=server.url + "/elsewhere")
    assert HttpClient(HttpEndpoint(server.url), SECONDS).send("GET", "/a").status == 302
    assert server.requests == ["GET /a"]


def test_server_that_does_not_answer(server: HttpServer) -> None:
    """The request ends at its deadline, and no second one is begun beside it."""
    server.answer = lambda request: (server.over.wait(), None)[1]
    client = HttpClient(HttpEndpoint(server.url), 0.05)
    with pytest.raises(ServiceError, match=r"no answer within 0\.05 s"):
        client.send("GET", "/")
    assert client._late_one is not None
    if client._late_one.is_alive():
        with pytest.raises(ServiceError):
            client.send("GET", "/")
    server.over.set()


def test_answer_in_drops(server: HttpServer) -> None:
    """A server that sends a byte now and then, for ever, is left at the deadline, too."""

    def drip(request: Handler) -> None:
        request.send_response(200)
        request.end_headers()
        while not server.over.wait(0.01):
            request.wfile.write(b"x")

    server.answer = drip
    with pytest.raises(ServiceError, match="the request to"):
        HttpClient(HttpEndpoint(server.url), 0.1).send("GET", "/")


def test_endless_answer(server: HttpServer) -> None:
    """An answer that is far too long isn't kept in memory."""

    def flood(request: Handler) -> None:
        request.send_response(200)
        request.end_headers()
        while not server.over.is_set():
            request.wfile.write(b"x" * 65536)

    server.answer = flood
    with pytest.raises(ServiceError, match="bytes"):
        HttpClient(HttpEndpoint(server.url), SECONDS).send("GET", "/")


def test_nobody_listens() -> None:
    """The error names the service and the cause, and has no URL's path, which may be a secret."""
    with http_server(lambda request: None) as gone:
        url = gone.url
    with pytest.raises(ServiceError, match=r"^the request to 127\.0\.0\.1:\d+ failed: .*refused") as caught:
        HttpClient(HttpEndpoint(url + "/services/T0/B0"), SECONDS).send("POST", "/x")
    assert "B0" not in caught.value.message


def test_certificate_is_verified(api: ApiServer, tmp_path: Path) -> None:
    """A certificate of the CA that is named is accepted, and no other."""
    url = json.loads((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    with pytest.raises(ServiceError, match=r"(?i)certificate verify failed"):
        HttpClient(HttpEndpoint(url), SECONDS).send("GET", "/readyz")
    assert HttpClient(HttpEndpoint(url, ca_file=tmp_path / "ca.crt"), SECONDS).send("GET", "/readyz").status > 0


def test_ca_that_is_none(tmp_path: Path) -> None:
    """A CA file without a certificate is an error, never a reason to trust everybody."""
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(ServiceError, match="the request to"):
        HttpClient(HttpEndpoint("https://127.0.0.1:1", ca_file=tmp_path / "ca.crt"), SECONDS).send("GET", "/")
    assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED


def test_what_stays_on_this_machine_goes_to_no_proxy(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TLS, credentials are allowed to this machine alone: a proxy would read them."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert HttpClient(HttpEndpoint(server.url), SECONDS).send("GET", "/").status == 200


def test_url_that_is_a_secret(tmp_path: Path) -> None:
    """It is read from its file, masked, and in no error; without TLS it isn't used."""
    file = tmp_path / "url"
    client = HttpClient(HttpEndpoint("", url_file=file), SECONDS)
    for content, said in (
        ("https://127.0.0.1:1/services/T0AAAA/B0BBBB", "refused"),
        ("http://127.0.0.1:1/services/T0AAAA", "contains no URL of the form https://HOST"),
        ("", "must contain exactly one line"),
    ):
        file.write_text(content)
        with pytest.raises(ServiceError) as caught:
            client.send("POST", "")
        assert said in caught.value.message and "T0AAAA" not in caught.value.message
    assert "B0BBBB" not in mask_secrets("posting to services/T0AAAA/B0BBBB failed")


@pytest.mark.parametrize(
    "url",
    [
        "https://ann:hunter2hunter@127.0.0.1:1/",  # would be looked up as a host's name
        "https://hunter2hunter@127.0.0.1:1/",
        "https://127.0.0.1:hunter2hunter/",
        "https://127.0.0.1:1/?k=hunter2hunter x",
        "https://[hunter2hunter/",
        "https://hunter2hunter\u2100/",
    ],
)
def test_url_that_would_be_quoted(tmp_path: Path, url: str) -> None:
    """A secret URL that can't be used is told of by its file's name alone, and nothing is sent to anybody."""
    (tmp_path / "url").write_text(url)
    with pytest.raises(ServiceError, match="contains no URL of the form") as caught:
        HttpClient(HttpEndpoint("", url_file=tmp_path / "url"), SECONDS).send("POST", "")
    assert "hunter2" not in caught.value.message
