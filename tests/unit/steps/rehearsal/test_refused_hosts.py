"""A controller that can't do a rehearsal: what it lacks is said, and nothing is started."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.onhost.rehearsal import processes, rehearse
from upgrader.onhost.rehearsal.room import MARGIN_BYTES

IMAGE = "registry.k8s.io/kube-apiserver:v1.37.1"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A rehearsal that this host has room for, and whose images it lacks."""

    def ctr(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(words, words[0] == "mount", b"", f'image "{IMAGE}": not found\n'.encode())

    def start(*_: object) -> None:
        pytest.fail("nothing may be started")

    monkeypatch.setattr(rehearse, "end_when_abandoned", lambda _: None)
    monkeypatch.setattr(rehearse, "require_isolation", lambda: None)
    monkeypatch.setattr(rehearse, "make_private", lambda _: None)
    monkeypatch.setattr(rehearse, "last_in_line", lambda _: None)
    monkeypatch.setattr(processes, "ctr", ctr)
    monkeypatch.setattr(processes.Processes, "start", start)
    (tmp_path / "data").mkdir()
    server = {"image": IMAGE, "flags": [], "encryption": [], "prefix": "/registry"}
    servers = {"current": server, "target": dict(server)}
    memory = -MARGIN_BYTES
    asked = {"work": str(tmp_path), "data": "data", "etcd": IMAGE, "servers": servers, "memory": memory, "seconds": 1}
    return {**asked, "unit": "unit", "incoming": None, "snapshot": ""}


def _no_memory(asked: dict[str, Any], _: pytest.MonkeyPatch) -> None:
    asked["memory"] = 1 << 60


def _no_space(_: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0, total=0))


def _no_keys(asked: dict[str, Any], _: pytest.MonkeyPatch) -> None:
    asked["servers"]["target"]["encryption"] = ["/nowhere/encryption.yaml"]


@pytest.mark.parametrize(
    ("lack", "why"),
    [
        (_no_memory, "MiB of memory are available, "),
        (_no_space, "has 0 MiB of free space, "),
        (_no_keys, "/nowhere/encryption.yaml: No such file or directory"),
        (lambda *_: None, f"image {IMAGE} can't be mounted"),
    ],
    ids=["memory", "disk", "encryption", "image"],
)
def test_what_the_controller_lacks_is_named(
    asked: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lack: Callable[[dict[str, Any], pytest.MonkeyPatch], None],
    why: str,
) -> None:
    """Memory, disk space, the encryption keys, the target's image: no copy is made, and no server starts."""
    lack(asked, monkeypatch)
    rehearse.main(json.dumps(asked))
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == {"failed"} and why in answer["failed"]
    assert (Path(asked["work"]) / "data").is_dir(), "it is not moved yet"


def test_a_disk_that_fills_up_is_named(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Others write to it, too, after its space was checked; and an error of writing doesn't say in which folder."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rehearse, "_served", full)
    rehearse.main(json.dumps(asked))
    assert json.loads(capsys.readouterr().out) == {"failed": f"{asked['work']}: No space left on device"}


@pytest.mark.parametrize(
    "text",
    [
        b"providers:\n- kms:\n    endpoint: unix:///run/kms.sock",
        b"providers: [{kms: {endpoint: x}}]",
        b'providers: [{"kms": {endpoint: x}}]',
        b'providers: [{"\\x6bms": {endpoint: x}}]',
        b"providers:\n- ? kms\n  : {endpoint: x}",
        "providers: [{kms: {endpoint: x}}]".encode("utf-16"),
    ],
)
def test_a_plugin_for_keys_is_never_asked(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path, text: bytes
) -> None:
    """A socket is reached from any network. However YAML writes it, nothing is started, and the data is unknown."""
    (tmp_path / "encryption.yaml").write_bytes(text)
    asked["servers"]["target"]["encryption"] = [str(tmp_path / "encryption.yaml")]
    rehearse.main(json.dumps(asked))
    answer = json.loads(capsys.readouterr().out)
    assert [each["what"] for each in answer["findings"]] == ["kms"]


def test_keys_in_the_file_are_no_plugin(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Their names, and comments, may be any."""
    text = "# kms was here?\nproviders:\n- aescbc: {keys: [{name: kms, secret: a+b/c=}]}\n- identity: {}\n"
    (tmp_path / "encryption.yaml").write_text(text)
    asked["servers"]["target"]["encryption"] = [str(tmp_path / "encryption.yaml")]
    rehearse.main(json.dumps(asked))
    assert "can't be mounted" in json.loads(capsys.readouterr().out)["failed"]
