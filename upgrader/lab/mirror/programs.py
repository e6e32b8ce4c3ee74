"""A release's programs as on dl.k8s.io: `release/VERSION/bin/linux/ARCHITECTURE/NAME`.

Beside each are its SHA-256, the signature, and the signer's certificate.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from upgrader.lab.mirror.address import Address
from upgrader.lab.mirror.cache import blob
from upgrader.lab.mirror.download import Downloads, refused
from upgrader.lab.mirror.signatures import RELEASES, Authorities, Unverified, verify
from upgrader.lab.progress_port import LabProgress

__all__ = ["VERSION_OF", "verified_program", "require_version"]

VERSION_OF: Mapping[str, tuple[str, ...]] = {
    "kubelet": ("--version",),
    "kubeadm": ("version", "--output=short"),
    "kubectl": ("version", "--client", "--output=json"),
}
"""Program → the arguments with which it prints its version."""


def verified_program(
    mirror: Address,
    version: str,
    architecture: str,
    name: str,
    authorities: Authorities,
    downloads: Downloads,
    progress: LabProgress,
) -> Path:
    """A program in the cache, signed by Kubernetes' release managers; not executable, named by its SHA-256."""
    url = mirror.file(f"release/{version}/bin/linux/{architecture}/{name}")
    said = downloads.small(f"{url}.sha256").decode(errors="replace").split()
    if not said or not re.fullmatch(r"[0-9a-f]{64}", said[0]):
        raise refused(f"{url}.sha256 isn't a SHA-256")
    # Before the program itself: the signature is that of its SHA-256.
    try:
        verify(said[0], downloads.small(f"{url}.sig"), downloads.small(f"{url}.cert"), authorities, RELEASES)
    except Unverified as error:
        raise refused(f"{url}.sig does not verify: {error}") from error
    return blob(url, said[0], f"{name} {version}", downloads, progress)


def require_version(program: Path, version: str) -> None:
    """Refuse a genuine program of another release: a signature doesn't contain the name or version of the file."""
    command = [str(program), *VERSION_OF[program.name]]
    environment = {"PATH": os.defpath, "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise refused(f"its {program.name} of {version} doesn't run here: {error}") from error
    said = done.stdout.strip().removeprefix("Kubernetes ")
    if said.startswith("{"):
        said = str(json.loads(said).get("clientVersion", {}).get("gitVersion"))
    if said != version:
        raise refused(f"its {program.name} of {version} reports the version {said or done.stderr.strip()[-200:]!r}")
