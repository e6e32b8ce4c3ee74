"""How the planned releases start the components of a control plane, and with which flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from upgrader.contract.flags import Argument, arguments_in
from upgrader.model.components import COMPONENTS
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.version import KubernetesVersion
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["PlannedCommand", "commands_of", "planned_commands"]

_PROGRAMS = (*COMPONENTS, "kube-proxy")
_WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
_RELEASE = re.compile(r"v\d+\.\d+\.\d+(?:[-+.].*)?")


@dataclass(frozen=True)
class PlannedCommand:
    """One container that is to run a component."""

    release: PlannedRelease
    container: str
    workload: str
    """`DaemonSet kube-system/kube-proxy`"""
    component: str
    version: KubernetesVersion
    """Of its image, where the image is Kubernetes' own by its name and tag; else the target."""
    arguments: tuple[str, ...] | None
    """The component's own; None where something else starts it, such as a shell: its arguments aren't these."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """The container."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """The spec of its pod."""

    @cached_property
    def flags(self) -> tuple[Argument, ...] | None:
        """None where its arguments aren't known."""
        return None if self.arguments is None else tuple(each for each in arguments_in(self.arguments) if each.name)

    def __str__(self) -> str:
        return f"release {self.release.name}: {self.component} {self.version}"

    @property
    def place(self) -> str:
        """In a sentence of its own."""
        return f"Container {self.container} of {self.workload}."

    def value(self, flag: str) -> str | None:
        """The last value of a flag; None if it isn't given."""
        own = [given.value or "" for given in self.flags or () if given.name == flag and not given.letter]
        return own[-1] if own else None


def planned_commands(releases: Iterable[PlannedRelease], target: KubernetesVersion) -> Iterator[PlannedCommand]:
    """Each container that runs a component in these releases."""
    for release in releases:
        for workload, item in objects_in(release.after).items():
            yield from commands_of(release, workload, item, target)


def commands_of(
    release: PlannedRelease, workload: str, item: Manifest, target: KubernetesVersion
) -> Iterator[PlannedCommand]:
    """Each container of a release's object, `workload`, that runs a component."""
    pod = _pod(item)
    for found in _containers(pod):
        name, command, arguments = str(found.get("name")), _texts(found.get("command")), _texts(found.get("args"))
        component, own = _component(name, command, arguments)
        if component:
            version = _version(str(found.get("image")), component) or target
            passed = None if own is None else tuple(own)
            yield PlannedCommand(release, name, workload, component, version, passed, found, pod)


def _component(name: str, command: Sequence[str], arguments: Sequence[str]) -> tuple[str, Sequence[str] | None]:
    """Which component a container runs, and that one's own arguments; "" for another container.

    A container that is named as a component runs it, whatever its command is: without one, the image's own. Where the
    command ends with that name, what it starts passes on `args`, as the built-in chart's shell does.
    """
    program, *rest = [*command, *arguments] or [""]
    started = PurePosixPath(program).name
    if started in _PROGRAMS:
        return started, rest
    if name not in _PROGRAMS:
        return "", None
    own = command[-1] == name if command else program[:1] in ("", "-")
    return name, arguments if own else None


def _version(image: str, component: str) -> KubernetesVersion | None:
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return KubernetesVersion.parse(tag) if name == component and _RELEASE.fullmatch(tag) else None


def _pod(item: Manifest) -> Mapping[str, Any]:
    """The spec of a workload's pods; whatever isn't as it should be is left to the API."""
    found: Any = item if item.get("kind") in _WORKLOADS else None
    for key in ("spec", "template", "spec"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those that initialise the pod come first."""
    for key in ("initContainers", "containers"):
        several = pod.get(key)
        yield from (each for each in several if isinstance(each, dict)) if isinstance(several, list) else ()


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
