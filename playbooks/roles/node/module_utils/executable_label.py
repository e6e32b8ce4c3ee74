"""Lets systemd execute a program that was copied to where SELinux expects data.

Files in /var/lib get a label that systemd may not execute (var_lib_t). Without SELinux, files have no label.
"""

from __future__ import annotations

import os

__all__ = ["let_systemd_execute"]

_LABEL = "security.selinux"
_DATA, _PROGRAM = b"var_lib_t", b"bin_t"


def let_systemd_execute(program: str) -> None:
    """Give a program that is labelled as data the label of a program. Raises OSError."""
    try:
        parts = os.getxattr(program, _LABEL).rstrip(b"\0").split(b":")
    except OSError:
        return
    if len(parts) > 2 and parts[2] == _DATA:
        parts[2] = _PROGRAM
        os.setxattr(program, _LABEL, b":".join(parts) + b"\0")
