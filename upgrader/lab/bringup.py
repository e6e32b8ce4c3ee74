"""Brings a lab up: nodes, control plane, the other nodes, pod network. Completed parts are skipped."""

from __future__ import annotations

from functools import partial

from upgrader.lab import bridge, kubespray
from upgrader.lab.bastion import bastion_files, bastion_of, firewall_files
from upgrader.lab.build_parts import Parts
from upgrader.lab.cluster_folder import write_access, write_cluster, write_values
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.daemon_images import checkpointer_image
from upgrader.lab.existing_labs import lab_dir
from upgrader.lab.external_etcd import client_files, etcd_files
from upgrader.lab.flannel import flannel_objects
from upgrader.lab.haproxy_agent import agent_rights, start_agent
from upgrader.lab.hardening import controller_files
from upgrader.lab.host_capabilities import host_capabilities
from upgrader.lab.image_catalog import IMAGE_VERSIONS, image_names
from upgrader.lab.image_delivery import deliver
from upgrader.lab.keepalived import keepalived_files
from upgrader.lab.keys import ca_files, join_secrets, make_keys
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.kubeadm_config import join_registration, patch_files
from upgrader.lab.kubelet_config import kubelet_configuration
from upgrader.lab.kubespray_kubelet import kubelet_files
from upgrader.lab.likeness import answers_webhooks
from upgrader.lab.loadbalancer import haproxy_files
from upgrader.lab.node_disk import make_disk
from upgrader.lab.nspawn_machine import machine_of, record_lower
from upgrader.lab.private_registry import login_files, login_secret, publish, published, registry_files, trust_files
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.spec import Node, Placement
from upgrader.lab.webhooks import stub_files

__all__ = ["BringUp"]


class BringUp:
    """The phases of `lab up`, in their order."""

    def __init__(
        self, placement: Placement, parts: Parts, cluster: KubeadmCluster, runner: CommandRunner, progress: LabProgress
    ) -> None:
        self._placement = placement
        self._parts = parts
        self._cluster = cluster
        self._runner = runner
        self._progress = progress
        self._keys = lab_dir(placement.spec.name) / "keys"
        self._controllers = [node for node in placement.nodes if node.role == "controller"]
        self._workers = [node for node in placement.nodes if node.role == "worker"]

    def nodes(self) -> None:
        """Create keys, network and disks; then every node is on and accepts logins."""
        with self._progress.task("nodes", seconds=5):
            make_keys(self._placement, self._keys, self._runner)
            write_access(self._placement, self._keys)
            bridge.add_bridge(self._placement)
            record_lower(self._placement, self._parts.lower)
            self._runner.together([partial(self._start, node) for node in self._placement.nodes])

    def kubernetes(self) -> None:
        """Run kubeadm on every node; add images, the pod network, and the cluster folder."""
        secrets = join_secrets(self._keys)
        with self._progress.task(f"control plane on {self._controllers[0].name}", seconds=12):
            admin_conf = self._cluster.init(secrets, IMAGE_VERSIONS)
            token = self._cluster.operator_token() if self._placement.spec.token else ""
            write_cluster(self._placement, admin_conf, token)
        others = len(self._controllers) - 1
        title = "other nodes, pod network" if others or self._workers else "pod network"
        with self._progress.task(title, seconds=14 * others + 5):

            def join_controllers() -> None:
                for node in self._controllers[1:]:  # one after another: etcd takes one new member at a time
                    self._cluster.join(node, secrets)

            joins = [partial(self._cluster.join, node, secrets) for node in self._workers]
            self._runner.together([join_controllers, *joins, self._cluster.connect_pods, self._deliver])
            for node in (*self._controllers, *self._workers):
                self._cluster.label(node)
            if self._placement.spec.ingress:
                self._agent()

    def _start(self, node: Node) -> None:
        more: dict[str, tuple[str, int]] = {}
        if node.role == "load-balancer":
            more = haproxy_files(self._placement, (self._keys / "ca.crt").read_text())
        elif node.role == "controller":
            more = patch_files() | (ca_files(self._placement, self._keys) if node == self._controllers[0] else {})
            if self._placement.spec.hardened:
                more |= controller_files((self._keys / "encryption-key").read_text())
            if self._placement.spec.keepalived:
                more |= keepalived_files(self._placement, node, (self._keys / "keepalived-password").read_text())
            if self._placement.spec.external_etcd:
                more |= client_files(self._keys)
            if self._placement.spec.layout:
                more |= kubespray.controller_files(self._placement, node, self._keys)
            if answers_webhooks(self._placement):
                more |= stub_files(self._keys)
        elif node.role == "etcd":
            more = etcd_files(self._placement, self._keys)
        elif node.role == "registry":
            more = registry_files((self._keys / "registry-password").read_text(), self._keys)
        elif node.role == "bastion":
            more = bastion_files(self._keys)
        if (bastion := bastion_of(self._placement)) and node != bastion:
            more |= firewall_files(bastion)
        if node.kubernetes and self._placement.spec.layout:
            registration = join_registration(self._placement, node)
            more |= kubelet_files(kubelet_configuration(self._placement), registration)
        if node.kubernetes and self._placement.spec.registry:
            more |= trust_files(self._placement, (self._keys / "ca.crt").read_text())
            more |= login_files(self._placement, (self._keys / "registry-password").read_text())
        found = host_capabilities()
        machine = machine_of(self._placement, node)
        make_disk(
            self._placement,
            node,
            machine.disk,
            facts=found,
            keys=self._keys,
            store=self._parts.store,
            pause_image=image_names(self._parts.images)["pause"],
            more=more,
        )
        machine.start(self._runner, found)
        self._cluster.wait_for_ssh(node)

    def _agent(self) -> None:
        """Start the agent on lb-1, as docs/guard.md describes."""
        self._cluster.apply(agent_rights())
        script = start_agent(self._cluster.user_kubeconfig("haproxy-agent"))
        balancer = next(node for node in self._placement.nodes if node.role == "load-balancer")
        self._cluster.run(balancer, script, what="agent for HAProxy")

    def _deliver(self) -> None:
        """Import the images that the nodes' disks lack, start flannel if requested, and write the values files that
        name images.
        """
        checkpointer = checkpointer_image(self._progress)
        images = [*self._parts.images, checkpointer]
        if self._placement.spec.registry:
            images = [published(image, self._placement) for image in images]
            registry = next(node for node in self._placement.nodes if node.role == "registry")
            publish(images, machine_of(self._placement, registry).disk)
            password = (self._keys / "registry-password").read_text()
            self._cluster.apply(login_secret(self._placement, password))
        else:
            deliver(images, self._placement, self._cluster, self._runner)
        names = image_names(images)
        if self._placement.spec.flannel:
            self._cluster.apply(flannel_objects(self._placement, names["flannel"]))
        write_values(
            self._placement, haproxy=names["haproxy"], coredns=names["coredns"], checkpointer=names["pod-checkpointer"]
        )
