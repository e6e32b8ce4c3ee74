"""Where the built-in playbooks are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["playbooks_folder"]


def playbooks_folder() -> Path:
    """The playbooks inside the package (a wheel), or those of the repository that this checkout is."""
    package = Path(__file__).parent.parent
    packed = package / "built_in_playbooks"
    return packed if packed.is_dir() else package.parent / "playbooks"
