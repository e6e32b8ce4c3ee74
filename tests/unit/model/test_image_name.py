"""How container runtimes complete the names of images."""

from __future__ import annotations

import pytest

from upgrader.model.image_name import digest_in, full_name, repository

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.29", "docker.io/library/nginx:1.29"),
        ("docker.io/nginx:1.29", "docker.io/library/nginx:1.29"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        ("bitnami/nginx", "docker.io/bitnami/nginx:latest"),
        ("index.docker.io/library/nginx:1", "docker.io/library/nginx:1"),
        ("localhost/tool:1", "localhost/tool:1"),
        ("registry:5000/tool", "registry:5000/tool:latest"),
        ("registry.k8s.io/kube-proxy:v1.37.1", "registry.k8s.io/kube-proxy:v1.37.1"),
        (f"registry.k8s.io/pause:3.10@{DIGEST}", f"registry.k8s.io/pause@{DIGEST}"),
        (f"nginx@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
    ],
)
def test_names_are_completed(short: str, full: str) -> None:
    """A kubelet reports an image by its full name, whatever the manifest calls it."""
    assert full_name(short) == full
    assert digest_in(full) == (DIGEST if "@" in full else "")


@pytest.mark.parametrize("rest", ["", ":1", f"@{DIGEST}", f":1@{DIGEST}"])
def test_repository_has_neither_tag_nor_digest(rest: str) -> None:
    """A port is part of it."""
    assert repository(f"nginx{rest}") == "docker.io/library/nginx"
    assert repository(f"registry:5000/a/tool{rest}") == "registry:5000/a/tool"
