"""Removes the units, the static pods and the data folder that backups, rehearsals or a restore left on this host."""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from upgrader.onhost.backup.await_pod import gone
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.common.units import runs
from upgrader.onhost.facts import container_facts

_MANIFESTS = "/etc/kubernetes/manifests"
_KUBELET_SECONDS = 10.0
_SECONDS = 60.0
_LOCK_SECONDS = 30.0
_INTERVAL_SECONDS = 0.2


def main(prefix: str, units: str, folder: str, around: str) -> None:
    """Stop the pods whose names begin with `prefix`, and the units whose names begin with `units`; then remove the
    folder, and the one around it if that is empty ("": none). Prints why that failed as JSON, or {}.
    """
    answer = {}
    try:
        # First: at its end, a unit empties its folder.
        _stop_units(units)
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
            with _locked(os.path.dirname(around or folder)):
                _remove(folder, around)
    except (Failed, ValueError, OSError) as error:
        answer["failed"] = str(error)
    sys.stdout.write(json.dumps(answer) + "\n")


def _remove(folder: str, around: str) -> None:
    """Where a restore has not taken it over meanwhile."""
    if os.path.lexists(folder):
        shutil.rmtree(folder)
    if around and os.path.isdir(around) and not os.listdir(around):
        os.rmdir(around)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """A restore takes what it has prepared out of there under the same lock: all of it, or nothing. Raises Failed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise Failed(f"{folder} was locked for {_LOCK_SECONDS:.0f} s by another process, such as a restore")
            time.sleep(_INTERVAL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop_units(prefix: str) -> None:
    """Stop them, and wait for their ends. Only rehearsals have units: without one, a backup needs no systemctl. Raises
    Failed.
    """
    if not runs(prefix):
        return
    pattern = f"{prefix}*.service"
    command = ["systemctl", "stop", "--", pattern]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"the units {pattern} did not stop within {_SECONDS:.0f} s") from None
    except FileNotFoundError:
        raise Failed(f"the units {pattern} can't be stopped: there is no systemctl") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise Failed(f"the units {pattern} can't be stopped: {said or f'exit code {done.returncode}'}")
