"""Secrets are taken out of text by their form, and what explains a failure is left in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upgrader.model.redaction.patterns import _PATTERNS, is_secret_name, mask_patterns

# Put together here, so that no scanner takes this file for a leak.
JWT = f"eyJhbGciOiJSUzI1NiJ9.{'eyJzdWIiOiJhZG1pbiJ9'}.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END RSA " + "PRIVATE KEY-----"

_WORDS = (
    *("password", "passwd", "passphrase", "sshpass", "become_pass", "sudo-pass", "_pass", "pass"),
    *("secret", "token", "api_key", "accesskey", "secret-key", "key", "private_key", "encryption-key"),
    *("client-key-data", "bearer", "basic", "auth", "curl", "discord.com/api/webhooks/"),
    *("hooks.slack.com/services/", "eyJ", "eyJhbGciOiJSUzI1NiJ9.", "AGE-SECRET-KEY-1", "ghp_", "glpat-"),
    *("AKIA", "://", "@", "=", ":", "-", "--", ".", "/", "--user", "-u"),
)
_PIECES = [
    *_WORDS,
    *(word.upper() for word in _WORDS),
    *(word.replace("k", "\N{KELVIN SIGN}").replace("s", "\N{LATIN SMALL LETTER LONG S}") for word in _WORDS),
    *(" ", '"', "'", "\\", "\n", "Hunter22x", "0123456789abcdef", "dXNlcjpwYXNz", "abcdef", "S3cret9S3cret9S3cret9"),
    "-----BEGIN EC " + "PRIVATE KEY-----",
    "-----END EC " + "PRIVATE KEY-----",
]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [masked]"),
        (f"token review of {JWT} failed", "token review of [masked] failed"),
        (f"before\n{KEY}\nafter", "before\n[masked]\nafter"),
        ("-----BEGIN EC " + "PRIVATE KEY-----\nMHcCAQ", "[masked]"),
        ("MHcCAQ\n-----END EC " + "PRIVATE KEY-----\nafter", "[masked]\nafter"),
        ("join with abcdef.0123456789abcdef now", "join with [masked] now"),
        ("GET https://admin:s3cret@host/path", "GET https://admin:[masked]@host/path"),
        ("password=hunter22 user=me", "password=[masked] user=me"),
        ('{"client_secret": "abcd1234"}', '{"client_secret": "[masked]"}'),
        ("--token=0123456789", "--token=[masked]"),
        ("curl --token 0123abcd -v", "curl --token [masked] -v"),
        ("mysql --password letmein db", "mysql --password [masked] db"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[masked]"),
        ("AKIA" + "IOSFODNN7EXAMPLE used", "[masked] used"),
        ("client-key-data: LS0tLS1CRUdJTg==", "client-key-data: [masked]"),
        ("  token: 8f14e45fceea167a", "  token: [masked]"),
        ("passphrase=correct-horse", "passphrase=[masked]"),
        ("password: letmein", "password: [masked]"),
        ('password: "two words"', 'password: "[masked]"'),
        ("remote: ghp_" + "a1" * 18 + " refused", "remote: [masked] refused"),
        ("('AGE-SECRET-KEY-1" + "QZ7" * 19 + "A',)", "('[masked]',)"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [masked]"),
        ("glpat-" + "x9" * 10, "[masked]"),
        ("url: https://hooks.slack.com/" + "services/T0A/B0B/x9", "url: https://hooks.slack.com/services/[masked]"),
        ("https://discord.com/" + "api/webhooks/12/x9-_z now", "https://discord.com/api/webhooks/[masked] now"),
        ("clone https://bot:p/w@git.example/x", "clone https://bot:[masked]@git.example/x"),
        ("clone https://0123456789abcdef0123@git.example", "clone https://[masked]@git.example"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic [masked]"),
        ('{"auths": {"r": {"auth": "dXNlcjpwYXNz"}}}', '{"auths": {"r": {"auth": "[masked]"}}}'),
        (r'"{\"password\": \"letmein\"}"', r'"{\"password\": \"[masked]\"}"'),
        ('{"log": "-----BEGIN ' + 'PRIVATE KEY-----\\nMHcC", "b": 1}', '{"log": "[masked]", "b": 1}'),
        ("ansible_become_pass=hunter22", "ansible_become_pass=[masked]"),
        ("""{"password": "it's-s3cret9"}""", '{"password": "[masked]"}'),
        ("""password: "it's S3cret9" x""", 'password: "[masked]" x'),
        ("password='two words'", "password='[masked]'"),
        ("GET http://u:p@ss@host/ failed", "GET http://u:[masked]@host/ failed"),
        ("DB_PASS=Hunter22x", "DB_PASS=[masked]"),
        ("db_pass: Hunter22x", "db_pass: [masked]"),
        ("curl -s -u admin:hunter https://x", "curl -s -u admin:[masked] https://x"),
        ("curl --user 'admin:hunter' https://x", "curl --user 'admin:[masked]' https://x"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    """Each kind of secret that control-plane logs have been seen to hold."""
    assert mask_patterns(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "Error: unknown flag: --nonsense",
        'MountVolume.SetUp failed for volume "pki": secret "apiserver-pki" not found',
        'invalid argument "x" for "--service-account-signing-key-file" flag',
        "open /etc/kubernetes/pki/apiserver.key: no such file or directory",
        "image registry.k8s.io/kube-apiserver:v1.37.1@sha256:0123 not found",
        "pull docker://registry.example:5000/haproxy@sha256:" + "0123456789abcdef" * 4,
        "unable to verify the token: signature mismatch",
        "the flag --token requires a value",
        "--tls-private-key=/etc/kubernetes/pki/apiserver.key",
        "Basic authentication is not supported",
        "pod 0f8b2c1e-1d7c-4b7a-9f5e-6a1b2c3d4e5f of node controller-1.example.com",
        'secret "bootstrap-token" is of type bootstrap.kubernetes.io/token',
        "generation 7, sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "automountServiceAccountToken: false",
        "secretName: registry-login",
        "tests_passed=12345",
        "DB_PASSES=12345",
        "curl: (6) Could not resolve host: x",
        "curl -u admin https://x:6443",
    ],
)
def test_causes_are_left_in(text: str) -> None:
    """What merely speaks of secrets, or looks technical, stays readable."""
    assert mask_patterns(text) == text


@given(text=st.lists(st.sampled_from(_PIECES), max_size=8).map("".join))
def test_the_words_that_save_a_search_hide_nothing(text: str) -> None:
    """Whatever the case of its letters, also of those that Unicode takes for `k` and `s`, each pattern finds in a text
    what it would find if it were always searched for."""
    masked = text
    for _, pattern, replacement in _PATTERNS:
        masked = re.sub(pattern, replacement, masked)
    assert mask_patterns(text) == masked


@pytest.mark.parametrize("start", ["://a:", "-eyJaaaaa"])
def test_patterns_search_only_so_far(start: str) -> None:
    """Each of many beginnings is not followed to the end of the text: the time would grow with its square."""
    assert mask_patterns(f"{start * 2_000}.x@").startswith(start * 1_000)


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "DB_PASS", "aws_secret_access_key", "client-key-data", "token", "auth"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    """Values of a key, a variable or a flag of such a name are taken for secrets."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["secretName", "existingSecret", "secret", "token-auth-file", "author", "keys", "path", "tests_passed"]
)
def test_names_that_only_resemble_are_not(name: str) -> None:
    """The name of a Secret, or of a file, is none itself, and is needed to understand a message."""
    assert not is_secret_name(name)
