"""Where resources live in the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

__all__ = ["Object", "Resource"]

Object = Mapping[str, Any]
"""A Kubernetes object in its JSON form."""
_PLAIN = re.compile("[A-Za-z0-9_.~-]*")
"""Almost all names: `quote` leaves them as they are, and takes five times as long for it."""


@dataclass(frozen=True)
class Resource:
    """`Resource("apps/v1", "statefulsets")`."""

    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, or of all of them; `namespace` "" means all namespaces."""
        parts = ["apis" if "/" in self.api_version else "api", *self.api_version.split("/")]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(part if _PLAIN.fullmatch(part) else quote(part, safe="") for part in parts)
