"""How the planned releases start the components of a control plane, and with which flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any

from upgrader.model.components import COMPONENTS
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.plan import PlannedRelease
from upgrader.model.version import KubernetesVersion

__all__ = ["GivenFlag", "PlannedCommand", "commands_of", "given_flags", "planned_commands"]

_PROGRAMS = (*COMPONENTS, "kube-proxy")
_WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
_RELEASE = re.compile(r"v\d+\.\d+\.\d+(?:[-+.].*)?")
_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class GivenFlag:
    """One flag of a command line."""

    name: str
    """As Kubernetes' components compare it: without its dashes, `-` for `_`. One of a single dash as it is: `-v2`."""
    value: str | None
    """None where nothing follows; what follows a flag that takes no value is another argument."""


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
    def flags(self) -> tuple[GivenFlag, ...] | None:
        """None where its arguments aren't known."""
        return None if self.arguments is None else tuple(given_flags(self.arguments))

    def __str__(self) -> str:
        return f"release {self.release.name}: {self.component} {self.version}"

    @property
    def place(self) -> str:
        """In a sentence of its own."""
        return f"Container {self.container} of {self.workload}."

    def value(self, flag: str) -> str | None:
        """The last value of a flag; None where it isn't given."""
        return next((given.value or "" for given in reversed(self.flags or ()) if given.name == flag), None)


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


def given_flags(arguments: Sequence[str]) -> Iterator[GivenFlag]:
    """`--name=value`, `--name value`, `--name` and `-v2`, up to `--`; what else there is are no flags.

    One dash after `--name` is taken for its value (`--oom-score-adj -999`), two dashes for the next flag: which flags
    take a value isn't known here.
    """
    open_flag = False
    for argument, following in zip_longest(arguments, arguments[1:]):
        if argument == "--":
            return
        name, equals, value = argument.partition("=")
        if name.startswith("--") and _NAME.fullmatch(name[2:]):
            yield GivenFlag(name[2:].replace("_", "-"), value if equals else following)
        elif len(name) > 1 and name[0] == "-" and name[1] != "-" and not open_flag:
            yield GivenFlag(name, value if equals else following)
        open_flag = argument.startswith("--") and not equals


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
