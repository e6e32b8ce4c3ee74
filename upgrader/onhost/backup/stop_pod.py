"""Removes the units, the static pods and the data folder that backups, rehearsals or a restore left on this host."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys

from upgrader.onhost.backup.await_pod import gone
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import container_facts

_MANIFESTS = "/etc/kubernetes/manifests"
_KUBELET_SECONDS = 10.0
_SECONDS = 60.0


def main(prefix: str, units: str, folder: str, around: str) -> None:
    """Stop the pods whose names begin with `prefix`, and the units whose names begin with `units`; then remove the
    folder, and the one around it if that is empty ("": none). Prints why that failed as JSON, or {}.
    """
    answer = {}
    try:
        # First: at its end, a unit empties its folder.
        _stop_units(f"{units}*.service")
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
            if around and not os.listdir(around):
                os.rmdir(around)
    except (Failed, ValueError, OSError) as error:
        answer["failed"] = str(error)
    sys.stdout.write(json.dumps(answer) + "\n")


def _stop_units(pattern: str) -> None:
    """Stop them, and wait for their ends. Raises Failed."""
    command = ["systemctl", "stop", "--", pattern]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"the units {pattern} did not stop within {_SECONDS:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise Failed(f"the units {pattern} can't be stopped: {said or f'exit code {done.returncode}'}")
