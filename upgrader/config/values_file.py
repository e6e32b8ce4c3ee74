"""Helm values files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import read_values

__all__ = ["load_values"]


def load_values(path: Path) -> Mapping[str, Any]:
    """A values file's tree; empty when the file doesn't exist: the chart's defaults apply.

    Raises ConfigError (`FILE:LINE:`) for a file that isn't a YAML mapping.
    """
    if not path.exists():
        return {}
    document = read_values(path)
    try:
        json.dumps(document.data)  # as Helm gets them
    except TypeError as error:
        raise document.error((), f"these values can't be passed to Helm: {error}") from error
    return document.data
