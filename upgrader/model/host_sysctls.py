"""Where controllers keep what an adoption has set in their kernels, and what it was before."""

from __future__ import annotations

__all__ = ["ORIGINALS", "SYSCTLS"]

SYSCTLS = "/etc/sysctl.d/90-upgrader.conf"
"""What is set, also at a boot."""
ORIGINALS = "/etc/kubernetes/upgrader"
"""Has a file by the name of each sysctl with its value before: an undo of the adoption sets it to that."""
