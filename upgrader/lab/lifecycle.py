"""A lab from `up` to `down`: real nodes on this machine, with a kubeadm cluster on them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.errors import LabError, UsageError
from upgrader.lab import bridge
from upgrader.lab.bringup import BringUp
from upgrader.lab.build_cache import remove_tree
from upgrader.lab.build_parts import Parts, prepare, probably_prepared
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.cluster_folder import ssh_command
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.existing_labs import (
    any_lab,
    claim,
    exclusive,
    find,
    is_complete,
    is_filled,
    lab_dir,
    locked,
    remove_root,
    set_complete,
    set_filled,
)
from upgrader.lab.host_capabilities import host_capabilities, require
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.keys import join_secrets
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.nspawn_machine import machine_of
from upgrader.lab.origin import Origin
from upgrader.lab.progress_port import LabProgress, Silent
from upgrader.lab.snapshot import put_back, remember, require_snapshot
from upgrader.lab.spec import LabSpec, Node, Placement
from upgrader.lab.sysctls import prepare_kernel, restore_kernel
from upgrader.lab.webhooks import CERTIFICATE, answered, has_webhooks
from upgrader.model.counted import counted

__all__ = ["Filled", "Lab", "NodeStatus"]


@dataclass(frozen=True)
class NodeStatus:
    """The state of one node: `kubernetes` is Ready, NotReady, Unknown, or "" for machines outside the cluster."""

    node: Node
    running: bool
    kubernetes: str
    version: str


@dataclass(frozen=True)
class Filled:
    """What a lab doesn't have of another cluster's objects: the API server's reasons for those that it refused, and the
    workloads that aren't Ready.
    """

    refused: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()


class Lab:
    """A lab that exists on this machine, running or not."""

    def __init__(self, placement: Placement, progress: LabProgress | None = None) -> None:
        self.placement = placement
        self._progress = progress or Silent()
        self._runner = CommandRunner()
        self._cluster = KubeadmCluster(placement, self._runner)
        self._home = lab_dir(placement.spec.name)

    @classmethod
    def up(cls, spec: LabSpec, folder: Path, progress: LabProgress | None = None, origin: Origin | None = None) -> Lab:
        """Create the lab, or start an existing one; `folder` becomes its cluster folder.

        Kubernetes comes from `origin`; without one it is built here. If this call created the lab and fails for any
        reason, the lab is removed.
        """
        progress = progress or Silent()
        origin = origin or BuiltHere(progress)
        # Nodes of an existing lab have their memory already: only new ones must fit beside the others.
        new = None if is_complete(spec.name) else spec
        require(host_capabilities(), new, probably_prepared(spec.kubernetes, origin))
        parts = prepare(spec, origin, progress)
        with ExitStack() as held:
            with locked():
                existing = _existing(spec, folder)
                if existing:
                    held.enter_context(exclusive(spec.name))
                    if not is_complete(spec.name):
                        cls(existing)._remove()  # its `lab up` was killed
                        existing = None
                lab = cls(existing or claim(spec, folder), progress)
                if not existing:
                    held.enter_context(exclusive(spec.name))
                prepare_kernel()
            try:
                lab._bring_up(parts)
            except BaseException:
                with _uninterrupted():
                    lab._runner.cancel()
                    if not existing:
                        lab._remove_last()
                raise
        return lab

    @classmethod
    def find(cls, name: str, progress: LabProgress | None = None) -> Lab:
        """The lab of that name; UsageError if there is none."""
        placement = find(name)
        if not placement:
            raise UsageError(
                f"there is no lab {name!r} on this machine",
                remedy=f"`upgrader lab status` lists the labs; `upgrader lab up --name {name}` creates this one.",
            )
        return cls(placement, progress)

    def down(self) -> None:
        """Remove the lab and everything that it created on this machine, in any state."""
        with exclusive(self.placement.spec.name):
            self._remove_last()

    def _remove_last(self) -> None:
        self._remove()
        with locked():
            if not any_lab():
                restore_kernel()
                remove_root()

    def _remove(self) -> None:
        for node in self.placement.nodes:
            machine_of(self.placement, node).crash()
        bridge.remove_bridge(self.placement)
        remove_tree(self.placement.folder)
        with suppress(OSError):
            self.placement.folder.parent.rmdir()  # `.lab` itself, when this was the last
        remove_tree(self._home)

    def crash(self, name: str) -> None:
        """Cut a node's power."""
        machine_of(self.placement, self.placement.node(name)).crash()

    def stop(self, name: str) -> None:
        """Shut a node down in order."""
        machine_of(self.placement, self.placement.node(name)).stop()

    def boot(self, name: str) -> None:
        """Switch a node on and wait until it accepts logins; its services start by themselves."""
        node = self.placement.node(name)
        bridge.add_bridge(self.placement)
        machine_of(self.placement, node).start(self._runner, host_capabilities())
        self._cluster.wait_for_ssh(node)

    def save(self, snapshot: str) -> None:
        """Shut the nodes down, save their disks and the cluster folder, and switch on again the nodes that were on."""
        with exclusive(self.placement.spec.name):
            on = [node for node in self.placement.nodes if machine_of(self.placement, node).running()]
            with self._progress.task("shutting the nodes down", seconds=5 * len(on)):
                for node in on:
                    machine_of(self.placement, node).stop()
            with self._progress.task("copying their disks", seconds=2 * len(self.placement.nodes)):
                remember(self.placement, snapshot)
            for node in on:
                self.boot(node.name)

    def restore(self, snapshot: str) -> None:
        """Cut every node's power, restore what was saved, and switch all nodes on."""
        require_snapshot(self.placement, snapshot)
        with exclusive(self.placement.spec.name):
            for node in self.placement.nodes:
                machine_of(self.placement, node).crash()
            with self._progress.task("copying the disks", seconds=2 * len(self.placement.nodes)):
                put_back(self.placement, snapshot)
            for node in self.placement.nodes:
                self.boot(node.name)

    def join(self, name: str) -> None:
        """Reset a node of the cluster, and let it join with kubeadm."""
        node = self.placement.node(name)
        if not node.kubernetes:
            raise UsageError(f"{name} is not a node of the Kubernetes cluster: it can't join")
        with exclusive(self.placement.spec.name), self._progress.task(f"{name}: kubeadm join", seconds=40):
            self._cluster.join_again(node, join_secrets(self._home / "keys"), IMAGE_VERSIONS)
            self._cluster.connect_pods()
            self._cluster.label(node)
            self.wait_until_ready()

    def leave(self, name: str) -> None:
        """Remove a worker from the cluster: it becomes a spare machine with all that it needs to join again."""
        node = self.placement.node(name)
        if node.role != "worker":
            raise UsageError(
                f"{name} is not a worker: only workers can leave", remedy="See: upgrader controllers remove"
            )
        with exclusive(self.placement.spec.name), self._progress.task(f"{name}: kubeadm reset", seconds=20):
            self._cluster.leave(node)

    def fill(self, objects: Sequence[Mapping[str, Any]]) -> Filled:
        """Create another cluster's objects, and wait up to two minutes until their pods are Ready.

        Its webhooks are answered by a program on each controller.
        """
        certificate = self._home / "keys" / CERTIFICATE
        objects = [answered(item, certificate.read_text()) if has_webhooks(item) else item for item in objects]
        with self._progress.task(f"objects of the copied cluster ({len(objects)})", seconds=30):
            refused = self._cluster.create(objects)
            set_filled(self.placement.spec.name)
            return Filled(refused, self._cluster.unready_workloads(120))

    @property
    def filled(self) -> bool:
        """Whether it has what the cluster has that it is like; a lab that is like none has nothing to get."""
        return not self.placement.spec.like or is_filled(self.placement.spec.name)

    def connect(self) -> None:
        """Connect the pods of all present nodes of the cluster, however they joined."""
        with exclusive(self.placement.spec.name), self._progress.task("pod network", seconds=5):
            self._cluster.connect_pods(self._cluster.nodes().keys())

    def ssh(self, name: str) -> list[str]:
        """The ssh command for a node."""
        return ssh_command(self.placement, self.placement.node(name))

    def run(self, name: str, script: str, timeout_seconds: float = 60) -> str:
        """Standard output of a shell script on a node."""
        return self._cluster.run(self.placement.node(name), script, what="script", timeout_seconds=timeout_seconds)

    def status(self) -> list[NodeStatus]:
        """The state of every node; Unknown if the API does not report it."""
        try:
            known = self._cluster.nodes()
        except LabError:
            known = {}
        return [
            NodeStatus(
                node=node,
                running=machine_of(self.placement, node).running(),
                kubernetes=known.get(node.name, ("Unknown", ""))[0] if node.kubernetes else "",
                version=known.get(node.name, ("", ""))[1],
            )
            for node in self.placement.nodes
        ]

    def wait_until_ready(self, deadline_seconds: float = 180) -> None:
        """Wait until all nodes and kube-system pods are Ready."""
        nodes = [node for node in self.placement.nodes if node.kubernetes]
        self._cluster.wait_until_ready(
            {node.name: machine_of(self.placement, node).switched_on() for node in nodes}, deadline_seconds
        )

    def _bring_up(self, parts: Parts) -> None:
        bring_up = BringUp(self.placement, parts, self._cluster, self._runner, self._progress)
        bring_up.nodes()
        bring_up.kubernetes()
        with self._progress.task("kube-proxy, CoreDNS", seconds=8):
            self.wait_until_ready()
        set_complete(self.placement.spec.name)


def _existing(spec: LabSpec, folder: Path) -> Placement | None:
    """The lab of that name, if there is one; UsageError if it differs from the requested one."""
    existing = find(spec.name)
    if existing and (existing.spec != spec or existing.folder != folder):
        raise UsageError(
            f"a different lab {spec.name} exists already: {_describe(existing)}",
            remedy=f"choose another --name, or remove it: upgrader lab down --name {spec.name}",
        )
    return existing


def _describe(placement: Placement) -> str:
    spec = placement.spec
    switches = "".join(f", {switch}" for switch in spec.switches)
    machines = f"{counted(spec.controllers, 'controller')}, {counted(spec.workers, 'worker')}"
    return f"{machines}, {spec.kubernetes}{switches}, in {placement.folder}"


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore a second Ctrl-C during the clean-up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
