"""The files that come with upgrader: inside the package (a wheel), or in the repository that this checkout is."""

from __future__ import annotations

from pathlib import Path

__all__ = ["charts_folder", "lab_folder", "playbooks_folder", "templates_folder"]


def charts_folder() -> Path:
    """The built-in charts."""
    return _folder("charts")


def playbooks_folder() -> Path:
    """The built-in playbooks."""
    return _folder("playbooks")


def templates_folder() -> Path:
    """The built-in templates."""
    return _folder("templates")


def lab_folder() -> Path:
    """What a lab's machines and images are made from."""
    return _folder("lab")


def _folder(name: str) -> Path:
    package = Path(__file__).parent
    packed = package / f"built_in_{name}"
    return packed if packed.is_dir() else package.parent / name
