"""Options that say where a lab's Kubernetes comes from: what is said first, and which can't be combined."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from testkit.mirror import Signing
from upgrader.cli.main import cli
from upgrader.errors import UsageError
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.default_origin import DefaultOrigin
from upgrader.lab.mirror import Mirror

VERSION = "v1.36.3"


@pytest.fixture
def origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `lab node-source` takes its programs from; the cache is empty, and the release's hosts can't be reached."""
    origins: list[Any] = []

    def node_source(_version: str, _progress: object, origin: object) -> Any:
        origins.append(origin)
        return SimpleNamespace(variables=dict)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("upgrader.lab.node_source.node_source", node_source)
    monkeypatch.setattr("upgrader.lab.host_capabilities.require", lambda *_: None)
    monkeypatch.setattr("upgrader.lab.release_hosts.asked", lambda: lambda: "dl.k8s.io can't be reached: no route")
    return origins


def run(*options: str) -> Any:
    return CliRunner().invoke(cli, ["lab", "node-source", "--kubernetes", VERSION, *options])


def test_default(origins: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The way and its reason are the first line."""
    assert (
        run().stderr == f"Kubernetes {VERSION}: building it from source, because dl.k8s.io can't be reached: no route\n"
    )
    monkeypatch.setattr("upgrader.lab.release_hosts.asked", lambda: lambda: "")
    downloading = f"Kubernetes {VERSION}: downloading its release from dl.k8s.io and registry.k8s.io"
    assert run().stderr == f"{downloading}\n"
    assert [type(origin) for origin in origins] == [DefaultOrigin, DefaultOrigin]


def test_one_way_only(origins: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With --from, no host is asked first: what was chosen is done, or fails."""
    monkeypatch.setattr("upgrader.lab.release_hosts.asked", lambda: pytest.fail("a host is asked"))
    assert run("--from", "source").stderr == f"Kubernetes {VERSION}: building it from source (--from source)\n"
    downloading = f"Kubernetes {VERSION}: downloading its release from dl.k8s.io and registry.k8s.io (--from release)"
    assert run("--from", "release").stderr == f"{downloading}\n"
    assert run("--mirror", "https://mirror.example.com").stderr.startswith("From https://mirror.example.com: kubelet")
    assert [type(origin) for origin in origins] == [BuiltHere, Mirror, Mirror]


def test_other_cas(origins: list[Any], tmp_path: Path) -> None:
    """Signatures of the release itself can be verified with other CAs than those that the package has."""
    (tmp_path / "roots.pem").write_bytes(Signing().roots)
    assert run("--from", "release", "--mirror-roots", str(tmp_path / "roots.pem")).exit_code == 0
    refused = run("--mirror-roots", str(tmp_path / "none.pem")).exception
    assert isinstance(refused, UsageError) and "none.pem can't be used" in refused.message


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--from", "source", "--mirror", "https://mirror.example.com"), "--from can't be combined with --mirror"),
        (("--from", "source", "--mirror-roots", "x"), "--mirror-roots can't be combined with --from source"),
        (("--mirror-registry", "https://mirror.example.com"), "--mirror-registry needs --mirror"),
    ],
)
def test_options_that_exclude_each_other(origins: list[Any], options: tuple[str, ...], why: str) -> None:
    """They are refused before anything is asked for."""
    refused = run(*options).exception
    assert isinstance(refused, UsageError) and why in refused.message and origins == []
