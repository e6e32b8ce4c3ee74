"""Helm values files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import read_mapping

__all__ = ["load_values"]


def load_values(path: Path) -> Mapping[str, Any]:
    """A values file's tree; empty when the file doesn't exist: the chart's defaults apply.

    Raises ConfigError (`FILE:LINE:`) for a file that isn't a YAML mapping.
    """
    return read_mapping(path).data if path.exists() else {}
