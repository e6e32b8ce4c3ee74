"""The parts of `make demo`, and how long each takes. It needs the standard library alone: .venv is one of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Part", "cache", "described", "is_cached", "parts", "remember", "remembered"]

_TIMES = "demo-times.json"


@dataclass(frozen=True)
class Part:
    """One part; `seconds`: as it took two cores, and 0 where its result is there already."""

    name: str
    what: str
    seconds: float
    measured: bool = False
    """Whether it took that long on this machine, the last time."""


def cache() -> Path:
    """Where the lab keeps what it builds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upgrader"


def is_cached(version: str) -> bool:
    """Whether Kubernetes of a version is in the cache: its release, or built."""
    return any(_any(cache(), f"{folder}/{version}-*") for folder in ("mirror/programs", "kubernetes"))


def parts(start: str, target: str, repository: Path, *, from_source: bool) -> tuple[Part, ...]:
    """All of them, in their order; `from_source`: Kubernetes is built, and not downloaded."""
    venv = repository / ".venv/bin/.installed"
    helm = shutil.which("helm") is not None or _any(cache(), "bin/helm-*")
    # The seconds are those of docs/benchmarks/parts.md, and of upgrader/lab/binaries.py.
    made = [
        _made("python", "Python packages, into .venv", 45, venv.is_file()),
        _made("helm", "Helm, from its Go module", 180, helm),
        *_kubernetes(tuple(dict.fromkeys((start, target))), from_source),
        _made("node", "the nodes' Debian", 60, _any(cache(), "node/*")),
        Part("lab", f"a cluster: one controller, by kubeadm, at {start}", 35),
        Part("adopt", "its control plane moves into Helm charts", 115),
        Part("workload", "a web server, its client, a pod that asks the API", 25),
        Part("upgrade", f"the upgrade to {target}, under the load of clients", 100),
    ]
    known = remembered()
    return tuple(
        Part(part.name, part.what, known[part.name], measured=True) if part.seconds and part.name in known else part
        for part in made
    )


def _kubernetes(versions: tuple[str, ...], from_source: bool) -> Iterator[Part]:
    if not from_source:
        for version in versions:
            yield _made(version, f"Kubernetes {version}, etcd and CoreDNS", 60, is_cached(version))
        return
    for version in versions:
        yield _made(version, f"Kubernetes {version}, from its Go modules", 540, is_cached(version))
    yield _made("etcd", "etcd, from its Go modules", 75, _any(cache(), "etcd/v*"))
    yield _made("coredns", "CoreDNS, from its Go module", 180, _any(cache(), "coredns/v*"))


def described(all_parts: tuple[Part, ...]) -> Iterator[str]:
    """The list for people, with the time of all of it."""
    for part in all_parts:
        yield f"  {_time(part):<22}{part.what}"
    total = sum(part.seconds for part in all_parts)
    sure = all(part.measured for part in all_parts if part.seconds)
    yield f"  {'' if sure else 'about '}{_minutes(total)} in all{'' if sure else ', on two cores: an estimate'}"


def remembered() -> Mapping[str, float]:
    """How long parts took here, the last time; what can't be read is not known."""
    try:
        found = json.loads((cache() / _TIMES).read_text())
        return {str(name): float(seconds) for name, seconds in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def remember(name: str, seconds: float) -> None:
    """Keep how long a part took, for the next demo."""
    file = cache() / _TIMES
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**remembered(), name: round(seconds, 1)}))


def _made(name: str, what: str, seconds: float, there: bool) -> Part:
    return Part(name, what, 0.0 if there else seconds)


def _any(folder: Path, pattern: str) -> bool:
    return next(folder.glob(pattern), None) is not None


def _time(part: Part) -> str:
    if not part.seconds:
        return "is there already"
    return f"{_minutes(part.seconds)} the last time" if part.measured else f"about {_minutes(part.seconds)}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
