"""Files of a release: complete, from the servers that may have them, and in time; or an error that names the file."""

from __future__ import annotations

import hashlib
import http.client
import os
import queue
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from http.client import HTTPResponse
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from upgrader.errors import LabError
from upgrader.lab.mirror.address import is_loopback, origin_of

__all__ = ["Downloads", "Unavailable", "refused"]

_SILENT_SECONDS = 30.0
"""For how long a server may send nothing."""
_DEADLINE_SECONDS = 600.0
"""For one file: 100 MB then need 1.4 Mbit/s."""
_SMALL_BYTES = 4 * 1024 * 1024
_LARGE_BYTES = 1024**3
"""More than any program or layer of a release: an endless file must not fill the disk before its SHA-256 is checked."""
_PIECE_BYTES = 1024 * 1024
_REDIRECTS = 5
"""registry.k8s.io needs three: to a registry, to its storage, and to a region of that."""
_Result = TypeVar("_Result")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Unavailable(LabError):
    """A server didn't send a file. Unlike one that sent something wrong, it may be replaced by another source."""


def refused(why: str) -> LabError:
    """The error for something that was sent and isn't used: nothing of it stays in the cache."""
    return LabError(
        f"the download is refused: {why}",
        remedy="Tell the operator of that server, or use another one (--mirror). With --from source, Kubernetes is "
        "built here instead.",
    )


class Downloads:
    """Reads over HTTP/1.1, through the environment's proxy (`HTTPS_PROXY`, `NO_PROXY`) if there is one.

    A request never has credentials. It ends after `deadline_seconds`, or when a server is silent for `silent_seconds`;
    if its connection breaks, it is sent up to `attempts` times. Redirects stay within one server, unless they may lead
    `elsewhere`: then to any server with TLS.
    """

    def __init__(
        self,
        deadline_seconds: float = _DEADLINE_SECONDS,
        silent_seconds: float = _SILENT_SECONDS,
        *,
        elsewhere: bool = False,
        attempts: int = 1,
    ) -> None:
        self._deadline = deadline_seconds
        self._silent = silent_seconds
        self._elsewhere = elsewhere
        self._attempts = attempts

    def small(self, url: str, headers: Mapping[str, str] = _NO_HEADERS) -> bytes:
        """A document of at most 4 MiB."""

        def once() -> bytes:
            pieces: list[bytes] = []

            def keep(piece: bytes, _total: int) -> None:
                pieces.append(piece)
                if sum(map(len, pieces)) > _SMALL_BYTES:
                    raise refused(f"{url} has more than {_SMALL_BYTES} bytes")

            self._in_time(url, headers, keep)
            return b"".join(pieces)

        return self._repeated(once)

    def file(self, url: str, sha256: str, target: Path, advance: Callable[[int, int], None]) -> None:
        """Write the file with that SHA-256 (hexadecimal) to `target`; `advance` gets the number of new bytes, and the
        total.

        At most 1 GiB.
        """
        found = self._repeated(lambda: self._written(url, target, advance))
        if found != sha256:
            raise refused(f"{url} has the SHA-256 {found} instead of {sha256}")

    def _written(self, url: str, target: Path, advance: Callable[[int, int], None]) -> str:
        """Write what the server sends to `target`; returns its SHA-256."""
        digest = hashlib.sha256()
        with _writing(target), target.open("wb") as stream:

            def keep(piece: bytes, total: int) -> None:
                if stream.tell() + len(piece) > _LARGE_BYTES:
                    raise refused(f"{url} has more than {_LARGE_BYTES} bytes")
                digest.update(piece)
                with _writing(target):
                    stream.write(piece)
                advance(len(piece), total)

            self._in_time(url, _NO_HEADERS, keep)
            stream.flush()
            os.fsync(stream.fileno())  # it gets its name next: after a power cut, that name must not have other content
        return digest.hexdigest()

    def _repeated(self, once: Callable[[], _Result]) -> _Result:
        """The result of `once`, again if the connection broke."""
        for _ in range(self._attempts - 1):
            try:
                return once()
            except _Broken:
                continue
        return once()

    def _in_time(self, url: str, headers: Mapping[str, str], keep: Callable[[bytes, int], None]) -> None:
        """In a thread of its own: no socket timeout covers a slow name resolution, or an answer byte by byte."""
        came: queue.SimpleQueue[LabError | None] = queue.SimpleQueue()
        given_up = threading.Event()
        received = [0, 0]

        def keep_until_late(piece: bytes, total: int) -> None:
            if not given_up.is_set():
                keep(piece, total)
                received[:] = received[0] + len(piece), total

        def work() -> None:
            came.put(self._read(url, headers, keep_until_late, given_up))

        threading.Thread(target=work, name=f"download {url}", daemon=True).start()
        try:
            error = came.get(timeout=self._deadline)
        except queue.Empty:
            given_up.set()
            error = _slow(url, f"not complete after {self._deadline:g} s ({received[0]} of {received[1] or '?'} bytes)")
        if error:
            raise error

    def _read(
        self, url: str, headers: Mapping[str, str], keep: Callable[[bytes, int], None], given_up: threading.Event
    ) -> LabError | None:
        try:
            with self._answer(url, headers) as answer:
                total, got = int(answer.headers.get("Content-Length") or 0), 0
                while not given_up.is_set() and (piece := answer.read1(_PIECE_BYTES)):
                    got += len(piece)
                    keep(piece, total)
                if got < total:
                    return _Broken(f"{url} ended after {got} of {total} bytes", remedy=_AGAIN)
        except LabError as error:
            return error
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, (ValueError, http.client.InvalidURL)) and not isinstance(error, OSError):
                # Which one isn't, and in which part, may be a part of the proxy's password.
                return _Broken(f"{url} can't be read: the answer or the URL of the proxy is not valid", remedy=_AGAIN)
            why = getattr(error, "reason", "") or error
            if isinstance(why, TimeoutError):
                return _slow(url, f"no answer for {self._silent:g} s")
            return _Broken(f"{url} can't be read: {why or type(error).__name__}", remedy=_AGAIN)
        return None

    @contextmanager
    def _answer(self, url: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
        """The answer to a request with status 200, after redirects."""
        asked = url
        for _ in range(_REDIRECTS + 1):
            request = urllib.request.Request(asked, headers=dict(headers))  # noqa: S310  # http(s): see read_address
            with self._opener(asked).open(request, timeout=self._silent) as answer:
                if answer.status == 200:
                    yield answer
                    return
                if answer.status not in (301, 302, 303, 307, 308):
                    raise Unavailable(f"{url} is answered with {answer.status} {answer.reason}", remedy=_AGAIN)
                to = urljoin(asked, answer.headers.get("Location") or "")
                self._require_allowed(url, to)
                asked = to
        raise refused(f"{url} redirects more than {_REDIRECTS} times")

    def _require_allowed(self, url: str, to: str) -> None:
        """Refuse a redirect to a server that may not be asked."""
        if origin_of(to) == origin_of(url) or (self._elsewhere and urlsplit(to).scheme == "https"):
            return
        where = urlsplit(to).hostname or "nowhere"
        if self._elsewhere:
            raise refused(f"{url} redirects to {where} without TLS")
        raise LabError(
            f"the download is refused: {url} redirects to {where}",
            remedy="A mirror must serve its files itself. If you trust that host, use it as the mirror.",
        )

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        """Without urllib's handlers that follow redirects to any server, and raise for a status."""
        opener = urllib.request.OpenerDirector()
        opener.add_handler(urllib.request.ProxyHandler({} if is_loopback(urlsplit(url).hostname) else None))
        opener.add_handler(urllib.request.HTTPHandler())
        if url.startswith("https:"):
            opener.add_handler(urllib.request.HTTPSHandler(context=self._trust))
        return opener

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """This machine's CAs, or those of `SSL_CERT_FILE`."""
        return ssl.create_default_context()


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Tell errors of this machine's disk from those of a connection."""
    try:
        yield
    except OSError as error:
        raise LabError(f"{target} can't be written: {error.strerror}", remedy="Free some space.") from error


class _Broken(Unavailable):
    """The connection broke: the next one may not."""


_AGAIN = (
    "Run the command again: complete, verified files stay in the cache. With --from source, Kubernetes is built here "
    "instead."
)


def _slow(url: str, why: str) -> LabError:
    return Unavailable(
        f"{url}: {why}",
        remedy="Run the command again, or use a nearer mirror: complete, verified files stay in the cache.",
    )
