"""Commands that messages name, with the cluster's folder as the operator gave it, so that they can be copied."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from upgrader.config.yaml_document import typed as quoted

__all__ = ["program", "with_folder", "with_program"]


def program(folder: Path) -> str:
    """`upgrader -C FOLDER`, or `upgrader` alone in the folder itself."""
    return "upgrader" if folder == Path.cwd() else f"upgrader -C {quoted(folder)}"


def with_folder(text: str, commands: Iterable[str], folder: Path) -> str:
    """The same, with the folder in each `upgrader COMMAND` of these."""
    return with_program(text, commands, program(folder))


def with_program(text: str, commands: Iterable[str], typed: str) -> str:
    """As `with_folder`; `typed` is as of `program`."""
    names = "|".join(map(re.escape, commands))
    return re.sub(rf"(?<![\w/.-])upgrader(?= (?:{names})(?![\w-]))", lambda _: typed, text)
