"""Literal secrets are masked wherever they appear, in every form in which others write them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from upgrader.model.redaction.known_secrets import KnownSecrets, secrets_in

LINES = ("MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04f", "q6sHzCgYIKoZIzj0DAQehRANCAAT")
KEY = "\n".join(("-----BEGIN EC " + "PRIVATE KEY-----", *LINES, "-----END EC " + "PRIVATE KEY-----", ""))


def coded(text: str) -> str:
    """As a Secret's data has it."""
    return base64.b64encode(text.encode()).decode()


def secret(**entries: str) -> dict[str, Any]:
    """A Secret."""
    return {"kind": "Secret", "metadata": {"name": "s"}, "data": {key: coded(text) for key, text in entries.items()}}


def masked(tree: object, text: str) -> str:
    """The text, once the secrets of a tree are known."""
    known = KnownSecrets()
    known.learn(secrets_in(tree))
    return known.mask(text)


@pytest.mark.parametrize(
    "text",
    ["it is Tr0ub4dor/3!", f"in {coded('Tr0ub4dor/3!')}", "?p=Tr0ub4dor%2F3%21", "prefixTr0ub4dor/3!suffix"],
)
def test_values_of_secrets_are_masked_everywhere(text: str) -> None:
    """As they are, as base64, in a URL, and inside a longer word."""
    found = masked(secret(key="Tr0ub4dor/3!"), text)
    assert "[masked]" in found and "Tr0u" not in found and coded("Tr0ub4dor/3!") not in found


@pytest.mark.parametrize("text", ["Tr0ub4dor-3\n", KEY, KEY.strip(), f"{KEY}\n"])
def test_the_data_of_a_manifest_is_masked_as_it_is_written(text: str) -> None:
    """A line's end belongs to the value, and changes its base64."""
    assert masked(secret(key=text), f"data: {coded(text)}") == "data: [masked]"
    assert masked({"kind": "Secret", "stringData": {"key": text}}, f"data: {coded(text)}") == "data: [masked]"


def test_short_lines_of_a_secret_are_secret() -> None:
    """A file of users and passwords has short lines; words alone stay readable."""
    users = "admin:Hunter22x\nroot:Zq9-secret\nproduction\n"
    assert masked(secret(users=users), "x root:Zq9-secret in production") == "x [masked] in production"


def test_keys_of_encryption_at_rest_are_secret() -> None:
    """Elsewhere `secret` names a Secret; in this file it is the key that etcd's data is encrypted with."""
    key = {"name": "key1", "secret": "c2VjcmV0IGlzIHNlY3VyZQ=="}
    providers = [{"aescbc": {"keys": [key]}}, {"identity": {}}]
    config = {"kind": "EncryptionConfiguration", "resources": [{"resources": ["secrets"], "providers": providers}]}
    assert masked(config, "key1 c2VjcmV0IGlzIHNlY3VyZQ== of secrets") == "key1 [masked] of secrets"


def test_string_data_counts_too() -> None:
    """A chart may write a Secret's values as text."""
    assert masked({"kind": "Secret", "stringData": {"key": "hunter22"}}, "got hunter22") == "got [masked]"


def test_each_line_of_a_key_is_secret() -> None:
    """A log shows a part of a PEM block, which no pattern recognises."""
    assert masked(secret(**{"tls.key": KEY}), f"read {LINES[1]}, then failed") == "read [masked], then failed"


def test_files_inside_a_secret_are_read() -> None:
    """Of a registry's login the password and the encoded pair are secret; the registry's name is not."""
    login = json.dumps(
        {"auths": {"r.example": {"username": "bot", "password": "hunter22", "auth": "Ym90Omh1bnRlcjIy"}}}
    )
    text = f"r.example: bot hunter22 Ym90Omh1bnRlcjIy {coded(login)}"
    assert masked(secret(**{".dockerconfigjson": login}), text) == "r.example: bot [masked] [masked] [masked]"


def test_kubeconfig_inside_a_secret() -> None:
    """So is the token of a kubeconfig, and nothing else of it."""
    config = "apiVersion: v1\nusers:\n- name: admin\n  user: {token: 0123456789abcdef}\n"
    assert masked(secret(config=config), "admin 0123456789abcdef v1") == "admin [masked] v1"


@pytest.mark.parametrize(
    "tree",
    [
        {"env": [{"name": "DB_PASSWORD", "value": "letmein1"}]},
        {"auth": {"password": "letmein1"}},
        [{"users": [{"user": {"token": "letmein1"}}]}],
        {"password": ["letmein1", "/etc/a"]},
        {"token": {"value": "letmein1", "path": "/etc/a"}},
    ],
)
def test_names_tell_secrets(tree: object) -> None:
    """A container's environment, a value and a kubeconfig's token are known by their names."""
    assert masked(tree, "x letmein1 y") == "x [masked] y"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"namespace": "kube-system"}, "pod kube-system/x"),
        ({"component": "kube-apiserver"}, "release kube-apiserver failed"),
        ({"enabled": "true", "port": "5432"}, "true, port 5432"),
        ({"ca.crt": "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU\n"}, "MIIBszCCAVmgAwIBAgIU"),
        ({"short": "a1b2"}, "pod a1b2"),
        ({"pin": "a1b2c3"}, "pod web-xa1b2c3x"),
    ],
)
def test_what_is_not_secret_stays(entry: dict[str, str], text: str) -> None:
    """Names, numbers, certificates and short words in Secrets would mask what a message is about."""
    assert masked(secret(**entry), text) == text


def test_paths_and_other_names_stay() -> None:
    """A flag's file, the name of a Secret, and what is no text are not learned."""
    tree = {"token": "/etc/kubernetes/token.csv", "secretName": "registry-login", "password": None, "passwords": 3}
    assert masked(tree, "/etc/kubernetes/token.csv registry-login") == "/etc/kubernetes/token.csv registry-login"


def test_unreadable_data_is_masked_as_it_is() -> None:
    """Bytes that are no text are secret in the form that a manifest shows."""
    raw = base64.b64encode(bytes(range(200, 230))).decode()
    assert masked({"kind": "Secret", "data": {"key": raw}}, f"key: {raw}") == "key: [masked]"
