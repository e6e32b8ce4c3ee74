"""Reads YAML as PyYAML's `safe_load` does, by libyaml and within limits: what is nested too deeply ends it in C.

A plan reads nine manifests, and an adoption each of them several times, and files of controllers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from upgrader.yaml_limits import LOADER, check_limits

__all__ = ["load", "load_all"]


def load(text: str | bytes) -> Any:
    """The only document; None where there is none. Raises yaml.YAMLError."""
    check_limits(text)
    return yaml.load(text, Loader=LOADER)  # noqa: S506  # it is a safe one


def load_all(text: str | bytes) -> Iterator[Any]:
    """Each document; None for an empty one. Raises yaml.YAMLError."""
    check_limits(text)
    yield from yaml.load_all(text, Loader=LOADER)
