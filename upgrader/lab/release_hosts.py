"""The hosts of Kubernetes' own release, and whether they can be reached. `make demo` asks before it has a .venv: this
needs the standard library alone.
"""

from __future__ import annotations

import base64
import queue
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException, InvalidURL
from urllib.parse import unquote, urlsplit

__all__ = ["PROGRAMS", "REGISTRY", "asked"]

PROGRAMS = "dl.k8s.io"
REGISTRY = "registry.k8s.io"
_DEADLINE_SECONDS = 0.8
"""Then the choice is on the screen within a second. Two round trips, for the name and the connection, take less, also
from the other side of the world.
"""


def asked(
    hosts: Sequence[str] = (PROGRAMS, REGISTRY), deadline_seconds: float = _DEADLINE_SECONDS
) -> Callable[[], str]:
    """Ask the hosts (`HOST`, or `HOST:PORT`) for a connection, all at the same time, through the environment's proxy if
    it has one.

    Returns at once, with a function that waits for the answers: why one of them can't be reached, or "" if all can.
    """
    told: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    until = time.monotonic() + deadline_seconds

    def ask(host: str) -> None:
        told.put((host, _why_not(host, deadline_seconds)))

    def answers() -> str:
        waiting = list(hosts)
        while waiting:
            try:
                host, why = told.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return f"{waiting[0]} can't be reached: no answer within {deadline_seconds:g} s"
            if why:
                return f"{host} can't be reached: {why}"
            waiting.remove(host)
        return ""

    for host in hosts:
        # In a thread: no timeout covers a slow name resolution.
        threading.Thread(target=ask, args=(host,), name=f"ask {host}", daemon=True).start()
    return answers


def _why_not(host: str, seconds: float) -> str:
    name, _, port = host.partition(":")
    proxy = None if urllib.request.proxy_bypass(name) else urllib.request.getproxies().get("https")
    try:
        connection = _connection(name, int(port or 443), proxy, seconds)
        try:
            connection.connect()
        finally:
            connection.close()
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except (InvalidURL, ValueError):
        return "the URL of the proxy is not valid"  # which part isn't may be a part of its password
    except (OSError, HTTPException) as error:
        return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return ""


def _connection(name: str, port: int, proxy: str | None, seconds: float) -> HTTPConnection:
    """A connection that isn't open yet, directly or by the proxy's CONNECT."""
    if not proxy:
        return HTTPConnection(name, port, timeout=seconds)
    # As urllib reads it: a password may have a / or a #, and no error may quote a part of it.
    login, _, address = (proxy.partition("//")[2] or proxy).rpartition("@")
    parts, headers = urlsplit(f"//{address}"), {}
    if login:
        encoded = base64.b64encode(unquote(login if ":" in login else f"{login}:").encode())
        headers["Proxy-Authorization"] = "Basic " + encoded.decode()
    connection = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=seconds)
    connection.set_tunnel(name, port, headers)
    return connection
