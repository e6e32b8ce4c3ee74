"""Everything of a lab on this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

__all__ = ["traces"]


def traces(name: str, prefix: str, folder: Path) -> list[str]:
    """Processes, mounts, interfaces, routes, control groups and files of a lab, one line each; empty when it is
    removed.

    `prefix` is the lab's own (`uplab0`); `folder` its cluster folder.
    """
    home = f"/var/lib/upgrader-lab/{name}"
    found = [f"file {path}" for path in (Path(home), folder) if path.exists()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            mounts = (process / "mountinfo").read_text()
            groups = (process / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError, OSError):
            continue
        if f"{home}/" in words or f"/{prefix}-" in groups:
            found.append(f"process {process.name}: {words[:80]}")
        if f"{home}/" in mounts:
            found.append(f"mount in process {process.name}")
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout)
    own = (f"vb-{prefix}-", f"ve-{prefix}-")
    names = [link["ifname"] for link in links]
    found += [f"interface {name}" for name in names if name == prefix or name.startswith(own)]
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    found += [f"route {line}" for line in routes.splitlines() if f"dev {prefix} " in f"{line} "]
    found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{prefix}-*")]
    found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"{prefix}-*")]
    return found
