"""Reads the YAML that kubeadm keeps in ConfigMaps, and describes errors in it without showing its content."""

from __future__ import annotations

from typing import Any

import yaml

from upgrader.yaml_limits import check_limits

__all__ = ["read_config"]


def read_config(text: str) -> dict[str, Any]:
    """The text as a mapping. Raises ValueError."""
    try:
        check_limits(text)
        read = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"it is not valid YAML: {_where(error)}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # PyYAML: `!!bool x`, or month 13
        raise ValueError("it is not valid YAML: a value can't be read as its type") from error
    if not isinstance(read, dict):
        raise ValueError("it is not a mapping")
    return read


def _where(error: yaml.MarkedYAMLError) -> str:
    """The error and its line number; without the line itself, which others wrote and which may contain secrets."""
    what = ", ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    return f"{what}, line {mark.line + 1}" if mark else what
