"""The hosts of Kubernetes' own release for tests: they redirect to others, as upstream's do, and nothing leaves this
machine.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.certificates import Authority
from testkit.connect_proxy import ConnectProxy, connect_proxy
from testkit.http_server import Handler, http_server
from upgrader.lab.release_hosts import PROGRAMS, REGISTRY

__all__ = ["FILES", "IMAGES", "release_hosts", "release_tls"]

FILES = "cdn.dl.k8s.io"
"""Where dl.k8s.io redirects to."""
IMAGES = "us-west2-docker.pkg.dev"
"""Where registry.k8s.io redirects to, among others."""


def release_tls(folder: Path) -> ssl.SSLContext:
    """For servers with a certificate for all of these names; `ca.pem` in the folder is the CA's."""
    authority = Authority(folder / "ca")
    authority.issue(folder / "server", "release", hours=(-1, 12), hosts=(PROGRAMS, REGISTRY, FILES, IMAGES))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


@contextmanager
def release_hosts(
    tls: ssl.SSLContext, files: int, images: int, *, folder: str = "", passes: bool = False
) -> Iterator[ConnectProxy]:
    """The proxy (`HTTPS_PROXY`) by which they are reached. `files` and `images` are the ports of the servers to which
    they redirect; `folder` is where the latter has the repositories, such as `k8s/`.
    """

    def redirect(request: Handler) -> None:
        to = f"https://{FILES}/" if request.headers["Host"] == PROGRAMS else f"https://{IMAGES}/v2/{folder}"
        request.reply(307, Location=f"{to}{request.path.removeprefix('/v2').lstrip('/')}?rid=1")

    with http_server(redirect, tls) as front:
        port = int(front.url.rpartition(":")[2])
        ports = {PROGRAMS: port, REGISTRY: port, FILES: files, IMAGES: images}
        with connect_proxy(ports, passes=passes) as proxy:
            yield proxy
