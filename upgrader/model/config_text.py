"""Reads the YAML of kubeadm's ConfigMaps and of Kubernetes' configuration files, and describes errors in it without
showing its content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from upgrader.model.go_yaml import first_document
from upgrader.model.limited_yaml import check_limits

__all__ = ["read_config", "read_first"]


def read_config(text: str) -> dict[str, Any]:
    """The only document of the text, as a mapping. Raises ValueError."""
    return _mapping(_only, text)


def read_first(text: str) -> dict[str, Any]:
    """The first document of the text, as Kubernetes' programs read a kubeconfig or their configuration. Raises
    ValueError.
    """
    return _mapping(first_document, text)


def _only(text: str) -> Any:
    check_limits(text)
    return yaml.safe_load(text)


def _mapping(read_text: Callable[[str], Any], text: str) -> dict[str, Any]:
    try:
        read = read_text(text)
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
