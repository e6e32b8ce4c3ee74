"""Kills a rehearsal on another host at moments spread over its whole length, and looks for what is left of it.

It needs no lab, but root: real API servers have stored the objects, a real etcd serves them to a client that writes all
the time, and each rehearsal takes a snapshot of it. This machine is the controller and the host of group `rehearsal`;
`testkit.unit_stand_in` starts the unit. At each moment, one of these is killed (SIGKILL):

- `command`: the process that rehearses, as by the out-of-memory killer;
- `unit`: the unit's processes, at moments after its start;
- `power`: both, and what would clean up after the unit. The next command has to do it.

What remains until the next command is recorded: files on the controller if the command was killed before it had sent
them, and after a power cut those on the other host. Then the programs run with which the next command begins on both
hosts. Afterwards, there may be no unit, process, mount, network namespace or file on either. The revision of the etcd
has to be moved by its client alone. Exits with 1 if anything was left.

Writes bench/results/rehearsal-kills.json; `python -m bench.rehearsal --page` makes the page from it. Not imitated: the
controller's pods, so that a snapshot is taken by a program here, and a power cut's effect on a file system.

    # python -m bench.rehearsal_kills              # about 10 minutes on two cores
    # python -m bench.rehearsal_kills --moments 2 --kind unit    # recorded only if all are
"""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from bench.rehearsal.kills import FILE, KINDS, Killed, Kills, table
from scripts.soak import commit_of
from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, TARGET
from testkit.ports import free_port
from testkit.rehearsed_data import RehearsedData, program_images, storing
from testkit.rehearsed_objects import usual_objects
from testkit.waiting import stretched, until
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.onhost.backup import remove_leftovers
from upgrader.steps.backup.etcd_pod import POD_PREFIX, SNAPSHOT, UNIT_PREFIX

__all__ = ["main", "moments", "phase"]

_SETTLE_SECONDS = 120.0
"""As documented: the lease's end, if nothing else is seen of the client's."""
_LONGEST_SECONDS = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse once, then kill one rehearsal for each moment and kind; 0 if nothing was left of any."""
    parser = argparse.ArgumentParser(prog="python -m bench.rehearsal_kills", description=__doc__)
    parser.add_argument("--moments", type=int, default=12, help="how many, for each kind (default: 12)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this one; may be repeated")
    parser.add_argument("--rehearse", nargs=2, metavar=("FOLDER", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.rehearse:
        _rehearse(RehearsedData(Path(given.rehearse[0])), given.rehearse[1])
        return 0
    killed: list[Killed] = []
    commit = commit_of(REPOSITORY)
    with tempfile.TemporaryDirectory() as folder, _source(Path(folder)) as (site, source):
        whole, unit = _lengths(site, source)
        print(f"a rehearsal takes {whole:.0f} s, {unit:.0f} s of it in its unit", flush=True)
        for number in range(given.moments):
            for kind in given.kind or KINDS:
                at = moments(unit if kind == "unit" else whole, given.moments)[number]
                killed.append(_kill(site, source, kind, at))
                if not given.kind:
                    _record(whole, unit, source, commit, killed)
                print(table(killed[-1:]).splitlines()[-1], flush=True)
        print(
            f"the etcd's revision went from {source.first} to {source.revision} by {source.writes} writes of its client"
        )
    print("\n" + table(killed))
    return 1 if any(each.left for each in killed) or source.others else 0


def _record(whole: float, unit: float, source: _Source, commit: str, killed: Sequence[Killed]) -> None:
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    made = Kills(whole, unit, source.writes, source.others, date, commit, tuple(killed))
    FILE.write_text(json.dumps(asdict(made), indent=1) + "\n")


def moments(whole: float, count: int) -> tuple[float, ...]:
    """So many, in the middle of equal parts of that time."""
    return tuple(whole * (number + 0.5) / count for number in range(count))


def phase(place: Path, *, unit: bool) -> str:
    """What the rehearsal does, by what is in its folder, the only one in `place`; `unit`: whether the unit runs."""
    work = next(iter(place.glob("*")), None)
    if work is None or not unit:
        return "before or after the unit" if work else "snapshot"
    names = {path.name for path in work.iterdir()}
    for name, what in (
        ("kube-apiserver-target.log", "target, comparison"),
        ("etcd-target.log", "etcd of the target"),
        ("kube-apiserver-current.log", "running version"),
        ("images", "copies"),
    ):
        if name in names:
            return what
    return "receiving"


@dataclass
class _Source:
    """An etcd, and the client that writes to it all the time; `others`: revisions that were not its writes."""

    port: int
    first: int = 0
    revision: int = 0
    writes: int = 0
    others: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """For its clients."""
        return f"http://127.0.0.1:{self.port}"

    def write(self) -> None:
        """Until it is over."""
        while not self._over.wait(0.1):
            revision = self.put(str(self.writes))
            if self.revision:
                self.others += revision - self.revision - 1
                self.writes += 1
            else:
                self.first = revision
            self.revision = revision

    def put(self, value: str) -> int:
        """The revision of a write of its client."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=stretched(30))) as connection:
            connection.request("POST", "/v3/kv/put", json.dumps({"key": _text("/client"), "value": _text(value)}))
            return int(json.load(connection.getresponse())["header"]["revision"])

    def end(self) -> None:
        """Let it end."""
        self._over.set()


@contextmanager
def _source(folder: Path) -> Iterator[tuple[RehearsedData, _Source]]:
    """Data of the usual objects, served by an etcd to one client."""
    data = folder / "data"
    data.mkdir()
    images = program_images(folder, OLD, TARGET)
    with storing(data, images, OLD) as (site, kube):
        usual_objects(kube)
    source, peer = _Source(free_port()), f"http://127.0.0.1:{free_port()}"
    command = [str(Binaries(Silent()).etcd() / "etcd"), f"--data-dir={data / 'etcd'}", "--log-level=error"]
    command += [f"--listen-client-urls={source.url}", f"--advertise-client-urls={source.url}"]
    process = subprocess.Popen([*command, f"--listen-peer-urls={peer}"])
    writer = threading.Thread(target=source.write)
    try:
        until("etcd", lambda: _answers(source), timeout_seconds=60)
        writer.start()
        yield site, source
    finally:
        source.end()
        if writer.is_alive():
            writer.join()
        process.terminate()
        process.wait()


def _answers(source: _Source) -> bool:
    try:
        source.put("")
    except (OSError, ValueError, KeyError):
        return False
    return True


def _rehearse(site: RehearsedData, url: str) -> None:
    """Of a snapshot of the etcd at this URL, as the command does."""
    taken = _controllers(site) / "taken"
    taken.mkdir(parents=True)
    programs, snapshot = Binaries(Silent()).etcd(), taken / SNAPSHOT
    for words in (
        [programs / "etcdctl", f"--endpoints={url}", "snapshot", "save", snapshot],
        [programs / "etcdutl", "snapshot", "restore", snapshot, f"--data-dir={taken / 'etcd'}"],
    ):
        subprocess.run(list(map(str, words)), check=True, capture_output=True)
    result = site.rehearse_elsewhere(site.server(OLD), site.server(TARGET), taken / "etcd")
    assert result.counts["objects"], result


def _begin(site: RehearsedData, source: _Source, errors: int | None = None) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "bench.rehearsal_kills", "--rehearse", str(site.folder), source.url]
    return subprocess.Popen(words, stderr=errors)


def _lengths(site: RehearsedData, source: _Source) -> tuple[float, float]:
    """The seconds of one that nothing disturbs, and that leaves nothing, and of its unit."""
    begun = time.monotonic()
    process = _begin(site, source)
    in_unit = _await_unit(site, process)
    assert process.wait(timeout=stretched(_LONGEST_SECONDS)) == 0, "the rehearsal failed"
    whole = time.monotonic() - begun
    left = _left(site, frozenset(), site.elsewhere, _controllers(site))
    assert not left and not site.elsewhere.exists() and not _controllers(site).exists(), left
    return whole, time.monotonic() - in_unit


def _await_unit(site: RehearsedData, process: subprocess.Popen[bytes]) -> float:
    """When it has begun (monotonic seconds), or the process has ended without one."""
    until(
        "the unit",
        lambda: process.poll() is not None or any(site.units.glob("*")),
        timeout_seconds=_LONGEST_SECONDS,
        interval_seconds=0.05,
    )
    return time.monotonic()


def _kill(site: RehearsedData, source: _Source, kind: str, at: float) -> Killed:
    process = _begin(site, source, subprocess.DEVNULL)
    if kind == "unit":
        _await_unit(site, process)
    time.sleep(at)
    running = [list(map(int, file.read_text().split())) for file in site.units.glob("*.service")]
    networks = frozenset(_network(str(unit)) for _, unit in running)
    seen = "ended" if process.poll() is not None else phase(site.elsewhere, unit=bool(running))
    begun = time.monotonic()
    if kind != "unit":
        process.kill()
    for stand_in, unit in running:
        # With the power, nothing is left that could clean up after the unit.
        for pid in {"command": (), "unit": (unit,), "power": (stand_in, unit)}[kind]:
            _kill_process(pid)
    process.wait(timeout=stretched(_LONGEST_SECONDS))
    left: tuple[str, ...] = ("unknown",)
    deadline = begun + stretched(_SETTLE_SECONDS)
    ends = () if kind == "power" else (site.elsewhere,)
    while left and time.monotonic() < deadline:
        left = _left(site, networks, *ends)
        time.sleep(0.1)
    seconds = time.monotonic() - begun
    kept = tuple(
        place for place, at in (("controller", _controllers(site)), ("host", site.elsewhere)) if any(_files(at))
    )
    if kind == "power":
        for file in site.units.glob("*"):  # a reboot has no units
            file.unlink()
    for folder in site.elsewhere.glob("*"):  # in its first minute, an empty one may be that of a rehearsal that starts
        os.utime(folder, (0, 0))
    site.prepare_elsewhere(site.server(OLD), site.server(TARGET))
    left = (*left, *_remove_on_controller(site), *_left(site, networks, site.elsewhere, _controllers(site)))
    folders = (_controllers(site), *site.elsewhere.glob("*"))
    left = (*left, *(f"folder {path}" for path in folders if path.exists()))
    return Killed(kind, at, seen, seconds, kept, left)


def _controllers(site: RehearsedData) -> Path:
    """The folder of all rehearsals' folders on the controller."""
    return site.folder / "upgrader"


def _remove_on_controller(site: RehearsedData) -> tuple[str, ...]:
    """Run the program with which the next command begins there; returns why it failed, if it did."""
    answer = io.StringIO()
    # This machine has no kubelet's pods, and its units are the other host's.
    pods = SimpleNamespace(socket_path=lambda _: "", runtime=lambda *_: None)
    parts: dict[str, Any] = {"container_facts": pods, "gone": lambda *_: True, "runs": lambda _: False}
    with mock.patch.multiple(remove_leftovers, **parts), redirect_stdout(answer):
        remove_leftovers.main(POD_PREFIX, UNIT_PREFIX, str(_controllers(site)), "")
    failed = json.loads(answer.getvalue()).get("failed")
    return (failed,) if failed else ()


def _kill_process(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended meanwhile


def _left(site: RehearsedData, networks: frozenset[str], *ended: Path) -> tuple[str, ...]:
    """What there is of a rehearsal, whose unit had these network namespaces: its processes, and files in the folders
    that it has `ended` with; without one, units may still be known.
    """
    places = str(site.elsewhere), str(_controllers(site))
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) != os.getpid():
            if _names(_read(process / "cmdline"), places):
                found.append(f"process {process.name}")
            if _names(_read(process / "mountinfo"), places):
                found.append(f"a mount of process {process.name}")
            if _network(process.name) in networks:
                found.append(f"the network namespace of process {process.name}")
    if ended:
        found += [f"unit {file.name}" for file in site.units.glob("*")]
    found += [f"file {path}" for place in ended for path in _files(place)]
    return tuple(found)


def _names(text: str, places: Sequence[str]) -> bool:
    return any(place in text for place in places)


def _files(place: Path) -> Iterator[Path]:
    """Files and links below a folder from which others remove something at the same time."""
    for folder, inside, names in os.walk(place):
        yield from (Path(folder, name) for name in names)
        yield from (Path(folder, name) for name in inside if Path(folder, name).is_symlink())


def _network(process: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return f"that of {process}, which has ended meanwhile"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # it has ended meanwhile


def _text(word: str) -> str:
    return base64.b64encode(word.encode()).decode()


if __name__ == "__main__":
    sys.exit(main())
