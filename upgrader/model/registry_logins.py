"""Which images a Secret for registries has a login for, by the kubelet's rules."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

__all__ = ["has_login_for"]

_KEYS = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}
"""The type of such a Secret, and the key of its content."""
_VERSION = re.compile(r"v[12](?=/|$)")
"""Of the registry's API, with which old logins' addresses end: `https://index.docker.io/v1/`."""
_DOCKER_HUB = ("index.docker.io", "docker.io")


def has_login_for(secret: Mapping[str, Any], image: str) -> bool:
    """Whether the kubelet pulls an image with it. One whose content can't be read has none."""
    repository = _repository(image)
    return any(_covers(registry, repository) for registry in _registries(secret))


def _repository(image: str) -> str:
    """With the registry's name, and without tag and digest."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    name = folder + slash + last.partition(":")[0]
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return f"{_DOCKER_HUB[0]}/{name}"
    return f"{_DOCKER_HUB[0]}/{rest}" if first in _DOCKER_HUB else name


def _registries(secret: Mapping[str, Any]) -> Iterator[str]:
    key = _KEYS.get(str(secret.get("type")), "")
    plain, encoded = ((secret.get(part) or {}).get(key) for part in ("stringData", "data"))
    try:
        content = json.loads(plain if plain is not None else base64.b64decode(encoded or ""))
    except ValueError:
        return
    logins = content.get("auths") if key == ".dockerconfigjson" and isinstance(content, dict) else content
    yield from map(str, logins if isinstance(logins, dict) else ())


def _covers(registry: str, repository: str) -> bool:
    """`registry` is a host with or without a scheme, a port and a path; each label of the host may be a pattern."""
    host, _, path = registry.rpartition("://")[2].partition("/")
    path = _VERSION.sub("", path).strip("/")
    (name, _, port), (found, _, inside) = host.partition(":"), repository.partition("/")
    own, _, own_port = found.partition(":")
    wanted, labels = name.split("."), own.split(".")
    if found == _DOCKER_HUB[0] and name in _DOCKER_HUB:
        labels = wanted
    return (
        port == own_port
        and len(wanted) == len(labels)
        and all(map(fnmatchcase, labels, wanted))
        and inside.startswith(path)
    )
