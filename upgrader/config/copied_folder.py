"""Where the files of a cluster folder are, if a run of a campaign reads copies of them.

The copies have the paths of the originals, below one folder: so relative names, links and what is beside a file are as
they were.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["COPIES", "copied", "not_copied"]

COPIES = "UPGRADER_APPROVED_COPIES"
"""The variable that names the folder of copies."""


def copied(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """The copy of a cluster folder that is to be read instead; None where there is none."""
    copies = environ.get(COPIES)
    return Path(copies + os.path.realpath(folder)) if copies else None


def not_copied(home: Path, inputs: Path, name: str) -> Path:
    """A file that is copied only if it is in the folder `home` itself, whose copy is `inputs`: one that is checked by
    its sum, or is no code.
    """
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return (inputs if inside else home) / name
