"""The section `observability`."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.load import load_settings
from upgrader.errors import ConfigError
from upgrader.model.observability import HttpEndpoint, ObservabilitySettings
from upgrader.model.settings import Settings


def load(folder: Path, section: str) -> Settings:
    (folder / "upgrader.yaml").write_text(f"kubernetesVersion: v1.37.1\nobservability: {section}\n")
    return load_settings(folder, {})


def test_nobody_is_told_by_default(tmp_path: Path) -> None:
    """Without the section, nothing leaves the run; the cluster is called like its folder."""
    assert load(tmp_path, "{}").observability == ObservabilitySettings(cluster=tmp_path.name)


def test_all_keys(tmp_path: Path) -> None:
    """Files are relative to upgrader.yaml, and a URL's last slash doesn't matter."""
    found = load(
        tmp_path,
        "{cluster: prod, textfileDirectory: /var/lib/node, pushgateway: {url: 'https://push.example:9091/x/', "
        "basicAuth: {username: ann, passwordFile: secret}, caFile: ca.crt}}",
    ).observability
    push = HttpEndpoint("https://push.example:9091/x", "ann", tmp_path / "secret", ca_file=tmp_path / "ca.crt")
    assert found == ObservabilitySettings("prod", Path("/var/lib/node"), push)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{pushgateway: {url: push.example}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'file:///etc/passwd'}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'https://h:99999'}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'https://h/a b'}}", "write it as https://HOST:PORT"),
        ("{pushgateway: {url: 'https://ann:pw@h'}}", "put the user into `basicAuth`"),
        ("{pushgateway: {url: 'http://h', bearerTokenFile: t}}", "use https://"),
        (
            "{pushgateway: {url: 'https://h', bearerTokenFile: t, basicAuth: {username: a, passwordFile: b}}}",
            "either 'basicAuth' or 'bearerTokenFile'",
        ),
        ("{cluster: a/b}", "cluster"),
    ],
)
def test_refused(tmp_path: Path, section: str, said: str) -> None:
    """What can't work, or would send a secret in the clear, is an error of the file."""
    with pytest.raises(ConfigError, match=r"upgrader\.yaml:2") as caught:
        load(tmp_path, section)
    assert said in caught.value.message


def test_credentials_to_this_machine(tmp_path: Path) -> None:
    """A Pushgateway on this machine needs no TLS."""
    found = load(tmp_path, "{pushgateway: {url: 'http://localhost:9091', bearerTokenFile: t}}").observability
    assert found.pushgateway == HttpEndpoint("http://localhost:9091", token_file=tmp_path / "t")
