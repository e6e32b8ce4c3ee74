"""Programs of a rehearsal: etcd's tool makes its data of a backup's snapshot, and servers have limits."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.waiting import stretched
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import processes as processes_module
from upgrader.onhost.rehearsal import rehearse
from upgrader.onhost.rehearsal.processes import Processes, kept_bytes

TOOL = """#!{python}
import os, sys
given, place = sys.argv[3], sys.argv[4].removeprefix("--data-dir=")
assert sys.argv[1:3] == ["snapshot", "restore"] and not os.path.exists(place)
os.mkdir(place)
with open(given) as file, open(os.path.join(place, "db"), "w") as made:
    made.write(file.read())
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A snapshot that has arrived, and an image with a tool."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "snapshot.db").write_text("content")
    tool = tmp_path / "etcdutl"
    tool.write_text(TOOL.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setattr(Processes, "program", lambda _, name, image: str(tmp_path / name) if image == "etcd" else "")
    return {"work": str(tmp_path), "data": "scratch", "snapshot": "snapshot.db", "etcd": "etcd"}


def test_its_data_takes_the_place_of_the_snapshot(asked: dict[str, Any], tmp_path: Path) -> None:
    """The snapshot is gone before two copies of the data are there: the disk space that was checked is enough."""
    rehearse._restore(asked, Processes(str(tmp_path), 2 << 30))
    assert (tmp_path / "scratch" / "db").read_text() == "content"
    assert not list(tmp_path.rglob("snapshot.db"))


def test_a_snapshot_that_can_not_be_restored_ends_it(asked: dict[str, Any], tmp_path: Path) -> None:
    """With the tool's words, but for what it quotes; so does a tool that doesn't end."""
    (tmp_path / "etcdutl").write_text('#!/bin/sh\necho "Error: invalid snapshot hunter2" >&2\nexit 3\n')
    processes = Processes(str(tmp_path), 2 << 30)
    with pytest.raises(Failed, match=r"etcdutl ended with exit code 3: .*invalid") as caught:
        rehearse._restore(asked, processes)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(Failed, match="sleeper did not end within 0 s"):
        processes.finish("sleeper", ["/bin/sleep", "1000"], 0.0)
    processes.end()


def test_both_servers_share_the_memory_of_a_rehearsal(tmp_path: Path) -> None:
    """They are told how much each may have, and know no other variable of this process. The running version, which is
    asked little, keeps less garbage.
    """
    current, limits = (rehearse._garbage(name, 2 << 30) for name in ("current", "target"))
    assert current["GOMEMLIMIT"] == limits["GOMEMLIMIT"]
    assert 2 * int(limits["GOMEMLIMIT"]) == (2 << 30) * 3 // 4, "etcd and the program itself have the rest"
    assert int(current["GOGC"]) < int(limits["GOGC"])
    processes = Processes(str(tmp_path), 2 << 30)
    processes.start("env", ["/usr/bin/env"], limits)
    assert processes.wait("env", lambda: "not yet", stretched(60)).startswith("it exited with code 0")
    names = {line.partition("=")[0] for line in (tmp_path / "env.log").read_text().splitlines()}
    assert names == {"PATH", "GOGC", "GOMEMLIMIT"}


FAILED = 'E1130 10:32:58.790588   22916 run.go:72] "command failed" err="{}"'
LOCKED = FAILED.format("cannot set feature gate WatchListClient to false, feature is locked to true")
UNKNOWN = FAILED.format("unrecognized feature gate: NoSuchGate")


def server(folder: Path, *lines: str) -> str:
    """A program that stands in for kube-apiserver: a shell runs these lines in the work folder."""
    path = folder / "server"
    path.write_text("\n".join(("#!/bin/sh", *lines, ": >started", "exec /bin/sleep 1000")) + "\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Ended with the test."""
    made = Processes(str(tmp_path), 2 << 30)
    yield made
    made.end()


def started(processes: Processes, *words: str) -> str:
    """What it isn't ready for."""
    ready = Path(processes.work) / "started"
    return rehearse._start_server(
        processes, "target", list(words), lambda: "" if ready.exists() else "not yet", 2 << 30, stretched(60)
    )


def test_a_version_that_has_locked_a_gate_that_only_saves_memory_is_started_without_it(
    processes: Processes, tmp_path: Path
) -> None:
    """That says nothing about the cluster, so it is no finding."""
    program = server(tmp_path, f"case \"$*\" in *WatchListClient*) echo '{LOCKED}' >&2; exit 1;; esac")
    assert started(processes, program) == ""


def test_why_a_server_does_not_start_is_told(processes: Processes, tmp_path: Path) -> None:
    """kube-apiserver quotes all of it; what the program was not given is left out."""
    program = server(tmp_path, f"echo '{UNKNOWN} of hunter2' >&2; exit 1")
    said = started(processes, program, "--feature-gates=NoSuchGate=true")
    assert said.startswith("it exited with code 1: ") and "hunter2" not in said
    program = server(tmp_path, f"echo '{UNKNOWN}' >&2; exit 1")
    said = started(processes, program, "--feature-gates=NoSuchGate=true")
    assert said == "it exited with code 1: unrecognized feature gate: NoSuchGate"


EXITED = r"^etcd-target exited with code 3, which happens when its disk is full"
KILLED = r"was killed \(signal 9\), which happens when memory runs out: it used [\d,]+ MiB. All .* 2,048 MiB"


class SlowProcesses(Processes):
    """Each server needs so many seconds to get ready."""

    def __init__(self, work: str, now: list[float], seconds: dict[str, float]) -> None:
        super().__init__(work, 2 << 30)
        self._now, self._seconds = now, seconds
        self.waited: list[tuple[str, float]] = []

    def program(self, name: str, image: str) -> str:
        return name

    def start(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def wait(self, name: str, ready: Any, seconds: float) -> str:
        """Only the first time it takes time."""
        self.waited.append((name, seconds))
        needed = self._seconds.pop(name, 0.0)
        self._now[0] += min(needed, seconds)
        return "" if needed <= seconds else "it is not ready"


@pytest.mark.parametrize(("needed", "ready"), [(280.0, True), (310.0, False)])
def test_a_target_that_is_as_slow_as_the_running_version_is_waited_for(
    needed: float, ready: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy controller gives a rehearsal little processor time. That the target isn't ready within three minutes is no
    finding if the running version needed more than one.
    """
    (tmp_path / "scratch").mkdir()
    now = [0.0]
    servers = ("kube-apiserver-current", "kube-apiserver-target")
    processes = SlowProcesses(str(tmp_path), now, dict(zip(servers, (100.0, needed), strict=True)))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(rehearse, "_start_etcd", lambda *_: 1)
    monkeypatch.setattr(rehearse, "Api", lambda *_: None)
    nothing = SimpleNamespace(run=lambda **_: None, undecodable=set(), findings=list, counts={})
    monkeypatch.setattr(rehearse, "Comparison", lambda *_, **__: nothing)
    each = {"image": "", "flags": []}
    asked = {"work": str(tmp_path), "data": "scratch", "etcd": "", "memory": 1, "requests": []}
    found = rehearse._served({**asked, "servers": {"current": each, "target": each}}, processes, 1e9)
    assert [one["what"] for one in found["findings"]] == ([] if ready else ["start"])
    assert processes.waited[:2] == [(servers[0], 180.0), (servers[1], 300.0)]


@pytest.mark.parametrize(
    ("threads", "starved"),
    [(("2 90 7", "3 40 9"), True), (("2 40 7", "3 40 9"), False), (("40 90 7", "3 40 9"), False), (("x",), False)],
    ids=["starved", "half of the time", "busy itself", "unknown"],
)
def test_a_server_that_was_not_given_a_processor_is_no_finding(
    threads: tuple[str, ...], starved: bool, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other processes of a busy host go first, and that the target isn't ready in time is not its data's fault."""
    processes.start("server", ["/bin/sleep", "1000"])
    for number, seconds in enumerate(threads):
        folder = tmp_path / str(processes._started["server"].pid) / "task" / str(number)
        folder.mkdir(parents=True)
        ran, *rest = seconds.split()
        (folder / "schedstat").write_text(" ".join((f"{ran}000000000", *(f"{each}000000000" for each in rest))))
    deadline = 180.0  # of a clock that isn't the machine's
    now = iter((0.0, 200.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    monkeypatch.setattr(processes_module, "_PROC", str(tmp_path))
    if starved:
        with pytest.raises(Failed, match=r"server got 5 s of CPU time, and waited 130 s for a CPU"):
            processes.wait("server", lambda: "it is not ready", deadline)
    else:
        assert processes.wait("server", lambda: "it is not ready", deadline) == "after 180 s, it is not ready"


def test_a_server_that_is_killed_at_its_start_is_no_finding(processes: Processes, tmp_path: Path) -> None:
    """It ran out of memory, which says nothing about the target."""
    with pytest.raises(Failed, match=f"the target kube-apiserver {KILLED}. Rehearse where more memory"):
        started(processes, server(tmp_path, "kill -9 $$"))


def test_logs_have_names_without_blanks(processes: Processes, tmp_path: Path) -> None:
    """What waits for one, or reads it, needs no quotes for that; messages name the servers as users do."""
    assert started(processes, server(tmp_path)) == ""
    assert [path.name for path in tmp_path.glob("*.log")] == ["kube-apiserver-target.log"]
    with pytest.raises(Failed, match=r"^the target kube-apiserver can't be started: "):
        started(processes, str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({"target": "exit 2"}, True),
        ({"target": "kill -15 $$"}, False),
        ({"target": "exit 2", "current": "exit 2"}, False),
        ({"target": "echo 'fatal error: runtime: out of memory' >&2; exit 2"}, False),
        ({"current": "exit 2"}, False),
    ],
    ids=["it ends by itself", "it is told to end", "both end", "no memory", "the other one"],
)
def test_a_target_that_ends_while_it_is_compared_is_a_finding(
    ends: dict[str, str], found: bool, tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run relies on an earlier rehearsal after that. What the host did to it says nothing about the data."""
    (tmp_path / "scratch").mkdir()
    servers = {name: f"kube-apiserver-{name}" for name in ("current", "target")}

    def serve(given: Processes, name: str, *_: Any) -> str:
        words = f"{ends[name]}; exit 2" if name in ends else "exec /bin/sleep 1000"
        given.start(servers[name], ["/bin/sh", "-c", f"echo 'panic: nil map' >&2; {words}"])
        return ""

    def compare(**_: Any) -> None:
        for name in ends:
            processes._started[servers[name]].wait()
        raise Failed("it no longer answers")

    monkeypatch.setattr(rehearse, "_EXIT_SECONDS", 0.0)
    monkeypatch.setattr(rehearse, "_start_etcd", lambda *_: 1)
    monkeypatch.setattr(rehearse, "_start_server", serve)
    monkeypatch.setattr(rehearse, "Api", lambda *_: None)
    monkeypatch.setattr(processes, "wait", lambda *_: "")
    monkeypatch.setattr(rehearse, "Comparison", lambda *_, **__: SimpleNamespace(run=compare, counts={"objects": 3}))
    asked = {"work": str(tmp_path), "data": "scratch", "etcd": "", "memory": 1, "requests": []}
    asked["servers"] = {name: {"image": "", "flags": []} for name in servers}
    monkeypatch.setattr(processes, "program", lambda name, _: name)
    if not found:
        with pytest.raises(Failed, match="it no longer answers"):
            rehearse._served(asked, processes, 1e9)
        return
    (one,) = rehearse._served(asked, processes, 1e9)["findings"]
    assert one["what"] == "crash" and one["reason"].startswith("it exited with code 2: panic: ")


def test_a_server_that_waits_for_an_etcd_that_was_killed_is_no_finding(processes: Processes) -> None:
    """The memory was used up, and not the target's fault, that its etcd no longer answers."""
    processes.start("etcd-target", ["/bin/sh", "-c", "kill -9 $$"])
    processes.start("server", ["/bin/sleep", "1000"])
    etcd = processes._started["etcd-target"]
    with pytest.raises(Failed, match=f"etcd-target {KILLED}"):
        processes.wait("server", lambda: "it is not ready: etcd" if etcd.wait() else "", 0.0)


def test_a_server_that_does_not_start_because_its_etcd_has_exited_is_no_finding(processes: Processes) -> None:
    """Its own last words are of the etcd, and say nothing about the target."""
    processes.start("etcd-target", ["/bin/sh", "-c", "exit 3"], needed=True)
    processes._started["etcd-target"].wait(stretched(60))
    processes.start("server", ["/bin/sh", "-c", "exit 1"])
    with pytest.raises(Failed, match=EXITED):
        processes.wait("server", lambda: "it is not ready: etcd", stretched(60))


def test_a_tool_that_is_killed_has_run_out_of_memory(processes: Processes) -> None:
    """The exit code of a signal tells no user that."""
    with pytest.raises(Failed, match=f"etcdutl {KILLED}"):
        processes.finish("etcdutl", ["/bin/sh", "-c", "kill -9 $$"], stretched(60))


@pytest.mark.parametrize(
    ("how", "answers", "said"),
    [
        ("kill -9 $$", False, f"etcd-target {KILLED}"),
        ("kill -9 $$", True, f"etcd-target {KILLED}"),
        ("exit 3", False, EXITED),
        ("echo 'panic: no space left' >&2; exit 3", True, EXITED + ".*: panic: no …"),
        ("exit 0", True, "^etcd-target exited with code 0"),
    ],
)
def test_a_server_whose_etcd_ends_while_it_is_asked(
    how: str, answers: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It no longer answers because of that, which the message says, whether the etcd was killed or exited by itself.
    Where a kube-apiserver still answers without its etcd, with errors, these are no findings.
    """

    def served(_: dict[str, Any], processes: Processes, __: float) -> dict[str, Any]:
        processes.start("etcd-target", ["/bin/sh", "-c", how], needed=True)
        processes._started["etcd-target"].wait(stretched(60))
        if answers:
            return {"findings": [{"what": "update"}]}
        raise Failed("it no longer answers")

    monkeypatch.setattr(rehearse, "_EXIT_SECONDS", 0.0)
    monkeypatch.setattr(rehearse, "_served", served)
    for name in ("require_isolation", "make_private", "_check_room", "last_in_line"):
        monkeypatch.setattr(rehearse, name, lambda *_: None)
    given = {"work": str(tmp_path), "unit": "u", "memory": 2 << 30, "seconds": 1, "incoming": None, "snapshot": ""}
    with pytest.raises(Failed, match=said):
        rehearse._rehearse({**given, "servers": {}})


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        ("VmHWM:\t 1200000 kB\nVmRSS:\t 1190000 kB\nRssAnon:\t 190000 kB\nRssFile:\t 1000000 kB\n", 200000 << 10),
        ("VmHWM:\t 100 kB\nRssFile:\t 101 kB\n", 0),
        ("Name:\t a kernel thread\n", 0),
    ],
)
def test_files_that_a_program_maps_are_not_the_memory_it_needs(status: str, kept: int) -> None:
    """etcd maps its database, which may be larger than all the memory that a rehearsal may have."""
    assert kept_bytes(status) == kept
