"""Reads the YAML that kubeadm keeps in ConfigMaps, and says what is wrong with it without showing it."""

from __future__ import annotations

from typing import Any

import yaml

from upgrader.yaml_limits import check_limits

__all__ = ["read_config"]


def read_config(text: str) -> dict[str, Any]:
    """The mapping that the text is. Raises ValueError."""
    try:
        check_limits(text)
        read = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"it is not valid YAML: {_where(error)}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # PyYAML's, for `!!bool x` or a month 13
        raise ValueError("it is not valid YAML: a value isn't of its type") from error
    if not isinstance(read, dict):
        raise ValueError("it is not a mapping")
    return read


def _where(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, and in which line; without that line, as others wrote it, and may have kept secrets."""
    what = ", ".join(filter(None, (error.context, error.problem)))
    mark = error.problem_mark or error.context_mark
    return f"{what}, line {mark.line + 1}" if mark else what
