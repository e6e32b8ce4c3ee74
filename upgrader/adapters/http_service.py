"""Requests to services beside the cluster. None may delay a run, so each request has one deadline for everything."""

from __future__ import annotations

import base64
import http.client
import queue
import ssl
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from upgrader.errors import ServiceError
from upgrader.model.observability import HttpAnswer, HttpEndpoint
from upgrader.model.redaction.known_secrets import KNOWN

__all__ = ["HttpClient"]

_MOST_BYTES = 4 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


class HttpClient:
    """`ports.HttpService` by HTTP/1.1, through the environment's proxy (`HTTPS_PROXY`, `NO_PROXY`) if there is one.

    Credentials are read from their files for each request, so that they can be rotated during a run.
    """

    def __init__(self, endpoint: HttpEndpoint, timeout_seconds: float) -> None:
        self._endpoint = endpoint
        self._seconds = timeout_seconds
        self._late_one: threading.Thread | None = None
        """The last request that had no answer in time: it may still be asking."""

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
    ) -> HttpAnswer:
        # In a thread of its own: no timeout of a socket ends a name that doesn't resolve, or an answer in drops.
        if self._late_one is not None and self._late_one.is_alive():
            raise self._error(f"the previous request had no answer within {self._seconds:g} s")
        answers: queue.SimpleQueue[HttpAnswer | ServiceError] = queue.SimpleQueue()
        work = KNOWN.carried(lambda: answers.put(self._asked(method, path, body, headers)))
        asking = threading.Thread(target=work, name=f"ask {self._host}", daemon=True)
        asking.start()
        try:
            answer = answers.get(timeout=self._seconds)
        except queue.Empty:
            self._late_one = asking
            raise self._late() from None
        if isinstance(answer, ServiceError):
            raise answer
        return answer

    def _asked(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer | ServiceError:
        deadline = time.monotonic() + self._seconds
        try:
            url = self._url()
            request = urllib.request.Request(  # noqa: S310  # only http and https are valid in upgrader.yaml
                url + path, body or None, {**headers, **self._credentials()}, method=method
            )
            with self._opener(url).open(request, timeout=self._seconds) as answer:
                content = b""
                while piece := answer.read1(_PIECE_BYTES):
                    content += piece
                    if len(content) > _MOST_BYTES or time.monotonic() > deadline:
                        return self._error(f"the response is larger than {_MOST_BYTES} bytes, or takes too long")
                return HttpAnswer(answer.status, content)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", "") or error
            # The socket's own timeout and the one above end at the same time: either may be first.
            return self._late() if isinstance(why, TimeoutError) else self._error(str(why) or type(error).__name__)

    def _url(self) -> str:
        """Raises OSError, and ValueError for a file without a valid URL."""
        file = self._endpoint.url_file
        if file is None:
            return self._endpoint.url
        url = _secret(file)
        if not _is_usable(url):
            raise ValueError(f"{file} contains no URL of the form https://HOST/…")
        KNOWN.learn([url, urlsplit(url).path.strip("/"), urlsplit(url).query])
        return url

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        """Without the handlers of urllib that follow redirects, and raise for a status."""
        endpoint, opener = self._endpoint, urllib.request.OpenerDirector()
        # What is allowed without TLS because it stays on this machine must not go to a proxy.
        opener.add_handler(urllib.request.ProxyHandler(None if url.startswith("https:") else {}))
        opener.add_handler(urllib.request.HTTPHandler())
        opener.add_handler(
            urllib.request.HTTPSHandler(
                context=ssl.create_default_context(cafile=str(endpoint.ca_file) if endpoint.ca_file else None)
            )
        )
        return opener

    def _credentials(self) -> dict[str, str]:
        endpoint = self._endpoint
        if endpoint.password_file is not None:
            password = _secret(endpoint.password_file)
            login = base64.b64encode(f"{endpoint.username}:{password}".encode()).decode()
            KNOWN.learn([password, login])
            return {"Authorization": f"Basic {login}"}
        if endpoint.token_file is not None:
            token = _secret(endpoint.token_file)
            KNOWN.learn([token])
            return {"Authorization": f"Bearer {token}"}
        return {}

    @property
    def _host(self) -> str:
        return urlsplit(self._endpoint.url).netloc or f"the server of {self._endpoint.url_file}"

    def _late(self) -> ServiceError:
        return self._error(f"no answer within {self._seconds:g} s")

    def _error(self, why: str) -> ServiceError:
        return ServiceError(f"the request to {self._host} failed: {why}")


def _secret(path: Path) -> str:
    """The content of a file with one secret. Raises OSError, and ValueError for content that no header can contain."""
    text = path.read_text(encoding="utf-8").strip()
    if not text or "\n" in text or "\r" in text:
        raise ValueError(f"{path} must contain exactly one line, the secret")
    return text


def _is_usable(url: str) -> bool:
    """Not what Python's errors would quote; nor what it doesn't tell from the host, and would ask a name server for."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme == "https" and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
    return whole and parts.username is None and all(char.isprintable() and not char.isspace() for char in url)
