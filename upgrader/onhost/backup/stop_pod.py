"""Removes the static pods and the data folder that a backup or a restore left on this host."""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys

from upgrader.onhost.backup.await_pod import gone
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import container_facts

_MANIFESTS = "/etc/kubernetes/manifests"
_KUBELET_SECONDS = 10.0
_SECONDS = 60.0


def main(prefix: str, folder: str) -> None:
    """Stop the pods with such names, and remove the folder ("": none); prints why that failed as JSON, or {}."""
    answer = {}
    try:
        for path in glob.glob(os.path.join(_MANIFESTS, glob.escape(prefix) + "*.json")):
            os.unlink(path)
        runtime = container_facts.runtime(container_facts.socket_path(""), _SECONDS)
        if not gone(runtime, prefix, _KUBELET_SECONDS):
            # A kubelet that has heard of no API since its start ends no pod. Nor does it start this one again.
            for pod in runtime.sandboxes():
                if pod.ready and pod.name.startswith(prefix):
                    runtime.stop(pod.id)
        if not gone(runtime, prefix, _SECONDS):
            answer["failed"] = f"the pods {prefix}… did not stop within {_SECONDS:.0f} s"
        elif folder and os.path.lexists(folder):
            shutil.rmtree(folder)
    except (Failed, ValueError, OSError) as error:
        answer["failed"] = str(error)
    sys.stdout.write(json.dumps(answer) + "\n")
