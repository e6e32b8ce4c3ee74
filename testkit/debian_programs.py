"""Programs of Debian packages that tests start themselves: extracted, because installing them would start their
services.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from upgrader.lab.build_cache import built, cache_root

__all__ = ["debian_program"]

_SECONDS = 300


def debian_program(package: str, name: str, folder: str = "usr/bin") -> Path:
    """The program `name` of a package, which has it in `folder`: the installed one, or else extracted once into the
    cache.

    Needs no root; raises CalledProcessError with apt's output if the package can't be fetched.
    """
    installed = shutil.which(name)
    if installed:
        return Path(installed)

    def extract(into: Path) -> None:
        work = into.parent
        subprocess.run(["apt-get", "download", "-q", package], cwd=work, check=True, timeout=_SECONDS)
        (archive,) = work.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive.name, into.name], cwd=work, check=True, timeout=_SECONDS)

    return built(cache_root() / "debian" / package, extract) / folder / name
