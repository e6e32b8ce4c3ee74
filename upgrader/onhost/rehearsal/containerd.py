"""containerd's images on this host, by its own program: its API for container runtimes can't give one's files."""

from __future__ import annotations

import subprocess

from upgrader.onhost.common.questions import Failed

__all__ = ["ctr", "said"]

_SECONDS = 120.0


def ctr(*words: str, seconds: float = _SECONDS) -> subprocess.CompletedProcess[bytes]:
    """`ctr images WORDS`, in the kubelet's namespace. Raises Failed if it can't be run, or doesn't end."""
    command = ["ctr", "-n", "k8s.io", "images", *words]
    try:
        return subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError:
        raise Failed("ctr, containerd's program, was not found on this host") from None
    except subprocess.TimeoutExpired:
        raise Failed("{} did not end within {:.0f} s".format(" ".join(command), seconds)) from None


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Why it failed, in its words."""
    return done.stderr.decode("utf-8", "replace").strip()
