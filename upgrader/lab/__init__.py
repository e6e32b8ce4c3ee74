"""Local real clusters: systemd-nspawn nodes on this machine with kubeadm's Kubernetes on them."""

from upgrader.lab.lifecycle import Lab, NodeStatus
from upgrader.lab.spec import LabSpec, Node

__all__ = ["Lab", "LabSpec", "Node", "NodeStatus"]
