"""What runs on a load balancer: guard's agent for HAProxy, as one file, and the files that it is installed with."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from release.sources import Sources

__all__ = ["write_haproxy_agent"]

_PACKAGES = ("guard", "daemons")
_MAIN = """import sys

from upgrader.guard.commands.haproxy_agent import haproxy_agent

sys.exit(haproxy_agent(sys.argv[1:]))
"""
_DATE = (1980, 1, 1, 0, 0, 0)
"""So that the same sources make the same bytes."""


def write_haproxy_agent(sources: Sources, folder: Path) -> None:
    """`haproxy-agent.pyz`, which needs Python, aiohttp and PyYAML; its unit, and its rights in the cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    package = sources.root / "upgrader"
    files = [package / "__init__.py", *(path for name in _PACKAGES for path in sorted((package / name).rglob("*.py")))]
    entries = {str(path.relative_to(sources.root)): path.read_bytes() for path in files}
    with zipfile.ZipFile(folder / "haproxy-agent.pyz", "w", zipfile.ZIP_STORED) as archive:
        for name, content in {"__main__.py": _MAIN.encode(), **entries}.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    for path in sorted((sources.root / "release" / "haproxy_agent").iterdir()):
        shutil.copyfile(path, folder / path.name)
