"""The names of container images, as container runtimes complete them."""

from __future__ import annotations

__all__ = ["digest_in", "full_name"]

_DOCKER_HUB = "docker.io"


def full_name(image: str) -> str:
    """With its registry and its tag: `nginx` is `docker.io/library/nginx:latest`. A digest makes a tag needless."""
    name, at, digest = image.partition("@")
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        first, rest = _DOCKER_HUB, name if slash else f"library/{name}"
    if first == "index.docker.io":
        first = _DOCKER_HUB
    repository, _, tag = rest.partition(":")
    if at:
        return f"{first}/{repository}@{digest}"
    return f"{first}/{repository}:{tag or 'latest'}"


def digest_in(name: str) -> str:
    """The digest of `REPOSITORY@sha256:…`; "" for any other name."""
    return name.partition("@")[2]
