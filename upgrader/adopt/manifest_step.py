"""Steps that take kubeadm's static pods out of the kubelet's sight, put them back, or give one a flag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

from upgrader.adopt.endpoints import count_endpoints, wait_for_endpoints
from upgrader.adopt.facts import ADOPTED, MANIFESTS, at_version
from upgrader.errors import StepFailed
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Hosts, Kind, Kube
from upgrader.waiting import wait_until

__all__ = ["PortSharingStep", "RestoreStep", "RetireStep", "StaticPods"]

_PODS = Kind("v1", "pods")
_SYSTEM = "kube-system"
_API_SERVER = "kube-apiserver"
_GONE_SECONDS = 120.0
_READY_SECONDS = 240.0
_SHARING = "--permit-port-sharing=true"
_GRACEFUL = {
    "goaway-chance": "0.02",
    "shutdown-send-retry-after": "true",
    "shutdown-watch-termination-grace-period": "10s",
}
"""With these, a kube-apiserver ends watches and kept connections in good order. The chart's own has them too."""


@dataclass(frozen=True)
class StaticPods:
    """kubeadm's static pods on some controllers; works on one controller after the other.

    `version` is the one that runs now: a manifest that was taken away before an upgrade comes back with the image of
    today, for an API server must never meet data that a newer minor has written.
    """

    hosts: Hosts
    kube: Kube
    clock: Clock
    controllers: tuple[Host, ...]
    version: KubernetesVersion

    def retire(self, components: tuple[str, ...], note: Callable[[str], None]) -> None:
        """Move their manifests out of the kubelet's sight, and wait until the pods have ended.

        The next controller has to wait until this one's successor is an endpoint again: were all out at the same time,
        no pod would find the API.
        """
        endpoints = count_endpoints(self.kube) if _API_SERVER in components and len(self.controllers) > 1 else 0
        for host in self.controllers:
            self._move_all(host, components, MANIFESTS, ADOPTED, note)
            if endpoints and (left := wait_for_endpoints(self.kube, self.clock, endpoints)):
                note(f"{host.name}: going on with {left}")

    def restore(self, components: tuple[str, ...], note: Callable[[str], None]) -> None:
        """Move their manifests back, and wait until the pods are Ready."""
        for host in self.controllers:
            self._move_all(host, components, ADOPTED, MANIFESTS, note)

    def _move_all(
        self, host: Host, components: tuple[str, ...], source: str, target: str, note: Callable[[str], None]
    ) -> None:
        for component in components:
            if target == MANIFESTS:
                self._retag(host, component, note)
            if _move(self.hosts, host, component, source, target):
                note(f"{host.name}: moved {component}.yaml to {target}")
        for component in components:
            self._await(host, component, present=target == MANIFESTS)

    def _retag(self, host: Host, component: str, note: Callable[[str], None]) -> None:
        path = f"{ADOPTED}/{component}.yaml"
        content = self.hosts.read(host, path)
        if content is None:
            return
        image = yaml.safe_load(content)["spec"]["containers"][0]["image"]
        today = at_version(image, self.version)
        if image != today:
            note(f"{host.name}: {component} comes back as {today}, not as {image}")
            self.hosts.write(host, path, content.replace(image.encode(), today.encode()))

    def _await(self, host: Host, component: str, *, present: bool) -> None:
        """Wait until the mirror pod is gone, or there and Ready. An API that doesn't answer is waited for."""
        pod, limit = f"{component}-{host.name}", _READY_SECONDS if present else _GONE_SECONDS

        def missing() -> str:
            found = self.kube.get(_PODS, pod, _SYSTEM)
            state = "gone" if found is None else "Ready" if _ready(found) else "not Ready"
            return "" if state == ("Ready" if present else "gone") else state

        state = wait_until(self.clock, missing, seconds=limit)
        if state:
            goal = "be Ready" if present else "end"
            raise StepFailed(
                f"static pod {pod} did not {goal} within {limit:.0f} s: {state}",
                remedy=f"On {host.name}: crictl ps -a, journalctl -u kubelet",
            )


@dataclass(frozen=True)
class RetireStep:
    """Takes static pods away, now that the charts' own pods do their work; undo puts them back."""

    name: str
    pods: StaticPods
    components: tuple[str, ...]

    def summary(self) -> str:
        return f"take the static pods away: {', '.join(self.components)}"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        self.pods.retire(self.components, note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.pods.restore(self.components, note)


@dataclass(frozen=True)
class RestoreStep:
    """Puts kubeadm's static pods back; undo takes them away again."""

    name: str
    pods: StaticPods
    components: tuple[str, ...]

    def summary(self) -> str:
        return f"put kubeadm's static pods back: {', '.join(self.components)}"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        self.pods.restore(self.components, note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.pods.retire(self.components, note)


@dataclass(frozen=True)
class PortSharingStep:
    """Gives kube-apiserver's static pod `--permit-port-sharing`, so that the chart's pod can take its port over.

    The kubelet stops the old pod before it starts the new one: on a single controller the API is away meanwhile.
    """

    hosts: Hosts
    kube: Kube
    clock: Clock
    controllers: tuple[Host, ...]
    name: str = "port-sharing"

    def summary(self) -> str:
        return "restart kube-apiserver's static pod with --permit-port-sharing (the API is away for about 40 s)"

    def capture(self) -> None:
        """The flag stays: it does no harm, and taking it out would take the API away once more."""
        return

    def apply(self, note: Callable[[str], None]) -> None:
        path = f"{MANIFESTS}/kube-apiserver.yaml"
        for host in self.controllers:
            content = self.hosts.read(host, path)
            if content is None:
                continue
            pod = yaml.safe_load(content)
            command = pod["spec"]["containers"][0]["command"]
            if _SHARING in command:
                continue
            note(f"{host.name}: kube-apiserver restarts with --permit-port-sharing")
            command.append(_SHARING)
            # It restarts anyway: let it end more gracefully than it did now, when its successor takes over.
            given = {word.partition("=")[0] for word in command}
            command += [f"--{name}={value}" for name, value in _GRACEFUL.items() if f"--{name}" not in given]
            self.hosts.write(host, path, yaml.safe_dump(pod, sort_keys=False).encode())
            self._await_restart(host)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to take back."""

    def _await_restart(self, host: Host) -> None:
        def missing() -> str:
            found = self.kube.get(_PODS, f"kube-apiserver-{host.name}", _SYSTEM)
            command = found["spec"]["containers"][0]["command"] if found else []
            restarted = _SHARING in command and _ready(found)
            return "" if restarted else "the old pod still runs, or the new one is not Ready"

        state = wait_until(self.clock, missing, seconds=_READY_SECONDS)
        if state:
            raise StepFailed(
                f"static pod kube-apiserver-{host.name} was not Ready within {_READY_SECONDS:.0f} s: {state}",
                remedy=f"On {host.name}: crictl ps -a, journalctl -u kubelet",
            )


def _move(hosts: Hosts, host: Host, component: str, source: str, target: str) -> bool:
    """Move one manifest; False when it isn't in `source` (any more). One rename, so nothing is ever half there.

    The kubelet reads every file in its folder, so the copy must not lie there under any name.
    """
    file = f"{component}.yaml"
    script = 'set -eu; [ -e "$1/$3" ] || exit 0; mkdir -p -m 0700 "$2"; mv -f "$1/$3" "$2/$3"; sync -f "$2"; echo moved'
    return "moved" in hosts.run(host, ["sh", "-c", script, "sh", source, target, file]).stdout


def _ready(pod: object) -> bool:
    conditions = pod.get("status", {}).get("conditions", []) if isinstance(pod, dict) else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
