"""The tables of flags and feature gates, made from Kubernetes' own Go modules: `make flags`; needs the network.

Flags are what the options of a component define: every call that defines one, in all that its program reaches. Feature
gates are in a list that Kubernetes keeps, and verifies, of all its packages; only client-go's are defined apart from
them. Each minor is read by itself: what it doesn't define it doesn't have. tests/contract/test_flags.py compares both
with real programs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scripts.go_flags import flags_in
from scripts.go_gates import client_gates_in, gates_in
from scripts.go_sources import GoSources
from upgrader.lab.golang import go_command
from upgrader.lab.progress_port import Silent
from upgrader.model.version import KubernetesVersion

__all__ = ["Minor", "render"]

_OLDEST = 32
"""Nothing older is a target: the chart of kube-apiserver needs kubelets of v1.35, which an older API doesn't take."""
_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
_KUBERNETES = "k8s.io/kubernetes"
_STAGED = re.compile(r"^\s*(\S+) => \./staging/", re.MULTILINE)
_ALWAYS = ("help", "version")
_OF_GO = {"kube-proxy": ("boot-id-file", "machine-id-file")}
"""What a component has because it takes over the flags of Go's own package `flag`: its sources name these two there.
cAdvisor defines them, and kube-proxy contains it up to v1.36.
"""


@dataclass(frozen=True)
class Minor:
    """What the sources of one minor define."""

    flags: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """(component, flag) → the message of its deprecation; None while it isn't deprecated."""
    gates: Mapping[str, str] = field(default_factory=dict)
    """Its stage, and what it is locked to: `Beta`, `GA true`."""


def render(minors: Mapping[int, Minor], versions: Sequence[str]) -> str:
    """The tables as JSON, sorted, one flag or gate in each line; `versions` are those of which the minors were read."""
    flags = []
    for key in sorted({key for minor in minors.values() for key in minor.flags}):
        lifetime = _lifetime({number: key in minor.flags for number, minor in minors.items()})
        messages = {number: minor.flags[key] for number, minor in minors.items() if key in minor.flags}
        flags.append({"component": key[0], "flag": key[1], **lifetime, **_deprecation(messages)})
    gates = []
    for name in sorted({name for minor in minors.values() for name in minor.gates}):
        lifetime = _lifetime({number: name in minor.gates for number, minor in minors.items()})
        stages = {number: minor.gates[name] for number, minor in minors.items() if name in minor.gates}
        changed = {f"1.{number}": stage for number, stage in stages.items() if stages.get(number - 1) != stage}
        gates.append({"gate": name, **lifetime, "stages": changed})
    about = f"By scripts/flag_lifecycle.py (`make flags`) from {_KUBERNETES}; don't edit."
    return (
        f'{{\n "made": {json.dumps(about)},\n "versions": {json.dumps(versions)},\n'
        f' "flags": [\n{_lines(flags)}\n ],\n "gates": [\n{_lines(gates)}\n ]\n}}\n'
    )


def _lifetime(having: Mapping[int, bool]) -> dict[str, str]:
    """From the first minor that has it to the last; one between them that lacks it isn't told."""
    first, last = (edge(number for number, has in having.items() if has) for edge in (min, max))
    introduced = {"introduced": f"1.{first}"} if first > min(having) else {}
    return introduced | ({"removed": f"1.{last + 1}"} if last < max(having) else {})


def _deprecation(messages: Mapping[int, str | None]) -> dict[str, str]:
    """Since when it is deprecated without a break, and the newest message."""
    since, newest = None, None
    for number, newest in messages.items():
        since = None if newest is None else since or number
    return {} if since is None else {"deprecated": f"1.{since}", "message": newest or ""}


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return ",\n".join("  " + json.dumps(row) for row in rows)


class _Modules:
    """The folders of Kubernetes' modules at one version; each is downloaded when its first package is asked for."""

    def __init__(self, version: KubernetesVersion) -> None:
        self.kubernetes = _download(f"{_KUBERNETES}@{version}")
        self._version = f"v0.{version.minor}.{version.patch}"
        self._staged = set(_STAGED.findall((self.kubernetes / "go.mod").read_text()))
        self._folders = {_KUBERNETES: self.kubernetes}

    def folder(self, package: str) -> Path | None:
        """Where a package is; None for one of another project: those define no flag of a component but `_OF_GO`."""
        module = "/".join(package.split("/")[:2])
        if module not in self._folders:
            if module not in self._staged:
                return None
            self._folders[module] = _download(f"{module}@{self._version}")
        return self._folders[module] / package.removeprefix(module).lstrip("/")


def _download(module: str) -> Path:
    """The folder of a module in Go's cache; Go checks it against its checksum database."""
    command = [str(go_command(Silent())), "mod", "download", "-json", module]
    done = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, text=True, check=True)
    return Path(json.loads(done.stdout)["Dir"])


def _read(version: KubernetesVersion) -> Minor:
    modules = _Modules(version)
    sources = GoSources(modules.folder)
    flags: dict[tuple[str, str], str | None] = {}
    for component in _COMPONENTS:
        flags |= {(component, flag): None for flag in (*_ALWAYS, *_OF_GO.get(component, ()))}
        found = flags_in(sources.reached(f"{_KUBERNETES}/cmd/{component}"), sources)
        flags |= {(component, flag): message for flag, message in found.items()}
    return Minor(flags, gates_in(list(_listed(modules)), version.minor))


def _listed(modules: _Modules) -> Iterator[dict[str, Any]]:
    for path in sorted((modules.kubernetes / "test").rglob("*versioned_feature_list.yaml")):
        yield from yaml.safe_load(path.read_text()) or ()
    client = modules.folder("k8s.io/client-go/features") or Path()
    yield from client_gates_in((client / "known_features.go").read_text())


def _main(given: Sequence[KubernetesVersion]) -> None:
    """Of every minor from the oldest to the newest given one; those that aren't given are read at their first patch."""
    versions = {minor: KubernetesVersion(1, minor, 0) for minor in range(_OLDEST, max(given).minor)}
    versions |= {version.minor: version for version in given}
    read = sorted(versions.values())
    print(render({version.minor: _read(version) for version in read}, list(map(str, read))), end="")


if __name__ == "__main__":
    _main([KubernetesVersion.parse(text) for text in sys.argv[1:]])
