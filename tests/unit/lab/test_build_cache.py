"""Built once, whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from testkit.waiting import stretched
from upgrader.lab.build_cache import built, content_hash


def test_a_result_is_built_once(tmp_path: Path) -> None:
    """The second time nothing is built."""
    calls: list[Path] = []

    def build(target: Path) -> None:
        calls.append(target)
        target.write_text("result")

    first = built(tmp_path / "kind" / "key", build)
    second = built(tmp_path / "kind" / "key", build)
    assert first == second
    assert first.read_text() == "result"
    assert len(calls) == 1


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    """A build that is stopped half-way has neither a result nor a temporary folder."""

    def build(target: Path) -> None:
        target.mkdir()
        (target / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(tmp_path / "key", build)
    assert [path.name for path in tmp_path.iterdir()] == [".key.lock"]


def test_leftovers_of_a_killed_build_are_removed_by_the_next(tmp_path: Path) -> None:
    """After kill -9 nobody cleans up; whoever builds next does, also read-only folders."""
    leftover = tmp_path / ".key.abc.building"
    (leftover / "result").mkdir(parents=True)
    (leftover / "result").chmod(0o500)
    built(tmp_path / "key", Path.touch)
    assert not leftover.exists()


def test_two_builders_at_once_build_once(tmp_path: Path) -> None:
    """The second waits for the first and takes its result."""
    inside, go_on = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow(target: Path) -> None:
        calls.append("slow")
        inside.set()
        assert go_on.wait(stretched(10))
        target.touch()

    def other(target: Path) -> None:
        calls.append("other")
        target.touch()

    first = threading.Thread(target=built, args=(tmp_path / "key", slow))
    first.start()
    assert inside.wait(stretched(10))
    second = threading.Thread(target=built, args=(tmp_path / "key", other))
    second.start()
    go_on.set()
    first.join(stretched(10))
    second.join(stretched(10))
    assert calls == ["slow"]


def test_the_content_hash_sees_names_bytes_modes_and_links(tmp_path: Path) -> None:
    """Whatever changes in a folder changes its hash; where the folder is does not matter."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "file").write_text("1")
    seen = [content_hash([folder])]
    (folder / "file").write_text("2")
    seen.append(content_hash([folder]))
    (folder / "file").chmod(0o755)
    seen.append(content_hash([folder]))
    (folder / "link").symlink_to("file")
    seen.append(content_hash([folder]))
    seen.append(content_hash([folder], "extra"))
    assert len(set(seen)) == len(seen)
    before = content_hash([folder])
    folder.rename(tmp_path / "b")
    assert content_hash([tmp_path / "b"]) == before
