"""Puts what is no Python into the wheel: charts, playbooks, templates, what the lab is made of, and man pages.

Not into an editable installation, which reads them from the checkout.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDERS = {
    "charts": "upgrader/built_in_charts",
    "playbooks": "upgrader/built_in_playbooks",
    "lab": "upgrader/built_in_lab",
    "templates": "upgrader/built_in_templates",
    # What runs in a cluster needs libraries that `upgrader` doesn't: it is what the lab makes images of, and no module.
    "upgrader/in_cluster": "upgrader/built_in_lab/in_cluster",
}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Found by hatchling through its base class."""

    _man: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders, and the man pages, which are made from the commands."""
        if version == "standard":
            build_data["force_include"].update(_FOLDERS)
            self._man = TemporaryDirectory()
            if _write_man_pages(Path(self.root), Path(self._man.name)):
                build_data["shared_data"][self._man.name] = "share/man/man1"
            else:
                self.app.display_warning(
                    "no man pages: they are made from the commands, whose dependencies are missing"
                )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel."""
        if self._man:
            self._man.cleanup()


def _write_man_pages(root: Path, folder: Path) -> bool:
    """Whether they could be made: a build that is isolated from the environment has hatchling alone."""
    sys.path.insert(0, str(root))
    try:
        from scripts import man_pages
    except ModuleNotFoundError:
        return False
    finally:
        sys.path.remove(str(root))
    man_pages.write(folder)
    return True
