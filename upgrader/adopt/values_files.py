"""The values files of a cluster folder, as adoption writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from upgrader.engine.journal.atomic import write_atomic
from upgrader.model.go_yaml import GoDumper, first_document

__all__ = ["changed_values", "kept_as", "missing_gitignore", "write_values"]

_GITIGNORE = """\
# Written by `upgrader adopt`; yours to edit. Values may hold secrets that kubeadm's flags had: check before you commit.
/kubeconfig
/runs/
/ssh/
*.before-adopt
"""
_HEAD = "# Derived by `upgrader adopt` from kubeadm's own configuration; yours to edit.\n"


def changed_values(folder: Path, derived: Mapping[str, Mapping[str, Any]]) -> dict[Path, str]:
    """The values files whose content would change, with their new text; `derived` is by release."""
    changed = {}
    for release, values in derived.items():
        file = folder / "values" / f"{release}.yaml"
        before = first_document(file.read_text()) if file.exists() else None
        if (before or {}) != values:
            changed[file] = _HEAD + yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, width=120)
    return changed


def missing_gitignore(folder: Path) -> dict[Path, str]:
    """A `.gitignore` for a folder that has none: values belong into version control, credentials and runs don't."""
    file = folder / ".gitignore"
    return {} if file.exists() else {file: _GITIGNORE}


def write_values(file: Path, text: str) -> None:
    """Write a file for its owner only, as flags may hold secrets; what was there before is kept beside it."""
    file.parent.mkdir(exist_ok=True)
    if file.exists():
        file.replace(kept_as(file))
    write_atomic(file, text.encode())


def kept_as(file: Path) -> Path:
    """Where what is in a file is kept when `write_values` replaces it."""
    return file.with_suffix(".yaml.before-adopt")


class _Dumper(GoDumper):
    """Text of several lines (a Corefile) as a block that a person can read and edit."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)
