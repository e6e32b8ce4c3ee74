"""Where the kubelet of this host has its configuration: Kubespray's reads another file than kubeadm's."""

from __future__ import annotations

import os

from upgrader.contract.flags import last_values
from upgrader.onhost.common.kubelet_process import main_process
from upgrader.onhost.common.questions import Failed, read

__all__ = ["configuration_file"]

_KUBEADMS = "/var/lib/kubelet/config.yaml"


def configuration_file(root: str) -> str:
    """The file that the running kubelet's command line names; kubeadm's if none runs, or none is named.

    The kubelet is the main process of its systemd unit. Where that isn't known, it is one that names a file, which a
    `kubelet --version` doesn't.
    """
    number = _main_process()
    own = _flags(root, number) if number else None
    if own is not None:
        return own.get("config") or _KUBEADMS
    others = (_flags(root, number) for number in filter(str.isdigit, _listed(root + "/proc")))
    return next((flags["config"] for flags in others if flags and flags.get("config")), _KUBEADMS)


def _main_process() -> str:
    try:
        return main_process()
    except Failed:
        return ""


def _flags(root: str, number: str) -> dict[str, str] | None:
    """The flags of a process; None if it isn't a kubelet, or has ended."""
    try:
        words = read(f"{root}/proc/{number}/cmdline").decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return last_values(words) if os.path.basename(words[0]) == "kubelet" else None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
