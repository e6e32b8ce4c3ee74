"""A lab's kubeadm of another version, and the commands that its documentation describes."""

from __future__ import annotations

import subprocess

from testkit.waiting import stretched
from upgrader.lab.binaries import kubernetes
from upgrader.lab.lifecycle import Lab
from upgrader.lab.progress_port import Silent

__all__ = ["PROGRAM", "bring", "upgrade_command"]

PROGRAM = "/opt/kubeadm-target"
"""Where the target version's kubeadm is on the controllers."""
# The checks that the lab ignores (a node has no kernel of its own) and the lab's patches, as when the cluster was made;
# etcd's version stays, as with upgrader.
_OPTIONS = (
    "--etcd-upgrade=false --patches /etc/lab/patches --ignore-preflight-errors=SystemVerification,Swap,NumCPU,Mem"
)


def bring(lab: Lab, version: str) -> None:
    """Put this version's kubeadm on every controller."""
    program = kubernetes(version, Silent()) / "kubeadm"
    for node in lab.placement.nodes:
        if node.role == "controller":
            with program.open("rb") as content:
                store = f"cat > {PROGRAM} && chmod 755 {PROGRAM}"
                subprocess.run([*lab.ssh(node.name), store], stdin=content, check=True, timeout=stretched(120))


def upgrade_command(*words: str, timeout_seconds: float = 900.0) -> str:
    """For a shell on a controller: `kubeadm upgrade WORDS`; exit code 124 if it was ended at the timeout."""
    return f"timeout {timeout_seconds:.0f} {PROGRAM} upgrade {' '.join(words)} {_OPTIONS}"
