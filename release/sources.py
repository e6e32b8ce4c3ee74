"""What a release is made from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from upgrader.config.yaml_editing import with_values

__all__ = ["Sources"]


@dataclass(frozen=True)
class Sources:
    """A checkout, its tools, and where it stands."""

    root: Path
    commit: str
    """Empty outside a git repository."""
    changed: bool
    """Whether it has changes that are not committed."""
    registry: str = ""
    """The registry that the charts name; empty: none, and their users name one."""

    @classmethod
    def of_this_checkout(cls) -> Self:
        """The one that this file is in."""
        root = Path(__file__).resolve().parents[1]
        commit, status = (_git(root, *words) for words in (("rev-parse", "HEAD"), ("status", "--porcelain")))
        return cls(root, commit, bool(status))

    def naming(self, registry: str, digests: Mapping[str, str], folder: Path) -> Self:
        """A copy of all files that git has, in the new `folder`, whose charts name their images.

        `digests`: those of the images, each by the name that it has in common with its chart.
        """
        for name in _git(self.root, "ls-files", "-z").rstrip("\0").split("\0"):
            if (self.root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, folder / name, follow_symlinks=False)
        for name, digest in digests.items():
            values = folder / "charts" / name / "values.yaml"
            values.write_text(with_values(values, "image", {"repository": f"{registry}/{name}", "digest": digest}))
        return replace(self, root=folder, registry=registry)

    def strangers(self) -> list[str]:
        """Files that git doesn't have, and that the archives would.

        Only the root's .gitignore counts there: of a cluster folder in the checkout, also the kubeconfig and the keys
        would be packed, which the folder's own .gitignore names.
        """
        return _git(self.root, "ls-files", "--others", "--exclude-from=.gitignore").splitlines()

    def tool(self, name: str) -> str:
        """A program of this checkout's environment."""
        return str(Path(sys.executable).parent / name)


def _git(root: Path, *words: str) -> str:
    if not (root / ".git").exists():
        return ""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
