"""The section `etcd` of `upgrader.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.load import load_settings
from upgrader.errors import ConfigError
from upgrader.model.availability import Limits
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.settings import Settings

DIGEST = "sha256:" + "a" * 64


def load(folder: Path, etcd: str) -> Settings:
    """The settings of a file with that section."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n" + etcd)
    return load_settings(folder, {})


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", None),
        (
            "etcd: {image: registry.k8s.io/etcd:3.6.6-0}",
            EtcdSettings("registry.k8s.io/etcd:3.6.6-0", EtcdVersion(3, 6, 6)),
        ),
        (
            f"etcd: {{image: 'r:5000/etcd@{DIGEST}', version: 3.6.6, readyDeadline: 5m, availability: {{maxGap: 2s}}}}",
            EtcdSettings(f"r:5000/etcd@{DIGEST}", EtcdVersion(3, 6, 6), 300.0, None, 2.0),
        ),
    ],
)
def test_what_is_read(tmp_path: Path, text: str, settings: EtcdSettings | None) -> None:
    """The tag tells the version, or else a key of its own."""
    assert load(tmp_path, text).etcd == settings


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("{image: registry.k8s.io/etcd}", "not an image with a tag or a digest"),
        ("{image: 'etcd:3.6.6 #'}", "not an image with a tag or a digest"),
        ("{image: 'r/etcd:latest'}", "the tag of r/etcd:latest is not a version of etcd: add the key 'version'"),
        (f"{{image: 'r/etcd@{DIGEST}'}}", "add the key 'version'"),
        ("{image: 'r/etcd:3.6.6-0', version: 3.6.7}", "is not the tag's version, 3.6.6"),
        ("{image: 'r/etcd:stable', version: new}", "'new' is not a version of etcd"),
        ("{version: 3.6.6}", "image"),
    ],
)
def test_what_is_refused(tmp_path: Path, section: str, words: str) -> None:
    """It would be written into a manifest as it is, so it has to be a name, of a version that is known."""
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"etcd: {section}\n")
    assert words in refused.value.message


def test_the_step_is_named_etcd_only_where_there_is_one(tmp_path: Path) -> None:
    """A release of that name stays possible without the section."""
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart/Chart.yaml").write_text("{apiVersion: v2, name: etcd, version: 0.1.0}\n")
    release = "pipeline: [{release: etcd, namespace: db, chart: chart}]\n"
    assert load(tmp_path, release).pipeline[0].name == "etcd"
    with pytest.raises(ConfigError, match="etcd"):
        load(tmp_path, release + "etcd: {image: 'r/etcd:3.6.6-0'}\n")


def test_what_the_step_may_cost(tmp_path: Path) -> None:
    """With one or two members the API waits for a restart; what is set counts."""
    usual = load(tmp_path, "etcd: {image: 'r/etcd:3.6.6-0'}")
    assert usual.limits("etcd", 3) == usual.availability.limits
    assert usual.limits("etcd", 1) == usual.limits("etcd", 2) == Limits(600, 60.0)
    own = load(tmp_path, "etcd: {image: 'r/etcd:3.6.6-0', availability: {maxFailed: 0}}")
    assert own.limits("etcd", 1) == Limits(0, 60.0)
