"""The table of Kubernetes' APIs, made from Kubernetes' own Go modules: `make apis` writes it; needs the network.

In a module, `zz_generated.prerelease-lifecycle.go` says of each kind in which minor it came, is deprecated and goes.
What is gone from the newest module is only in older ones, so every minor since 1.19 is read, the first with such files.
The newest word on a kind counts: plans were changed later. An alpha or beta kind whose types are gone is served by no
version from then on, whatever was planned for it; alpha kinds often go without having been announced.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.lab.golang import go_command
from upgrader.lab.progress_port import Silent
from upgrader.model.version import KubernetesVersion

__all__ = ["Declared", "declared_in", "registered_in", "render", "table"]

_OLDEST = 19
_MODULES = ("k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
"""The kinds of the two others are all in their newest version: only the first is read in older ones."""
_RECEIVER = r"^func \(in \*(\w+)\) APILifecycle"
_MINOR = re.compile(_RECEIVER + r"(Introduced|Deprecated|Removed)\(\)[^{]*\{\s*return (\d+), (\d+)\s", re.MULTILINE)
_REPLACEMENT = re.compile(
    _RECEIVER + r'Replacement\(\)[^{]*\{\s*return [\w.]+\{Group: "([^"]*)", Version: "([^"]*)", Kind: "([^"]*)"\}',
    re.MULTILINE,
)
_GROUP = re.compile(r'^const GroupName = "([^"]*)"', re.MULTILINE)
_REGISTERED = re.compile(r"&(\w+)\{\}")
_UNSTABLE = re.compile(r"v\d+(alpha|beta)\d+")

Name = tuple[str, str]
"""(apiVersion, kind)"""


@dataclass(frozen=True)
class Declared:
    """What the sources say of one kind; minors such as "1.16", "" where they say nothing."""

    introduced: str = ""
    deprecated: str = ""
    removed: str = ""
    replacement: str = ""
    """`apps/v1 Deployment`"""


def declared_in(text: str) -> dict[str, Declared]:
    """Each kind of a `zz_generated.prerelease-lifecycle.go`, lists left out."""
    found: dict[str, Declared] = {}
    for kind, event, major, minor in _MINOR.findall(text):
        found[kind] = replace(found.get(kind, Declared()), **{event.lower(): f"{major}.{minor}"})
    for kind, group, version, other in _REPLACEMENT.findall(text):
        # Nothing but a list is replaced by a list: one is named by mistake (IngressClass).
        single = f"{_api_version(group, version)} {other.removesuffix('List')}"
        found[kind] = replace(found.get(kind, Declared()), replacement=single)
    return {kind: item for kind, item in found.items() if not kind.endswith("List")}


def registered_in(text: str) -> frozenset[str]:
    """The kinds that a `register.go` names, lists left out."""
    return frozenset(kind for kind in _REGISTERED.findall(text) if not kind.endswith(("List", "Options")))


def table(minors: Mapping[int, Mapping[Name, Declared]]) -> dict[Name, Declared]:
    """What is known of each kind, from all that the module of each minor contains."""
    newest = max(minors)
    last: dict[Name, tuple[int, Declared]] = {}
    for minor, kinds in sorted(minors.items()):
        last.update({name: (minor, item) for name, item in kinds.items()})
    found = {}
    for name, (minor, item) in last.items():
        if minor < newest and _UNSTABLE.fullmatch(name[0].rpartition("/")[2]):
            removed = min(filter(None, (item.removed, f"1.{minor + 1}")), key=_number)
            announced = item.deprecated if item.deprecated and _number(item.deprecated) < _number(removed) else ""
            item = replace(item, removed=removed, deprecated=announced)
        if item != Declared():
            found[name] = item
    return found


def render(found: Mapping[Name, Declared], modules: Iterable[str]) -> str:
    """The table as JSON, sorted, one kind in each line."""
    lines = []
    for (api_version, kind), item in sorted(found.items()):
        said = {key: value for key, value in vars(item).items() if value}
        lines.append("  " + json.dumps({"apiVersion": api_version, "kind": kind, **said}))
    about = ["By scripts/api_lifecycle.py (`make apis`); don't edit.", *modules]
    return f'{{\n "made": {json.dumps(about)},\n "apis": [\n' + ",\n".join(lines) + "\n ]\n}\n"


def _kinds(folder: Path) -> Iterator[tuple[Name, Declared]]:
    """Every kind in a module, also those of which nothing is said."""
    for register in sorted(folder.rglob("v*/register.go")):
        text = register.read_text()
        group = _GROUP.search(text)
        if group is None:
            continue
        generated = register.with_name("zz_generated.prerelease-lifecycle.go")
        said = declared_in(generated.read_text()) if generated.exists() else {}
        for kind in sorted(said.keys() | registered_in(text)):
            yield (_api_version(group[1], register.parent.name), kind), said.get(kind, Declared())


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))


def _download(module: str) -> Path:
    """The folder of a module in Go's cache; Go checks it against its checksum database."""
    command = [str(go_command(Silent())), "mod", "download", "-json", module]
    done = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, text=True, check=True)
    return Path(json.loads(done.stdout)["Dir"])


def _main(newest: KubernetesVersion) -> None:
    last = f"v0.{newest.minor}.{newest.patch}"
    minors = {minor: dict(_kinds(_download(f"k8s.io/api@v0.{minor}.0"))) for minor in range(_OLDEST, newest.minor)}
    minors[newest.minor] = {}
    for module in _MODULES:
        minors[newest.minor].update(_kinds(_download(f"{module}@{last}")))
    older = f"k8s.io/api of every minor from v0.{_OLDEST}.0 to v0.{newest.minor - 1}.0"
    print(render(table(minors), [*(f"{module} {last}" for module in _MODULES), older]), end="")


if __name__ == "__main__":
    _main(KubernetesVersion.parse(sys.argv[1]))
