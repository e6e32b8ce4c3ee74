"""containerd of a lab's nodes: Debian's own, or one of 2.x, built from its Go module. And its configuration."""

from __future__ import annotations

from pathlib import Path

from upgrader.lab.binaries import Binaries
from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.host_capabilities import HostCapabilities
from upgrader.lab.private_registry import CERTIFICATES
from upgrader.lab.progress_port import LabProgress

__all__ = ["containerd_config", "containerd_programs"]

_CNI_PROGRAMS = "/usr/lib/cni"
_CNI_CONFIG = "/etc/cni/net.d"


def containerd_programs(version: str, progress: LabProgress) -> Path:
    """An overlay folder with containerd, its shim and ctr in Debian's places; runc and the units stay Debian's."""
    programs = Binaries(progress).containerd(version)

    def build(target: Path) -> None:
        folder = target / "usr" / "bin"
        folder.mkdir(parents=True)
        for program in programs.iterdir():
            (folder / program.name).hardlink_to(program)

    return built(cache_root() / "node" / f"containerd-{programs.name}", build)


def containerd_config(found: HostCapabilities, pause_image: str, version: str) -> str:
    """`/etc/containerd/config.toml`, as TOML; `version` is that of `lab up --containerd`, "" for Debian's."""
    # Without CAP_SYS_RESOURCE runc can't lower a sandbox's oom_score_adj, and every sandbox fails with "EOF".
    restrict = "false" if found.may_lower_oom_score else "true"
    if version:
        return f"""version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{pause_image}"
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "{CERTIFICATES}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {restrict}
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{_CNI_PROGRAMS}"]
    conf_dir = "{_CNI_CONFIG}"
"""
    return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  restrict_oom_score_adj = {restrict}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_CNI_PROGRAMS}"
    conf_dir = "{_CNI_CONFIG}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{CERTIFICATES}"
"""
