"""What is read from, and written into, the text that kubeadm keeps of a cluster."""

from __future__ import annotations

import pytest

from upgrader.model.kubeadm_config import KubeadmConfig
from upgrader.model.version import KubernetesVersion

V136, V137 = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)


@pytest.mark.parametrize("written", ["v1.36.3", '"v1.36.3"', "'1.36.3'", "v1.36.3   # as kubeadm left it"])
def test_nothing_but_the_version_changes(written: str) -> None:
    """Comments, order, and fields that no kubeadm knows stay byte for byte."""
    text = (
        "# ours\napiVersion: kubeadm.k8s.io/v1beta4\nunknown: [1,   2]\nkubernetesVersion: {}\n"
        "dns: {{kubernetesVersion: v1.0.0}}\n"
    )
    config = KubeadmConfig(text.format(written))
    assert (config.version, config.api_version) == (V136, "kubeadm.k8s.io/v1beta4")
    new = "'v1.37.1'" if written == "'1.36.3'" else written.replace("v1.36.3", "v1.37.1")
    assert config.at(V137).text == text.format(new)
    assert config.at(V137).version == V137


@pytest.mark.parametrize(
    "text",
    [
        "# äöü 😀 日本\na: é😀\nkubernetesVersion: v1.36.3\n",
        "\ufeffkubernetesVersion: v1.36.3\n",
        "a: 1\r\nkubernetesVersion: v1.36.3\r\nb: 1\r\n",
        "---\nkubernetesVersion: v1.36.3\n...\n",
        '{"kubernetesVersion":"v1.36.3","a":[1]}',
    ],
)
def test_text_of_another_editor_is_changed_at_the_same_place(text: str) -> None:
    """Whatever its characters and line ends; and JSON stays JSON, which kubeadm reads as such."""
    assert KubeadmConfig(text).at(V137).text == text.replace("v1.36.3", "v1.37.1")
    assert KubeadmConfig(text).at(V137).at(V136).text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no ClusterConfiguration"),
        ("[]", "it is not a mapping"),
        ("a: [", "it is not valid YAML"),
        ("a: 1", "it has no `kubernetesVersion`"),
        ("kubernetesVersion: [v1.36.3]", "isn't a single plain value"),
        ("kubernetesVersion: v1.36.3\nkubernetesVersion: v1.35.0", "isn't a single plain value"),
        ("kubernetesVersion: stable-1", "'stable-1' is not a Kubernetes version"),
        ("kubernetesVersion: v1.37.1-rc.0", r"'v1\.37\.1-rc\.0' isn't a plain release such as v1\.37\.1"),
        ("kubernetesVersion: v1.36.3+vmware.1", "isn't a plain release"),
        ("a: &a v1.36.3\nkubernetesVersion: *a", "can't be changed in place"),
        ("kubernetesVersion: &a v1.36.3\nb: *a", "can't be changed in place"),
        ("kubernetesVersion: |\n  v1.36.3\nb: 1", "can't be changed in place"),
    ],
)
def test_text_that_can_not_be_changed_safely_is_refused(text: str, why: str) -> None:
    """Rather than to write what kubeadm would read otherwise; the reason says what is wrong."""
    with pytest.raises(ValueError, match=why):
        KubeadmConfig(text).at(V137)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("key: hunter2\nkubernetesVersion: v1.36.3\n---\na: 1", "single document in the stream.*, line 3"),
        ("kubernetesVersion: v1.36.3\nkey: !vault hunter2", "tag '!vault', line 2"),
        ("kubernetesVersion:\tv1.36.3\nkey: hunter2", "cannot start any token, line 1"),
        ("kubernetesVersion: v1.36.3\nkey: !!bool hunter2", "a value can't be read as its type"),
        ("kubernetesVersion: v1.36.3\nkey: !!timestamp hunter2", "a value can't be read as its type"),
        ("kubernetesVersion: v1.36.3\nkey: !!int hunter2", "a value can't be read as its type"),
        ("kubernetesVersion: v1.36.3\nkey: !!int ''", "a value can't be read as its type"),
        ("kubernetesVersion: v1.36.3\nkey: \ud800", "a value can't be read as its type"),
        ("kubernetesVersion: v1.36.3\nkey: \x01", "characters are not allowed"),
    ],
)
def test_reason_has_nothing_of_the_text_around(text: str, why: str) -> None:
    """Whatever PyYAML raises is a reason, and others may have kept secrets in the text."""
    with pytest.raises(ValueError, match=why) as caught:
        KubeadmConfig(text).at(V137)
    assert "hunter2" not in str(caught.value)


def test_config_map_without_data_has_no_text() -> None:
    """A ConfigMap that somebody has emptied is read like an empty text."""
    assert KubeadmConfig.of({"data": None}).text == ""


def test_immutable_config_map_can_not_be_changed() -> None:
    """The plan says so, rather than a step behind the whole upgrade; what it says already needs no change."""
    config = KubeadmConfig.of({"immutable": True, "data": {"ClusterConfiguration": "kubernetesVersion: v1.36.3"}})
    assert config.at(V136) == config
    with pytest.raises(ValueError, match="immutable"):
        config.at(V137)
