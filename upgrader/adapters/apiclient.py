"""HTTP to a Kubernetes API server: credentials, deadlines, retries, and errors of our own.

The kubernetes package makes the connections; the requests themselves are plain JSON, as its generated models are slow
to import and drop fields they don't know. Logins and TLS settings are upgrader's own: the package would write inline
keys into files, which stay if the process is killed, and would run plugins without a limit of time.
Importing this module costs most of a second: it is imported where the API is first used.
"""

from __future__ import annotations

import copy
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject

from upgrader.adapters.foreign_answers import is_foreign, not_kubernetes
from upgrader.config.client_tls import client_tls
from upgrader.config.credentials_end import credentials_end
from upgrader.config.kubeconfig import KubeconfigContext, Login
from upgrader.config.yaml_document import shown
from upgrader.contract.json_list import LARGEST_OBJECT_BYTES, JsonList, ObjectTooLarge
from upgrader.errors import ApiError, ApiUnavailable, ConfigError, CredentialsRefused
from upgrader.ports import Clock
from upgrader.wait_and_retry import retry

__all__ = ["ApiAnswer", "ApiClient", "ApiRequest"]

RETRIES = 3
"""Further tries after the first, all of them within the call's deadline."""

_RETRY_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 1.0
"""Even if Retry-After asks for more: a stopping instance asks for 5 s, but the next connection reaches another one."""
_NOT_REACHED = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses of requests that were not processed, rather than refused."""
_TELLING = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.GATEWAY_TIMEOUT})
"""Those of them that may be another's answer: of an eviction, a disruption budget's; of a read, a webhook's silence."""
_CHUNK_BYTES = 65536
_AWAY = (
    "`upgrader recover --dry-run` finds the cause over SSH, without the API. If it finds no problem, check the "
    "kubeconfig's server address and the network route to it."
)
_NOT_SERVED = (
    "The API server doesn't serve this API: check whether --runtime-config disables it. `upgrader recover --dry-run` "
    "shows what can be done."
)


@dataclass(frozen=True)
class ApiRequest:
    """One request. `what` names it in errors, as in `get pods kube-system/web`."""

    method: str
    path: str
    what: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    content_type: str = "application/json"
    retry: bool = True
    """Whether a read may be retried after a broken connection or a 5xx."""
    wants_object: bool = False
    """Whether the answer is one JSON object; an incomplete object is then an error."""
    accept: str = ""
    """The media type to ask for; "" accepts JSON, or else anything."""
    keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """What is kept of each item of a list, which is read an item at a time; None: the answer is no list."""


@dataclass(frozen=True)
class ApiAnswer:
    """A complete answer; `retry_after` is in seconds, 0 if the server sent none."""

    status: int
    body: bytes
    """Of a list, whose items are in `found`, only how it begins."""
    retry_after: float
    found: dict[str, Any] | None = None
    """The body as a JSON object; None if no JSON was requested."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Whatever the case of their names."""


class _Transient(Exception):
    """A temporary failure, after which another attempt is safe."""

    def __init__(self, problem: ApiError, pause_seconds: float = _RETRY_PAUSE_SECONDS) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.pause_seconds = pause_seconds


class ApiClient:
    """Connections to the API server of one kubeconfig context (or, with `server`, to another address of it)."""

    def __init__(self, kubeconfig: Path, context: str, *, timeout_seconds: float, clock: Clock) -> None:
        self._login = Login(kubeconfig, context, now=lambda: clock.now().timestamp())
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._server = self._login.current.server
        self._token = ""
        self._connect()

    @property
    def server(self) -> str:
        """The URL that it asks."""
        return self._server

    def at(self, server: str = "", token: str = "") -> ApiClient:
        """A client with new connections to `server` (`https://host:port`; "": the same), with the same CA.

        It has the same credentials, or only the bearer token.
        """
        other = copy.copy(self)
        other._server = server.rstrip("/") or self._server
        other._token = token
        if token or self._tls is None:
            other._connect()
        else:  # as this one's: the files of its certificate and key may be half replaced at the moment
            other._pool = _connections(self._context, other._server, self._tls)
        return other

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def send(self, request: ApiRequest) -> ApiAnswer:
        """A successful answer. Raises ApiUnavailable or ApiError, the latter with its `status`."""
        deadline = self._clock.monotonic() + self._timeout_seconds
        tries = count(1)
        try:
            return retry(
                self._clock,
                lambda: self._try(request, deadline, next(tries)),
                pause=lambda error: error.pause_seconds if isinstance(error, _Transient) and request.retry else None,
                attempts=RETRIES + 1,
                seconds=self._timeout_seconds,
            )
        except _Transient as error:
            raise error.problem from error.__cause__

    def _try(self, request: ApiRequest, deadline: float, tries: int) -> ApiAnswer:
        """One attempt; raises _Transient when another is safe."""
        try:
            answer = self._exchange(request, deadline)
            if answer.status == 401 and not self._token and self._renewed():
                # Not acted upon: a short-lived credential has ended, and the file or its plugin has a new one.
                answer = self._exchange(request, deadline)
        except _ItemTooLarge as error:
            raise _too_large(request, error) from error
        except (urllib3.exceptions.ProtocolError, ConnectionError) as error:
            # A kept connection that a stopping instance closed; whether it had acted is not known.
            problem = self._unavailable(request, error, tries)
            raise (_Transient(problem) if request.method == "GET" else problem) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unavailable(request, error, tries) from error
        if 200 <= answer.status < 300 and not is_foreign(answer.status, answer.headers, answer.body):
            return answer
        refused = self._refused(request, answer.status, answer.body, answer.headers)
        # 429 means "not acted upon", so that it is safe to repeat even a write.
        if answer.status == 429 or (answer.status >= 500 and request.method == "GET"):
            raise _Transient(refused, max(_RETRY_PAUSE_SECONDS, min(answer.retry_after, _LONGEST_PAUSE_SECONDS)))
        raise refused

    def _exchange(self, request: ApiRequest, deadline: float) -> ApiAnswer:
        with self._open(request, deadline - self._clock.monotonic()) as response:
            chunks = self._chunks(response, deadline)
            if request.keep is not None and response.status < 300:
                body, found = _list(chunks, request.keep)
            else:
                body = _joined(chunks)
                found = _object(body) if request.wants_object and response.status < 300 else None
            headers = response.headers
            pause = _seconds(headers.get("Retry-After", ""))
            return ApiAnswer(response.status, body, pause, found, headers)

    def lines(
        self, request: ApiRequest, timeout_seconds: float, silent_seconds: float = float("inf")
    ) -> Iterator[bytes]:
        """The lines of an answer as they arrive, until the server ends it, or nothing more of it has come for
        `silent_seconds`; nothing is retried.
        """
        deadline = self._clock.monotonic() + timeout_seconds
        rest, patience = b"", min(timeout_seconds, silent_seconds)
        try:
            response = self._open(request, patience)
            if response.status == 401 and self._renewed():
                response.close()
                response = self._open(request, patience)
            with response:
                if response.status != 200 or is_foreign(response.status, response.headers, b""):
                    body = b"".join(self._chunks(response, deadline))
                    raise self._refused(request, response.status, body, response.headers)
                for chunk in self._chunks(response, deadline, silent_seconds):
                    *complete, rest = (rest + chunk).split(b"\n")
                    yield from complete
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unavailable(request, error, 1) from error

    def _chunks(
        self, response: urllib3.BaseHTTPResponse, deadline: float, silent_seconds: float = float("inf")
    ) -> Iterator[bytes]:
        """The body, piece by piece: each piece restarts the socket's own timeout, but not the deadline. It ends early
        after `silent_seconds` in which nothing comes.
        """
        while True:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError("the response was incomplete at the deadline")
            connection = getattr(response, "connection", None)
            if connection is not None and connection.sock is not None:
                connection.sock.settimeout(min(left, silent_seconds))
            try:
                chunk = response.read1(_CHUNK_BYTES)
            except urllib3.exceptions.ReadTimeoutError:
                if left <= silent_seconds:
                    raise
                return
            if not chunk:
                return
            yield chunk

    def _open(self, request: ApiRequest, timeout_seconds: float) -> urllib3.BaseHTTPResponse:
        self._login.keep_fresh()
        if self._version != self._login.version:
            with suppress(ConfigError):  # as of a pair of which one file is replaced so far: the old one stays in use
                self._connect_anew()
        headers = {"Accept": request.accept or "application/json, */*", "User-Agent": "upgrader"}
        if token := self._context.user.get("token"):
            headers["authorization"] = f"Bearer {token}"
        body = None
        if request.body is not None:
            body = json.dumps(request.body).encode()
            headers["Content-Type"] = request.content_type
        url = self._server + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        timeout = urllib3.Timeout(total=max(timeout_seconds, 0.1))
        return self._pool.request(
            request.method, url, body=body, headers=headers, timeout=timeout, preload_content=False
        )

    def _connect(self) -> None:
        """Make a pool of connections, with the credentials as they are now. Raises ConfigError, and changes nothing."""
        version, context = self._login.version, self._login.current
        if self._token:
            # In the place of all credentials: the server would ignore a token beside a client certificate.
            context = replace(context, user={"token": self._token})
        # Without TLS, as to `kubectl proxy`, nothing of them is looked at.
        tls = client_tls(context, ["http/1.1"]) if self._server.lower().startswith("https:") else None
        self._pool = _connections(context, self._server, tls)
        self._version, self._context, self._tls = version, context, tls

    def _connect_anew(self) -> None:
        """The same in the place of other connections."""
        before = self._pool
        self._connect()
        before.clear()

    def _renewed(self) -> bool:
        """Load the credentials again: whether they differ from those that were refused."""
        try:
            if not self._login.renew(self._version):
                return False
            self._connect_anew()
            return True
        except ConfigError as error:
            text = (
                f"the API server at {self._server} answered with HTTP 401: the credentials have expired, and new ones "
                f"can't be read: {error.message}"
            )
            raise CredentialsRefused(text, remedy=error.remedy) from error

    def _whose(self) -> str:
        """Whose credentials were refused, and when they ended, where they say it themselves."""
        context = self._login.current
        named = f"credentials of user '{context.login}' in {shown(context.kubeconfig)}"
        try:
            ended = credentials_end(context.kubeconfig, self._login.context)
        except ConfigError:
            ended = None
        if ended is None and context.expires is not None:
            ended = datetime.fromtimestamp(context.expires, UTC)
        return f"{named}, expired at {ended:%Y-%m-%d %H:%M} UTC" if ended and ended <= self._clock.now() else named

    def _unavailable(self, request: ApiRequest, error: Exception, tries: int) -> ApiUnavailable:
        host = self._server
        counted = f" ({tries} tries)" if tries > 1 else ""
        if isinstance(error, urllib3.exceptions.SSLError):
            cause = _cause(error)
            remedy = (
                "Check the kubeconfig's certificate-authority, and that the server's certificate is valid for this "
                "address."
            )
            if "not yet valid" in cause or "expired" in cause:
                remedy = (
                    f"Check the clock of this machine ({self._clock.now():%Y-%m-%d %H:%M} UTC), then the certificate."
                )
            return ApiUnavailable(
                f"the certificate of {host} can't be verified: {cause} ({request.what})", remedy=remedy
            )
        return ApiUnavailable(
            f"the API server at {host} did not answer: {_cause(error)} ({request.what}){counted}",
            remedy=_AWAY,
        )

    def _refused(self, request: ApiRequest, status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
        if status not in _NOT_REACHED and is_foreign(status, headers, body):
            return not_kubernetes(body, request.what, status)
        host = self._server
        message = _status_message(body)
        if status in _NOT_REACHED:
            unavailable = ApiUnavailable(
                f"the API server at {host} could not serve '{request.what}': HTTP {status} {message}".rstrip(),
                remedy="Try again: the API server may be starting, stopping or overloaded. Then check its log.",
            )
            if status in _TELLING:
                unavailable.status = status
            return unavailable
        remedy = {
            401: "The kubeconfig's credentials were not accepted: they may have expired, or belong to another cluster. "
            "`upgrader recover --dry-run` shows whether kube-apiserver also refuses the cluster's own clients.",
            404: _NOT_SERVED if "page not found" in message else "",
        }.get(status, "")
        kind = CredentialsRefused if status == 401 else ApiError
        text = f"the API server at {host} refused '{request.what}': HTTP {status} {message}".rstrip()
        if status == HTTPStatus.UNAUTHORIZED and not self._token:
            text += f" ({self._whose()})"
        error = kind(text, remedy=remedy)
        error.status = status
        if error.lacks_right:
            error.remedy = "The kubeconfig's user lacks this permission: upgrader needs cluster-admin."
        return error


def _connections(context: KubeconfigContext, server: str, tls: ssl.SSLContext | None) -> urllib3.PoolManager:
    """Connections to one server of a context. Raises ConfigError."""
    proxy = context.proxy(server)
    configuration = Configuration(host=server)
    # Otherwise urllib3 would repeat each request three times, uncounted.
    configuration.retries = False
    # Also where there is none: the package has looked at the environment, by rules that aren't kubectl's.
    configuration.proxy, configuration.no_proxy = proxy.url if proxy else None, None
    if proxy and proxy.authorization:
        configuration.proxy_headers = {"proxy-authorization": proxy.authorization}
    if name := context.cluster.get("tls-server-name"):
        configuration.tls_server_name = str(name)
    pool = RESTClientObject(configuration).pool_manager
    # Not the package's CAs beside it: before version 36 it adds Mozilla's where its configuration names none.
    pool.connection_pool_kw |= {"ssl_context": tls, "ca_certs": None}
    return pool


class _CutOff(ConnectionError):
    """A truncated JSON object, although the connection was closed properly."""


class _ItemTooLarge(Exception):
    """An object of a list that isn't read; `after`: the last one that was, if any."""

    def __init__(self, after: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.after = after


def _too_large(request: ApiRequest, error: _ItemTooLarge) -> ApiError:
    meta = (error.after or {}).get("metadata") or {}
    before = "/".join(filter(None, (meta.get("namespace"), meta.get("name"))))
    return ApiError(
        f"'{request.what}': the response has an object of more than {LARGEST_OBJECT_BYTES >> 20} MiB, which upgrader "
        "doesn't read. Sorted by namespace and name, it is the "
        f"{f'object after {before}' if before else 'first object of its page'}",
        remedy="Make that object smaller, or delete it: etcd stores an object of this size only if "
        "--max-request-bytes was raised.",
    )


def _joined(chunks: Iterable[bytes]) -> bytes:
    """All of them, without a second copy: `/metrics` may have ten megabytes."""
    whole = BytesIO()
    for chunk in chunks:
        whole.write(chunk)
    return whole.getvalue()


def _list(
    chunks: Iterable[bytes], keep: Callable[[dict[str, Any]], dict[str, Any]]
) -> tuple[bytes, dict[str, Any] | None]:
    """How it begins, and the object; None for anything else. Raises _CutOff for a truncated object, and _ItemTooLarge.

    A page of 500 nodes has 8 MiB, and several times as many once it is parsed: no more of it is there at a time than
    what is kept.
    """
    begun, size, items, reader = b"", 0, list[dict[str, Any]](), JsonList()
    try:
        for chunk in chunks:
            begun, size = begun or chunk, size + len(chunk)
            items += map(keep, reader.feed(chunk))
        items += map(keep, reader.end())
    except ObjectTooLarge as error:
        raise _ItemTooLarge(items[-1] if items else None) from error
    except ValueError as error:
        if size > len(begun) and begun.lstrip().startswith(b"{"):
            raise _CutOff(f"the response was truncated after {size} bytes") from error
        return begun, _object(begun)  # what has no entries, or is no object
    return begun, {**reader.rest, "items": items} if reader.has_items else reader.rest


def _object(body: bytes) -> dict[str, Any] | None:
    """The body as a JSON object, None for anything else. Raises _CutOff for a truncated object."""
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        found: dict[str, Any] = json.loads(body)
        return found
    except ValueError:
        raise _CutOff(f"the response was truncated after {len(body)} bytes") from None


def _cause(error: Exception) -> str:
    """The innermost message: urllib3 wraps the operating system's in the names of its own objects."""
    inner: BaseException = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    words = inner.strerror if isinstance(inner, OSError) else None
    return words or str(inner) or type(inner).__name__


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0


def _status_message(body: bytes) -> str:
    """A Status object's message, or the text itself (`/readyz` lists its failed checks)."""
    text = body.decode(errors="replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        return text
    return str(status.get("message", text)) if isinstance(status, dict) else text
