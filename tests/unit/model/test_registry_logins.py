"""Which images the kubelet pulls with a Secret, by the registries that it has logins for."""

from __future__ import annotations

import base64
import json

import pytest

from upgrader.model.registry_logins import has_login_for


@pytest.mark.parametrize(
    ("registry", "image"),
    [
        ("registry.example", "registry.example/a/b:1"),
        ("https://registry.example/v2/", "registry.example/a/b:1"),
        ("registry.example:5000", "registry.example:5000/a@sha256:00"),
        ("registry.example/a", "registry.example/a/b:1"),
        ("*.example", "registry.example/a"),
        ("https://index.docker.io/v1/", "haproxy:3.2"),
        ("docker.io", "docker.io/library/haproxy:3.2"),
    ],
)
def test_login_that_covers_an_image(registry: str, image: str) -> None:
    """With a scheme, a port, a path, or a pattern; Docker Hub needs no name."""
    text = json.dumps({"auths": {registry: {"auth": "eDp5"}}})
    secret = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": text}}
    assert has_login_for(secret, image)
    old = base64.b64encode(json.dumps({registry: {"auth": "eDp5"}}).encode()).decode()
    assert has_login_for({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": old}}, image)


@pytest.mark.parametrize(
    ("registry", "image"),
    [
        ("registry.example", "registry.example:5000/a"),
        ("registry.example", "other.example/a"),
        ("*.example", "a.b.example/a"),
        ("registry.example/c", "registry.example/a/b:1"),
        ("registry.example", "haproxy:3.2"),
        ("https://index.docker.io/v1/", "registry.k8s.io/kube-apiserver:v1.37.1"),
    ],
)
def test_login_for_another_registry(registry: str, image: str) -> None:
    """Then the kubelet pulls without it."""
    text = json.dumps({"auths": {registry: {"auth": "eDp5"}}})
    secret = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": text}}
    assert not has_login_for(secret, image)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"auths": []}', "{}"])
def test_content_that_is_no_login(text: str) -> None:
    """Nor is a Secret of another type."""
    data = {".dockerconfigjson": base64.b64encode(text.encode()).decode()}
    assert not has_login_for({"type": "kubernetes.io/dockerconfigjson", "data": data}, "registry.example/a")
    assert not has_login_for({"type": "Opaque", "data": data}, "registry.example/a")
