"""Options of `upgrader lab` that say where Kubernetes comes from: its own release, a mirror of it, or its source."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upgrader.cli.output import print_text
from upgrader.errors import UsageError

if TYPE_CHECKING:
    from upgrader.lab.origin import Origin
    from upgrader.lab.progress_port import LabProgress

__all__ = ["OriginOptions", "origin_options"]


@dataclass(frozen=True)
class OriginOptions:
    """The options as they were given; `kind` is release, source, or None for what is possible."""

    kind: str | None = None
    mirror: str | None = None
    registry: str | None = None
    roots: Path | None = None
    why_not: Callable[[], str] | None = None
    """Waits for the answers of the release's hosts: which one can't be reached and why, or ""."""

    def origin(self, versions: Sequence[str]) -> Callable[[LabProgress], Origin]:
        """What makes the origin once there is a display. Says where everything will come from."""
        from upgrader.lab.built_here import BuiltHere
        from upgrader.lab.default_origin import DefaultOrigin
        from upgrader.lab.mirror import Address, Downloads, Mirror, read_address, read_authorities
        from upgrader.lab.release_hosts import PROGRAMS, REGISTRY

        names = ", ".join(versions)
        if self.mirror:
            if self.kind:
                raise UsageError("--from can't be combined with --mirror")
            address = read_address("--mirror", self.mirror)
            registry = read_address("--mirror-registry", self.registry) if self.registry else address
            authorities = read_authorities(self.roots)
            _say(f"From {address}: kubelet, kubeadm and kubectl {names}")
            _say(f"From the registry at {registry}: images of Kubernetes, etcd, CoreDNS and pause")
            _say("Built here: the nodes' Debian, HAProxy, the tools for tests, the pod-checkpointer")
            return lambda display: Mirror(address, registry, authorities, display)
        if self.registry:
            raise UsageError("--mirror-registry needs --mirror")
        if self.kind == "source":
            if self.roots:
                raise UsageError("--mirror-roots can't be combined with --from source: nothing is verified")
            _say(f"Kubernetes {names}: building it from source (--from source)")
            return BuiltHere
        authorities = read_authorities(self.roots)

        def release(display: LabProgress) -> Mirror:
            programs, registry = Address(f"https://{PROGRAMS}"), Address(f"https://{REGISTRY}")
            return Mirror(programs, registry, authorities, display, Downloads(elsewhere=True, attempts=3))

        why_not = self.why_not
        if why_not is None:
            _say(f"Kubernetes {names}: downloading its release from {PROGRAMS} and {REGISTRY} (--from release)")
            return release

        def default(display: LabProgress) -> Origin:
            origin = DefaultOrigin(release(display), BuiltHere(display), why_not, _say)
            origin.choose(versions)
            return origin

        return default


def origin_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the four options; it gets them as one, `origin`."""

    @click.option(
        "--from",
        "kind",
        type=click.Choice(["release", "source"]),
        help="Where Kubernetes comes from: release downloads it from dl.k8s.io and registry.k8s.io, source builds it "
        "(default: release, or source if these hosts can't be reached).",
    )
    @click.option("--mirror", metavar="URL", help="Download the release from this mirror.")
    @click.option("--mirror-registry", metavar="URL", help="Registry of the mirror's images (default: --mirror).")
    @click.option(
        "--mirror-roots",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="CA certificates to verify signatures of releases with (default: Sigstore's).",
    )
    @functools.wraps(command)
    def with_origin(
        *arguments: Any,
        kind: str | None,
        mirror: str | None,
        mirror_registry: str | None,
        mirror_roots: Path | None,
        **others: Any,
    ) -> Any:
        why_not = None
        if not kind and not mirror:
            from upgrader.lab.release_hosts import asked

            why_not = asked()  # first of all: they answer while the lab's modules are imported
        origin = OriginOptions(kind, mirror, mirror_registry, mirror_roots, why_not)
        return command(*arguments, origin=origin, **others)

    return with_origin


def _say(text: str) -> None:
    print_text(text, err=True)
