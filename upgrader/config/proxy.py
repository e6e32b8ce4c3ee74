"""Which HTTP proxy leads to an API server, by the rules of kubectl and Helm."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from upgrader.errors import ConfigError
from upgrader.model.redaction.known_secrets import KNOWN

__all__ = ["Proxy", "proxy_for"]


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy that connections are tunnelled through with CONNECT."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)
    """The value of `Proxy-Authorization`; "" for none."""

    @property
    def url(self) -> str:
        """Its address, without credentials."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def proxy_for(server: str, proxy_url: str, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy to `server` (`https://HOST:PORT`): the kubeconfig's `proxy_url`, or else the environment's.

    Raises ConfigError for a kind of proxy that isn't supported.
    """
    if proxy_url:
        return _proxy("the kubeconfig's proxy-url", proxy_url)
    for name in ("HTTPS_PROXY", "https_proxy"):
        if environ.get(name):
            exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
            return None if _is_exempt(server, exempt) else _proxy(name, environ[name])
    return None


def _proxy(where: str, text: str) -> Proxy:
    url = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = url.port or 80
    except ValueError:
        port = 0
    if url.scheme != "http" or not url.hostname or not port:
        # The address itself may hold a password.
        raise ConfigError(
            f"{where}: a proxy of the kind '{url.scheme}' is not supported, or its address is incomplete",
            remedy="Use an HTTP proxy that supports CONNECT, written as http://HOST:PORT.",
        )
    if url.username is None:
        return Proxy(url.hostname, port)
    login = f"{unquote(url.username)}:{unquote(url.password or '')}"
    # As it is written too: errors quote the address.
    KNOWN.learn([url.password or "", unquote(url.password or ""), base64.b64encode(login.encode()).decode()])
    return Proxy(url.hostname, port, f"Basic {base64.b64encode(login.encode()).decode()}")


def _is_exempt(server: str, exempt: str) -> bool:
    """Whether NO_PROXY names the server: `*`, a host, a domain with its subdomains, an address or a CIDR; with a port
    or without. The machine itself is always exempt."""
    url = urlsplit(server)
    host, port = (url.hostname or "").lower(), url.port or 443
    address = _address(host)
    if host == "localhost" or (address and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port, address) for entry in exempt.split(",") if entry.strip())


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _matches(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if entry == "*":
        return True
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = entry, ""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        wanted_port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, wanted_port = entry.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    if address is not None:
        return _address(name) == address
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
