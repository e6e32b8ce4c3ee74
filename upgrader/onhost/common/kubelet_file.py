"""Where the kubelet of this host has its configuration: Kubespray's reads another file than kubeadm's."""

from __future__ import annotations

import contextlib
import os

from upgrader.contract.flags import last_values
from upgrader.onhost.common.questions import read

__all__ = ["configuration_file"]

_KUBEADMS = "/var/lib/kubelet/config.yaml"


def configuration_file(root: str) -> str:
    """The file that the running kubelet's command line names; kubeadm's if none runs, or none is named."""
    for number in filter(str.isdigit, _listed(root + "/proc")):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            words = read(f"{root}/proc/{number}/cmdline").decode("utf-8", "replace").split("\0")
            if os.path.basename(words[0]) == "kubelet":
                return last_values(words).get("config") or _KUBEADMS
    return _KUBEADMS


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
