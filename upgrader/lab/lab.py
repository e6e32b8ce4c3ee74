"""A lab: real nodes on this machine with a kubeadm cluster on them."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from upgrader.errors import LabError, UsageError
from upgrader.lab import network
from upgrader.lab.cache import remove_tree
from upgrader.lab.catalog import IMAGE_VERSIONS, checkpointer_image, image_names
from upgrader.lab.cluster import Cluster
from upgrader.lab.cluster_folder import ssh_command, write_access, write_cluster, write_values
from upgrader.lab.disk import make_disk
from upgrader.lab.host import facts, require
from upgrader.lab.images import Image, digest, write_archive
from upgrader.lab.keys import ca_files, join_secrets, make_keys
from upgrader.lab.kubeadm import patch_files
from upgrader.lab.loadbalancer import haproxy_files
from upgrader.lab.machine import Machine
from upgrader.lab.prepare import Parts, prepare, probably_built
from upgrader.lab.progress import Progress, Silent
from upgrader.lab.runner import Runner
from upgrader.lab.spec import LabSpec, Node, Placement
from upgrader.lab.state import claim, find, lab_dir, labs, locked, write_atomically
from upgrader.lab.sysctls import prepare_kernel, restore_kernel

__all__ = ["Lab", "NodeStatus"]


@dataclass(frozen=True)
class NodeStatus:
    """What is known of one node: `kubernetes` is Ready, NotReady, Unknown, or "" for the load balancer."""

    node: Node
    running: bool
    kubernetes: str
    version: str


class Lab:
    """A lab that exists on this machine, running or not."""

    def __init__(self, placement: Placement, progress: Progress | None = None) -> None:
        self.placement = placement
        self._progress = progress or Silent()
        self._runner = Runner()
        self._cluster = Cluster(placement, self._runner)
        self._home = lab_dir(placement.spec.name)

    @classmethod
    def up(cls, spec: LabSpec, folder: Path, progress: Progress | None = None) -> Lab:
        """Make the lab, or bring what there is of it back up; `folder` becomes its cluster folder.

        A lab that this call began and could not finish, for whatever reason, is removed again.
        """
        progress = progress or Silent()
        found = facts()
        require(found, spec, probably_built(spec.kubernetes))
        parts = prepare(spec.kubernetes, progress)
        with locked():
            existing = find(spec.name)
            if existing and (existing.spec != spec or existing.folder != folder):
                raise UsageError(
                    f"there is a lab {spec.name} already, another one: {_describe(existing)}",
                    remedy=f"choose another --name, or remove it: upgrader lab down --name {spec.name}",
                )
            lab = cls(existing or claim(spec, folder), progress)
            prepare_kernel()
        try:
            lab._raise(parts)
        except BaseException:
            with _uninterrupted():
                lab._runner.cancel()
                if not existing:
                    lab.down()
            raise
        return lab

    @classmethod
    def find(cls, name: str, progress: Progress | None = None) -> Lab:
        """The lab of that name; UsageError if there is none."""
        placement = find(name)
        if not placement:
            raise UsageError(
                f"there is no lab {name!r} on this machine", remedy=f"make it: upgrader lab up --name {name}"
            )
        return cls(placement, progress)

    def down(self) -> None:
        """Remove the lab and all that it made on this machine, whatever state it is in."""
        for node in self.placement.nodes:
            self._machine(node).crash()
        network.remove_bridge(self.placement)
        remove_tree(self.placement.folder)
        with suppress(OSError):
            self.placement.folder.parent.rmdir()  # `.lab` itself, when this was the last
        with locked():
            remove_tree(self._home)
            if not labs():
                restore_kernel()
                remove_tree(self._home.parent)

    def crash(self, name: str) -> None:
        """Cut a node's power."""
        self._machine(self.placement.node(name)).crash()

    def stop(self, name: str) -> None:
        """Shut a node down in order."""
        self._machine(self.placement.node(name)).stop()

    def boot(self, name: str) -> None:
        """Switch a node on and wait until it takes logins; what runs on it starts by itself."""
        node = self.placement.node(name)
        network.add_bridge(self.placement)
        self._machine(node).start(self._runner, facts())
        self._cluster.wait_for_ssh(node)

    def ssh(self, name: str) -> list[str]:
        """The ssh command for a node."""
        return ssh_command(self.placement, self.placement.node(name))

    def run(self, name: str, script: str, timeout_s: float = 60) -> str:
        """Standard output of a shell script on a node."""
        return self._cluster.run(self.placement.node(name), script, what="script", timeout_s=timeout_s)

    def status(self) -> list[NodeStatus]:
        """Every node; what the API does not say is Unknown."""
        try:
            known = self._cluster.nodes()
        except LabError:
            known = {}
        return [
            NodeStatus(
                node=node,
                running=self._machine(node).running(),
                kubernetes=known.get(node.name, ("Unknown", ""))[0] if node.kubernetes else "",
                version=known.get(node.name, ("", ""))[1],
            )
            for node in self.placement.nodes
        ]

    def wait_until_ready(self, deadline_s: float = 180) -> None:
        """Until all nodes and kube-system pods are Ready."""
        nodes = [node for node in self.placement.nodes if node.kubernetes]
        self._cluster.wait_until_ready({node.name: self._machine(node).switched_on() for node in nodes}, deadline_s)

    def import_checkpointer(self) -> str | None:
        """Import the pod-checkpointer's image, from its source as it is now, into every node that lacks it.

        Returns the image's name, or None while there is no such source.
        """
        image = checkpointer_image(self._progress)
        if image:
            self.import_images([image])
        return image.name if image else None

    def import_images(self, images: Sequence[Image]) -> None:
        """Import images into every Kubernetes node that lacks one of them; only layers that a node lacks are sent."""
        nodes = [node for node in self.placement.nodes if node.kubernetes]
        present = {node: self._cluster.images(node) for node in nodes}
        missing = [image for image in images if not all(image.name in names for names, _ in present.values())]
        wanting = [node for node in nodes if not present[node][0].issuperset(image.name for image in missing)]
        if not missing:
            return
        common = set.intersection(*(present[node][1] for node in wanting))
        known = {layer for image in missing for layer in image.layers if digest(layer) in common}
        archive = self._home / "images.tar"
        try:
            write_archive(missing, archive, without=known)
            self._runner.together([partial(self._cluster.import_images, node, archive) for node in wanting])
        finally:
            archive.unlink(missing_ok=True)

    def _raise(self, parts: Parts) -> None:
        placement, keys = self.placement, self._home / "keys"
        controllers = [node for node in placement.nodes if node.role == "controller"]
        workers = [node for node in placement.nodes if node.role == "worker"]
        with self._progress.task("nodes", seconds=5):
            make_keys(placement, keys, self._runner)
            write_access(placement, keys)
            network.add_bridge(placement)
            self._record_lower(parts)
            self._runner.together([partial(self._start, node, keys, parts) for node in placement.nodes])
        secrets = join_secrets(keys)
        with self._progress.task(f"control plane on {controllers[0].name}", seconds=12):
            write_cluster(placement, self._cluster.init(secrets, IMAGE_VERSIONS))
        title = "other nodes, pod network" if controllers[1:] or workers else "pod network"
        with self._progress.task(title, seconds=14 * (len(controllers) - 1) + 5):

            def join_controllers() -> None:
                for node in controllers[1:]:  # one after another: etcd takes one new member at a time
                    self._cluster.join(node, secrets)

            joins = [partial(self._cluster.join, node, secrets) for node in workers]
            self._runner.together([join_controllers, *joins, self._cluster.connect_pods, partial(self._bring, parts)])
        with self._progress.task("kube-proxy, CoreDNS", seconds=8):
            self.wait_until_ready()

    def _start(self, node: Node, keys: Path, parts: Parts) -> None:
        more: dict[str, tuple[str, int]] = {}
        if node.role == "load-balancer":
            more = haproxy_files(self.placement, (keys / "ca.crt").read_text())
        elif node.role == "controller":
            first = next(other for other in self.placement.nodes if other.role == "controller")
            more = patch_files() | (ca_files(keys) if node == first else {})
        disk = self._home / "nodes" / node.name
        pause = image_names(parts.images)["pause"]
        found = facts()
        make_disk(self.placement, node, disk, facts=found, keys=keys, store=parts.store, pause_image=pause, more=more)
        self._machine(node).start(self._runner, found)
        self._cluster.wait_for_ssh(node)

    def _bring(self, parts: Parts) -> None:
        """Bring the nodes what images have been made since their disks were, and write the values that name them."""
        checkpointer = checkpointer_image(self._progress)
        self.import_images([*parts.images, *([checkpointer] if checkpointer else [])])
        names = image_names(parts.images)
        write_values(
            self.placement,
            haproxy=names["haproxy"],
            coredns=names["coredns"],
            checkpointer=checkpointer.name if checkpointer else None,
        )

    def _record_lower(self, parts: Parts) -> None:
        """A lab keeps the root it was made with, also when the cache has a newer one by the next boot."""
        file = self._home / "lower.json"
        if not file.exists():
            write_atomically(file, json.dumps([str(path) for path in parts.lower]))

    def _machine(self, node: Node) -> Machine:
        file = self._home / "lower.json"
        lower = tuple(Path(path) for path in json.loads(file.read_text())) if file.exists() else ()
        return Machine(node, self._home / "nodes" / node.name, lower, self.placement.prefix)


def _describe(placement: Placement) -> str:
    spec = placement.spec
    return f"{spec.controllers} controllers, {spec.workers} workers, {spec.kubernetes}, in {placement.folder}"


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """No second Ctrl-C while the lab is cleaning up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
