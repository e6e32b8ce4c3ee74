"""`--mirror` of `upgrader lab`: whether Kubernetes is built here, or comes from a mirror."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upgrader.errors import UsageError

if TYPE_CHECKING:
    from upgrader.lab.origin import Origin
    from upgrader.lab.progress_port import LabProgress

__all__ = ["MirrorOptions", "mirror_options"]


@dataclass(frozen=True)
class MirrorOptions:
    """The three options as they were given."""

    url: str | None
    registry: str | None
    roots: Path | None

    def origin(self, versions: Sequence[str]) -> Callable[[LabProgress], Origin]:
        """What makes the origin once there is a display. Says where everything will come from."""
        from upgrader.lab.built_here import BuiltHere
        from upgrader.lab.mirror import Mirror, read_address, read_authorities

        if not self.url:
            if self.registry or self.roots:
                raise UsageError("--mirror-registry and --mirror-roots need --mirror")
            return BuiltHere
        address = read_address("--mirror", self.url)
        registry = read_address("--mirror-registry", self.registry) if self.registry else address
        authorities = read_authorities(self.roots)
        click.echo(f"From {address}: kubelet, kubeadm and kubectl {', '.join(versions)}", err=True)
        click.echo(f"From the registry at {registry}: images of Kubernetes, etcd, CoreDNS and pause", err=True)
        click.echo("Built here: the nodes' Debian, HAProxy, the tools for tests, the pod-checkpointer", err=True)
        return lambda display: Mirror(address, registry, authorities, display)


def mirror_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the three options; it gets them as one, `mirror`."""

    @click.option(
        "--mirror",
        metavar="URL",
        help="Download verified Kubernetes releases from this mirror instead of building them.",
    )
    @click.option("--mirror-registry", metavar="URL", help="Registry of the images (default: --mirror).")
    @click.option(
        "--mirror-roots",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="CA certificates to verify signatures with (default: Sigstore's).",
    )
    @functools.wraps(command)
    def with_mirror(
        *arguments: Any, mirror: str | None, mirror_registry: str | None, mirror_roots: Path | None, **others: Any
    ) -> Any:
        return command(*arguments, mirror=MirrorOptions(mirror, mirror_registry, mirror_roots), **others)

    return with_mirror
