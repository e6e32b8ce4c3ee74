"""The names of container images, as container runtimes complete them."""

from __future__ import annotations

__all__ = ["digest_in", "full_name", "repository"]

_DOCKER_HUB = "docker.io"


def full_name(image: str) -> str:
    """With its registry and its tag: `nginx` is `docker.io/library/nginx:latest`. With a digest, no tag is added."""
    name, at, digest = image.partition("@")
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _DOCKER_HUB, name
    if first == "index.docker.io":
        first = _DOCKER_HUB
    if first == _DOCKER_HUB and "/" not in rest:
        rest = f"library/{rest}"
    path, _, tag = rest.partition(":")
    if at:
        return f"{first}/{path}@{digest}"
    return f"{first}/{path}:{tag or 'latest'}"


def repository(image: str) -> str:
    """Its full name without tag and digest."""
    name = full_name(image)
    return name.partition("@")[0] if "@" in name else name.rpartition(":")[0]


def digest_in(name: str) -> str:
    """The digest in `REPOSITORY@sha256:…`; "" for any other name."""
    return name.partition("@")[2]
