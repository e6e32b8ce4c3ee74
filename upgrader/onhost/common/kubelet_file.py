"""Where the kubelet of this host has its configuration: Kubespray's reads another file than kubeadm's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from upgrader.contract.flags import last_values
from upgrader.onhost.common.kubelet_process import main_process
from upgrader.onhost.common.questions import Failed, read

__all__ = ["configuration_file", "running_flags"]

_KUBEADMS = "/var/lib/kubelet/config.yaml"


def configuration_file(root: str) -> str:
    """The file that the command line of the running kubelet names; kubeadm's if none runs, or none is named.

    Only the main process of its systemd unit counts. A process of any container may have the kubelet's name, and name a
    file that its owner has written.
    """
    named = running_flags(root).get("config", "")
    return named if os.path.isabs(named) else _KUBEADMS


def running_flags(root: str) -> Mapping[str, str]:
    """The flags of the running kubelet, the last one of each name; none if none runs."""
    number = _main_process()
    return _flags(root, number) if number else {}


def _main_process() -> str:
    try:
        return main_process()
    except Failed:
        return ""


def _flags(root: str, number: str) -> Mapping[str, str]:
    """The flags of a process; none if it isn't a kubelet, such as a script that starts it, or has ended."""
    try:
        words = read(f"{root}/proc/{number}/cmdline").decode("utf-8", "replace").split("\0")
    except OSError:
        return {}
    return last_values(words) if os.path.basename(words[0]) == "kubelet" else {}
