"""Quantities of Kubernetes: `500m` of a processor, `128Mi` of memory."""

from __future__ import annotations

import re

__all__ = ["quantity"]

_UNITS = {"": 1.0, "m": 1e-3} | {unit: 1000.0 ** (n + 1) for n, unit in enumerate("kMGTPE")}
_UNITS |= {f"{unit}i": 1024.0 ** (n + 1) for n, unit in enumerate("KMGTPE")}
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)([A-Za-z]*)")


def quantity(text: str) -> float:
    """A Kubernetes quantity such as `128974848`, `129e6`, `123Mi` or `1500m`; raises ValueError."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"'{text}' is not a Kubernetes quantity")
    return float(match[1]) * _UNITS[match[2]]
