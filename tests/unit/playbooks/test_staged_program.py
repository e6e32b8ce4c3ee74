"""A program that is sent to nodes: compressed once, and staged only as a whole."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import runpy
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from testkit.command import REPOSITORY
from tests.unit.playbooks.node_role import module, tasks

PROGRAM = b"\x7fELF kubelet" * 400_000
WANTED = hashlib.sha256(PROGRAM).hexdigest()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in a folder."""
    path = tmp_path / "kubelet"
    path.write_bytes(PROGRAM)
    return path


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """Ansible's own temporary folder."""
    path = tmp_path / "ansible-local"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """Where the program is staged on the node."""
    path = tmp_path / "staged" / "kubelet"
    path.parent.mkdir()
    return path


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """To whom files are given; a test need not be root."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _, uid, gid: found.append((uid, gid)))
    return found


def verify(program: Path, folder: Path, sha256: str = WANTED) -> None:
    """Ask whether it is the right program."""
    action = runpy.run_path(str(REPOSITORY / "playbooks/roles/node/action_plugins/staged_program.py"))
    action["verify"](str(program), sha256, str(folder), time.monotonic() + 60)


def compressed(program: Path, folder: Path, sha256: str = WANTED, seconds: float = 60) -> Path:
    """The program as it is sent."""
    action = runpy.run_path(str(REPOSITORY / "playbooks/roles/node/action_plugins/staged_program.py"))
    ask: Callable[..., str] = action["compressed"]
    return Path(ask(str(program), sha256, str(folder), time.monotonic() + seconds))


def unfinished(folder: Path) -> list[str]:
    """What is left in a folder, besides locks, which are empty."""
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


def test_program_is_compressed_once_for_all_nodes(program: Path, ours: Path) -> None:
    """The second node gets what was made for the first, even if the source is gone meanwhile."""
    first = compressed(program, ours)
    assert gzip.decompress(first.read_bytes()) == PROGRAM and first.stat().st_size < len(PROGRAM) / 2
    program.unlink()
    assert compressed(program, ours) == first


@pytest.mark.parametrize("sha256", [WANTED, "0" * 64])
def test_program_is_read_once_for_all_nodes(program: Path, ours: Path, sha256: str) -> None:
    """Whether it is the right one, or another: the second node gets the answer of the first."""

    def refused() -> str:
        try:
            verify(program, ours, sha256)
        except ValueError as error:
            return str(error)
        return ""

    first = refused()
    assert first == ("" if sha256 == WANTED else f"{program} has the SHA-256 {WANTED} instead of {sha256}.")
    program.write_bytes(b"another one, which is not read")
    assert refused() == first


def test_program_is_read_where_nothing_can_be_noted(program: Path, tmp_path: Path) -> None:
    """As often as there are nodes then: what is sent without compression is the right program, too."""
    verify(program, tmp_path / "no such folder")
    with pytest.raises(ValueError, match=f"kubelet has the SHA-256 {WANTED}"):
        verify(program, tmp_path / "no such folder", "0" * 64)


def test_program_that_is_missing_is_named(tmp_path: Path, ours: Path) -> None:
    """With the SHA-256 by which the right one is found; nothing of it is remembered."""
    with pytest.raises(ValueError, match=f"kubectl doesn't exist; it should have the SHA-256 {WANTED}"):
        verify(tmp_path / "kubectl", ours)
    assert unfinished(ours) == []


def test_no_task_reads_the_programs_for_each_node() -> None:
    """On this machine, a task for each node would hash the same files as often as there are nodes."""
    (copy,) = tasks("stage_from_folder")
    assert "staged_program" in copy and "delegate_to" not in copy


def test_another_program_is_not_sent(program: Path, ours: Path) -> None:
    """It may have been replaced since its SHA-256 was checked."""
    with pytest.raises(ValueError, match=f"kubelet has the SHA-256 {WANTED} instead of {'0' * 64}"):
        compressed(program, ours, sha256="0" * 64)
    assert unfinished(ours) == []


def test_disk_of_the_machine_that_runs_ansible_is_not_filled(
    program: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is sent without compression then."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=8 << 20))
    with pytest.raises(OSError, match=f"{ours} has 8 MiB of free space"):
        compressed(program, ours)
    assert unfinished(ours) == []


def test_compression_has_a_deadline(program: Path, ours: Path) -> None:
    """On a busy machine, the program is sent without compression, and nothing unfinished is taken for it later."""
    with pytest.raises(TimeoutError, match="takes too long"):
        compressed(program, ours, seconds=-1)
    assert unfinished(ours) == []
    assert gzip.decompress(compressed(program, ours).read_bytes()) == PROGRAM


def test_a_node_does_not_wait_for_ever_for_the_compression_by_another(program: Path, ours: Path) -> None:
    """The process for another node may hang."""
    with (ours / f"program-{WANTED}.gz.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match="another process reads or compresses it"):
            compressed(program, ours, seconds=-1)


def test_program_is_staged_for_root_alone(
    program: Path, ours: Path, staged: Path, owners: list[tuple[int, int]]
) -> None:
    """Only the program is left of what was sent."""
    sent = compressed(program, ours)
    answer = module("staged_program", src=str(sent), dest=str(staged), sha256=WANTED)
    assert (answer["changed"], answer["sha256"]) == (True, WANTED)
    assert staged.read_bytes() == PROGRAM and stat.S_IMODE(staged.stat().st_mode) == 0o700 and owners == [(0, 0)]
    assert os.listdir(staged.parent) == ["kubelet"] and not sent.exists()


def test_it_is_on_the_disk_before_it_has_its_name(
    program: Path, ours: Path, staged: Path, owners: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, nothing counts as staged that isn't there as a whole."""
    happened: list[str] = []

    def noted(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def step(*given: object) -> None:
            happened.append(name)
            call(*given)

        return step

    sent = compressed(program, ours)
    for name in ("fsync", "rename"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    module("staged_program", src=str(sent), dest=str(staged), sha256=WANTED)
    assert happened == ["fsync", "rename", "fsync"] and owners


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (gzip.compress(PROGRAM)[:-4000], "end-of-stream"),
        (gzip.compress(PROGRAM + b"!"), "the new content has the SHA-256"),
        (gzip.compress(PROGRAM)[:100] + b"\0" * 5000, "kubelet could not be written"),
        (b"no gzip", "Not a gzipped file"),
    ],
)
def test_what_arrives_damaged_is_not_staged(
    tmp_path: Path, staged: Path, owners: list[tuple[int, int]], sent: bytes, why: str
) -> None:
    """What was staged before stays, and no part of the new one takes room on the node."""
    packed = tmp_path / "program.gz"
    packed.write_bytes(sent)
    staged.write_bytes(b"before")
    answer = module("staged_program", src=str(packed), dest=str(staged), sha256=WANTED)
    assert answer["failed"] and "is as it was" in answer["msg"] and why in answer["msg"]
    assert staged.read_bytes() == b"before" and os.listdir(staged.parent) == ["kubelet"] and not packed.exists()
    assert set(owners) <= {(0, 0)}


def test_node_without_room_keeps_what_it_has(
    program: Path, ours: Path, staged: Path, owners: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is named, and what was sent doesn't stay on it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    sent = compressed(program, ours)
    answer = module("staged_program", src=str(sent), dest=str(staged), sha256=WANTED)
    assert "No space left on device" in answer["msg"]
    assert os.listdir(staged.parent) == [] and not sent.exists() and owners == []
