"""guard's agent for HAProxy as one file, with its unit and its RBAC; and on lb-1 of a lab (`lab up --ingress`)."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from upgrader.built_in_files import lab_folder
from upgrader.lab.build_cache import built, cache_root, content_hash, own_sources

__all__ = ["AGENT_PACKAGES", "agent_folder", "agent_rights", "start_agent", "write_haproxy_agent"]

AGENT_PACKAGES = ("python3-aiohttp", "python3-yaml")
"""Debian packages that it needs in addition to Python."""
_PACKAGES = ("in_cluster/guard", "in_cluster/shared", "contract")
_MAIN = """import sys

from upgrader.in_cluster.guard.commands.haproxy_agent import haproxy_agent

sys.exit(haproxy_agent(sys.argv[1:]))
"""
_DATE = (1980, 1, 1, 0, 0, 0)
"""So that the same sources make the same bytes."""
_START = """
umask 077
mkdir -p /etc/haproxy-agent
cat > /etc/haproxy-agent/kubeconfig <<'END'
{kubeconfig}
END
echo 'FLAGS=-haproxy.socket=/run/haproxy/admin.sock -grace-period=10s' > /etc/default/haproxy-agent
systemctl enable --now haproxy-agent >/dev/null 2>&1 ||
    {{ journalctl --no-pager -n 12 -u haproxy-agent >&2; exit 1; }}
"""


def write_haproxy_agent(folder: Path) -> None:
    """`haproxy-agent.pyz`, which needs Python, aiohttp and PyYAML; its unit, and its RBAC manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_archive(folder / "haproxy-agent.pyz")
    for path in sorted((lab_folder() / "haproxy-agent").iterdir()):
        shutil.copyfile(path, folder / path.name)


def agent_folder() -> Path:
    """An overlay folder with the agent and its unit, which is not enabled."""
    sources = [own_sources(name) for name in _PACKAGES]

    def build(target: Path) -> None:
        for path, mode in (("usr/local/lib", 0o755), ("etc/systemd/system", 0o755)):
            (target / path).mkdir(parents=True, mode=mode)
        _write_archive(target / "usr/local/lib/haproxy-agent.pyz")
        unit = "haproxy-agent.service"
        shutil.copyfile(lab_folder() / "haproxy-agent" / unit, target / "etc/systemd/system" / unit)

    key = content_hash([*sources, lab_folder() / "haproxy-agent"])
    return built(cache_root() / "node" / f"haproxy-agent-{key}", build)


def agent_rights() -> str:
    """Its RBAC manifest, as YAML."""
    return (lab_folder() / "haproxy-agent" / "haproxy-agent.yaml").read_text()


def start_agent(kubeconfig: str) -> str:
    """The script that starts it on lb-1, now and at each boot."""
    return _START.format(kubeconfig=kubeconfig)


def _write_archive(target: Path) -> None:
    entries = {f"upgrader/{name}": own_sources(name).read_bytes() for name in ("__init__.py", "in_cluster/__init__.py")}
    for package in _PACKAGES:
        root = own_sources(package)
        for path in sorted(root.rglob("*.py")):
            entries[f"upgrader/{package}/{path.relative_to(root)}"] = path.read_bytes()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {"__main__.py": _MAIN.encode(), **entries}.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
