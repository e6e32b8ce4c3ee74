"""Steps that move the manifests of kubeadm's static pods out of the kubelet's folder and back, or add a flag to one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

import yaml

from upgrader.adopt.client_addresses import secure_port
from upgrader.adopt.endpoints import count_endpoints, publish_fixed_endpoint, wait_for_endpoints
from upgrader.adopt.facts import ADOPTED, MANIFESTS, at_version, flags_of
from upgrader.adopt.listeners import read_listeners
from upgrader.adopt.node_addresses import node_address
from upgrader.contract.flags import is_true
from upgrader.errors import ApiError, StepFailed
from upgrader.gates.api_absence import ApiAbsence, unanswered
from upgrader.model.cluster import Host
from upgrader.model.go_yaml import GoDumper, first_document
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Hosts, Kind, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["PortSharingStep", "RestoreStep", "RetireStep", "StaticPods", "shares_port"]

_PODS = Kind("v1", "pods")
_SYSTEM = "kube-system"
_API_SERVER = "kube-apiserver"
_GONE_SECONDS = 120.0
_READY_SECONDS = 240.0
_LOST_SECONDS = 10.0
_SHARING = "--permit-port-sharing=true"
REMOVED = "/etc/kubernetes/upgrader/removed"
"""Where a controller that leaves the control plane keeps its manifests, etcd's too, until `kubeadm reset`."""
_GRACEFUL = {
    "goaway-chance": "0.02",
    "shutdown-send-retry-after": "true",
    "shutdown-watch-termination-grace-period": "10s",
}
"""With these, a kube-apiserver ends watches and kept connections gracefully. The chart's own has them too."""


@dataclass(frozen=True)
class StaticPods:
    """kubeadm's static pods on some controllers; works on one controller after the other.

    `version` is the one that runs now: a manifest that was retired before an upgrade is restored with the current
    image, as an API server must never read data that a newer minor has written. `images` are those of the releases, by
    component, which say more than a version: a digest, or a registry of your own.
    """

    hosts: Hosts
    kube: Kube
    clock: Clock
    controllers: tuple[Host, ...]
    version: KubernetesVersion
    served: tuple[str, ...] = ()
    """Where clients use the API, other than at the controllers' own addresses."""
    images: Mapping[str, str] = field(default_factory=dict)

    def retire(self, components: tuple[str, ...], note: Callable[[str], None]) -> None:
        """Move their manifests out of the kubelet's folder, and wait until the pods have ended.

        kube-apiserver's only where its successor listens at all addresses that clients use: otherwise StepFailed.
        The next controller waits until this one's successor is an endpoint again: if all were missing at once, no pod
        would find the API.
        """
        endpoints = count_endpoints(self.kube) if _API_SERVER in components else 0
        if _API_SERVER in components:
            for host in self.controllers:
                self._prove_served(host)
        for host in self.controllers:
            self._move_all(host, components, MANIFESTS, ADOPTED, note)
            if endpoints > 1 and (left := wait_for_endpoints(self.kube, self.clock, endpoints, note)):
                note(f"{host.name}: continuing with {left}")
        if _API_SERVER in components:
            publish_fixed_endpoint(self.kube, note)

    def put_aside(self, components: tuple[str, ...], note: Callable[[str], None]) -> None:
        """Move manifests to where neither the kubelet nor an undo looks, and wait until the pods have ended.

        Those that were adopted as well, and before those that run: where there are both, these ran last.
        """
        for host in self.controllers:
            for component in components:
                _move(self.hosts, host, component, ADOPTED, REMOVED)
            self._move_all(host, components, MANIFESTS, REMOVED, note)

    def restore(self, components: tuple[str, ...], note: Callable[[str], None]) -> None:
        """Move their manifests back, and wait until the pods are Ready. One that is there already is newer, and stays:
        that controller has joined again since.
        """
        for host in self.controllers:
            self._move_all(host, components, ADOPTED, MANIFESTS, note)

    def _prove_served(self, host: Host) -> None:
        content = self.hosts.read(host, f"{MANIFESTS}/{_API_SERVER}.yaml")
        if content is None:
            return  # retired already
        flags = flags_of(first_document(content)["spec"]["containers"][0])
        port = secure_port(flags)
        listeners = read_listeners(self.hosts, host)
        # The static pod itself is one that listens on all addresses.
        if listeners.on_all(port) > 1:
            return
        wanted = (node_address(self.kube, host), *self.served)
        if left := [address for address in wanted if not listeners.at(address, port)]:
            raise StepFailed(
                f"{host.name}: the release kube-apiserver does not listen on port {port} of {', '.join(left)}, where "
                "clients use the API; the static pod was not retired",
                remedy="Add these addresses to `extraAddresses` in values/kube-apiserver.yaml, and run adopt again.",
            )

    def _move_all(
        self, host: Host, components: tuple[str, ...], source: str, target: str, note: Callable[[str], None]
    ) -> None:
        for component in components:
            if target == MANIFESTS:
                if self.hosts.read(host, f"{MANIFESTS}/{component}.yaml") is not None:
                    if self.hosts.read(host, f"{source}/{component}.yaml") is not None:
                        note(
                            f"{host.name}: {MANIFESTS} already has a {component}.yaml, which was kept; the one in "
                            f"{source} was not used"
                        )
                    continue
                self._retag(host, component, note)
            if _move(self.hosts, host, component, source, target):
                note(f"{host.name}: moved {component}.yaml to {target}")
        for component in components:
            self._await(host, component, note, present=target == MANIFESTS)
            if target == MANIFESTS and component in self.images:
                self._prove_image(host, component)

    def _prove_image(self, host: Host, component: str) -> None:
        """That the pod is of the manifest that was restored, and of no older one."""
        content, pod = self.hosts.read(host, f"{MANIFESTS}/{component}.yaml"), f"{component}-{host.name}"
        found = self.kube.get(_PODS, pod, _SYSTEM)
        wanted = first_document(content)["spec"]["containers"][0]["image"] if content else ""
        runs = found["spec"]["containers"][0]["image"] if found else "nothing"
        if wanted != runs:
            raise StepFailed(
                f"static pod {pod} runs {runs}, but its manifest has {wanted or 'no image'}",
                remedy=f"On {host.name}: journalctl -u kubelet. Then run the same command again.",
            )

    def _retag(self, host: Host, component: str, note: Callable[[str], None]) -> None:
        path = f"{ADOPTED}/{component}.yaml"
        content = self.hosts.read(host, path)
        if content is None:
            return
        image = first_document(content)["spec"]["containers"][0]["image"]
        current = self.images.get(component) or at_version(image, self.version)
        if image != current:
            note(f"{host.name}: {component} is restored with {current}, not {image}")
            self.hosts.write(host, path, content.replace(image.encode(), current.encode()))

    def _await(self, host: Host, component: str, note: Callable[[str], None], *, present: bool) -> None:
        """Wait until the mirror pod is gone, or exists and is Ready.

        Waits for an unreachable API to be restored. One that is lost because a pod was retired raises ApiLost soon.
        """
        pod, limit = f"{component}-{host.name}", _READY_SECONDS if present else _GONE_SECONDS
        absence = ApiAbsence(self.kube, self.clock, inf if present else _LOST_SECONDS)

        def missing() -> str:
            try:
                found = self.kube.get(_PODS, pod, _SYSTEM)
            except ApiError as error:
                absence.check([unanswered(pod, error)])
                raise
            absence.check(())
            state = "gone" if found is None else "Ready" if _ready(found) else "not Ready"
            return "" if state == ("Ready" if present else "gone") else state

        goal = "be Ready" if present else "end"
        what = f"static pod {pod} to {goal}"
        if state := wait_until(self.clock, missing, seconds=limit, what=what, note=note):
            raise StepFailed(
                f"static pod {pod} did not {goal} within {limit:.0f} s: {state}",
                remedy=f"On {host.name}: crictl ps -a, journalctl -u kubelet",
            )


@dataclass(frozen=True)
class RetireStep:
    """Retires static pods, now that the charts' own pods do their work; undo restores them."""

    name: str
    pods: StaticPods
    components: tuple[str, ...]

    def summary(self) -> str:
        return f"retire the static pods: {', '.join(self.components)}"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        self.pods.retire(self.components, note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.pods.restore(self.components, note)


@dataclass(frozen=True)
class RestoreStep:
    """Restores kubeadm's static pods; undo retires them again."""

    name: str
    pods: StaticPods
    components: tuple[str, ...]

    def summary(self) -> str:
        return f"restore kubeadm's static pods: {', '.join(self.components)}"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        self.pods.restore(self.components, note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.pods.retire(self.components, note)


@dataclass(frozen=True)
class PortSharingStep:
    """Gives kube-apiserver's static pod `--permit-port-sharing`, so that the chart's pod can take over its port.

    The kubelet stops the old pod before it starts the new one: on a single controller, the API is interrupted.
    """

    hosts: Hosts
    kube: Kube
    clock: Clock
    controllers: tuple[Host, ...]
    name: str = "port-sharing"

    def summary(self) -> str:
        return "restart kube-apiserver's static pod with --permit-port-sharing (about 40 s without its API)"

    def capture(self) -> None:
        """The flag stays: it does no harm, and removing it would interrupt the API again."""
        return

    def apply(self, note: Callable[[str], None]) -> None:
        path = f"{MANIFESTS}/kube-apiserver.yaml"
        for host in self.controllers:
            content = self.hosts.read(host, path)
            if content is None:
                continue
            pod = first_document(content)
            container = pod["spec"]["containers"][0]
            # What is in `args` comes last, and of a flag's values the last one counts.
            command = container["args"] if container.get("args") else container["command"]
            if shares_port(flags_of(container)):
                continue
            note(f"{host.name}: kube-apiserver restarts with --permit-port-sharing")
            command.append(_SHARING)
            # It restarts anyway: also make it end gracefully when its successor takes over.
            given = flags_of(container)
            command += [f"--{name}={value}" for name, value in _GRACEFUL.items() if name not in given]
            self.hosts.write(host, path, yaml.dump(pod, Dumper=GoDumper, sort_keys=False).encode())
            self._await_restart(host, note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""

    def _await_restart(self, host: Host, note: Callable[[str], None]) -> None:
        def missing() -> str:
            found = self.kube.get(_PODS, f"kube-apiserver-{host.name}", _SYSTEM)
            flags = flags_of(found["spec"]["containers"][0]) if found else {}
            restarted = shares_port(flags) and _ready(found)
            return "" if restarted else "the old pod is still running, or the new one is not Ready"

        pod = f"kube-apiserver-{host.name}"
        what = f"static pod {pod} to restart"
        if state := wait_until(self.clock, missing, seconds=_READY_SECONDS, what=what, note=note):
            raise StepFailed(
                f"static pod {pod} was not Ready within {_READY_SECONDS:.0f} s: {state}",
                remedy=f"On {host.name}: crictl ps -a, journalctl -u kubelet",
            )


def shares_port(flags: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a kube-apiserver with these flags lets another one listen at its port."""
    return is_true(flags.get("permit-port-sharing", ("false",))[-1])


def _move(hosts: Hosts, host: Host, component: str, source: str, target: str) -> bool:
    """Move one manifest; False when it isn't in `source` (any more), or would replace one that the kubelet runs. One
    rename, so no file is ever incomplete.

    The kubelet reads every file in its folder, so a copy must not be there under any name.
    """
    file = f"{component}.yaml"
    there = '[ ! -e "$2/$3" ] || exit 0; ' if target == MANIFESTS else ""
    move = 'mkdir -p -m 0700 "$2"; mv -f "$1/$3" "$2/$3"; sync -f "$2"; echo moved'
    script = f'set -eu; [ -e "$1/$3" ] || exit 0; {there}{move}'
    return "moved" in hosts.run(host, ["sh", "-c", script, "sh", source, target, file]).stdout


def _ready(pod: object) -> bool:
    conditions = pod.get("status", {}).get("conditions", []) if isinstance(pod, dict) else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
