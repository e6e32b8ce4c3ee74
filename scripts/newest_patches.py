"""The table of each minor's newest patch, from the versions of Kubernetes' Go module: `make patches` writes it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable

from upgrader.lab.golang import go_command
from upgrader.lab.progress_port import Silent
from upgrader.model.version import KubernetesVersion

__all__ = ["newest_of"]

_MODULE = "k8s.io/kubernetes"
_OLDEST = KubernetesVersion(1, 32, 0)
"""The oldest version that upgrader goes to or from."""
_RELEASE = re.compile(r"v\d+\.\d+\.\d+")


def newest_of(versions: Iterable[str], oldest: KubernetesVersion) -> tuple[KubernetesVersion, ...]:
    """The newest patch of each minor from `oldest` on, in their order; pre-releases left out."""
    newest: dict[tuple[int, int], KubernetesVersion] = {}
    for version in sorted(KubernetesVersion.parse(text) for text in versions if _RELEASE.fullmatch(text)):
        if version >= oldest:
            newest[(version.major, version.minor)] = version
    return tuple(newest.values())


def _main() -> None:
    command = [str(go_command(Silent())), "list", "-m", "-versions", "-json", _MODULE]
    done = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, text=True, check=True)
    table = {
        "made": ["By scripts/newest_patches.py (`make patches`); don't edit.", _MODULE],
        "versions": [str(version) for version in newest_of(json.loads(done.stdout)["Versions"], _OLDEST)],
    }
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    _main()
