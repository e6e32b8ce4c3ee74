"""A power cut between any two file operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar
from unittest import mock

__all__ = ["PowerCut", "power_for"]

P = ParamSpec("P")
R = TypeVar("R")

_OPERATIONS = ("open", "fsync", "fchmod", "rename", "replace", "unlink", "rmdir", "mkdir", "link")


class PowerCut(BaseException):
    """Stops the process between two file operations."""


@contextmanager
def power_for(operations: int) -> Iterator[None]:
    """The power goes after that many file operations."""
    left = operations

    def cut(real: Callable[P, R]) -> Callable[P, R]:
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal left
            if left == 0:
                raise PowerCut
            left -= 1
            return real(*args, **kwargs)

        return wrapped

    patches = [mock.patch.object(os, name, cut(getattr(os, name))) for name in _OPERATIONS]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()
