"""Where the built-in charts are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["charts_folder"]


def charts_folder() -> Path:
    """The charts inside the package (a wheel), or those of the repository that this checkout is."""
    package = Path(__file__).parent.parent
    packed = package / "built_in_charts"
    return packed if packed.is_dir() else package.parent / "charts"
