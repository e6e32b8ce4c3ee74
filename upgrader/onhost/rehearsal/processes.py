"""The programs of a rehearsal: taken from images, started in a private folder, and ended."""

from __future__ import annotations

import base64
import contextlib
import glob
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal.busy_host import LESS_BUSY, busy_host
from upgrader.onhost.rehearsal.containerd import ctr, said
from upgrader.onhost.rehearsal.words import stripped

_FOLDERS = ("usr/local/bin", "usr/bin", "bin", "")
_POLL_SECONDS = 0.25
_LOG_BYTES = 65536
_FATAL = re.compile(r"^(?:Error:|F\d{4} |panic:|fatal error:|E\d{4} .*(?:command failed|err=))")
_ERROR = re.compile(r'"command failed" err="(.*)"$')
"""As kube-apiserver says why it exits. All of it is in quotes, so that nothing would be left."""
_NO_MEMORY = "out of memory"
"""As Go's runtime says it."""
_ASK_SECONDS = 10.0
_ALARMS = "/v3/maintenance/alarm"
_BETWEEN = re.compile("[=,]")
_PROC = "/proc"
_STARVED = 4
_SIZES = re.compile(r"(VmHWM|RssFile):\s+(\d+) kB")


class Processes:
    """All of them, in one folder; `end` ends them. `memory`: the bytes that all may have together."""

    def __init__(self, work: str, memory: int) -> None:
        self.work = work
        self._memory = memory
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._titles: dict[str, str] = {}
        """Process → what messages call it."""
        self._needed: set[str] = set()
        """Those without which the others' answers say nothing about the data."""
        self._given: dict[str, set[str]] = {}
        """Process → the words of its command, which are not the data's."""
        self._mounted: list[str] = []

    def program(self, name: str, image: str) -> str:
        """The path of a program of an image that this host's containerd has. Raises Failed.

        It is mounted in this process's own mount namespace, and so it is unmounted when this process ends.
        """
        place = os.path.join(self.work, "images", stripped_name(image))
        if not os.path.isdir(place):
            os.makedirs(place, mode=0o700)
            self._mounted.append(place)
            ctr("unmount", "--rm", place)  # containerd may still know it from a rehearsal that was killed
            done = ctr("mount", image, place)
            if done.returncode:
                raise Failed(f"image {image} can't be mounted: {said(done)}")
        for folder in _FOLDERS:
            path = os.path.join(place, folder, name)
            if os.path.isfile(path):
                return path
        raise Failed(f"image {image} has no program {name}")

    def start(
        self,
        name: str,
        command: list[str],
        environment: dict[str, str] | None = None,
        *,
        title: str = "",
        needed: bool = False,
    ) -> None:
        """Start one, with no other `environment`. Raises Failed if it can't be. `name`: as its log's file is named;
        `title`: as messages name it ("": the same). `needed`: the answers of others say nothing about the data once it
        has ended.
        """
        self._titles[name] = title or name
        self._given[name] = {part for word in command for part in (*word.split("=", 1), *_BETWEEN.split(word)) if part}
        with open(self._log(name), "wb") as log:
            try:
                self._started[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.work,
                    env={"PATH": "/nowhere", **(environment or {})},
                )
            except OSError as error:
                raise Failed(f"{self._titles[name]} can't be started: {error.strerror}") from error
        if needed:
            self._needed.add(name)

    def wait(self, name: str, ready: Callable[[], str], seconds: float) -> str:
        """ "" once it is ready; else why it isn't: its last words, or what it said when time was over. Raises Failed if
        it was killed, or another one, for which it may wait, or if one that is needed has ended, or if the host's
        processors were others' for most of the time.
        """
        until = time.monotonic() + seconds
        while True:
            code = self._started[name].poll()
            if code is not None:
                self.require_unbroken()
                return self._exit(name, code)
            missing = ready()
            if not missing:
                return ""
            if time.monotonic() >= until:
                self.require_unbroken()
                self.require_processors(name, seconds)
                return f"after {seconds:.0f} s, {missing}"
            time.sleep(_POLL_SECONDS)

    def finish(self, name: str, command: list[str], seconds: float) -> None:
        """Run one to its end. Raises Failed if it can't be started, fails, or doesn't end in time."""
        self.start(name, command)
        try:
            code = self._started[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self._titles[name]} did not end within {seconds:.0f} s") from None
        self.require_unbroken()
        if code:
            raise Failed(f"{self._titles[name]} ended with exit code {code}: {self._last_words(name)}")

    def crash(self, name: str) -> str:
        """How one has ended by itself, with its last words; "" if it runs, a signal ended it, or its memory ran out."""
        code = self._started[name].poll()
        if code is None or code < 0:
            return ""
        return "" if _NO_MEMORY in (said := self._exit(name, code)) else said

    def require_unbroken(self, seconds: float = 0.0) -> None:
        """Raise Failed if one was killed, or one that is needed has ended by itself, or does within so many seconds:
        that says nothing about what it was given.
        """
        time.sleep(seconds)
        killed = [self._titles[name] for name, process in self._started.items() if process.poll() == -signal.SIGKILL]
        if killed:
            # Of those that have ended, only the most that any one had is known.
            had = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
            raise Failed(
                f"{', '.join(killed)} was killed (signal 9), which happens when memory runs out: it used {had:,} "
                f"MiB. All programs of a rehearsal together may use {self._memory >> 20:,} MiB. Rehearse where more "
                "memory is available; if that doesn't help, this cluster has too much data for a rehearsal"
            )
        for name in sorted(self._needed):
            code = self._started[name].poll()
            if code is not None:
                raise Failed(
                    f"{self._titles[name]} exited with code {code}, which happens when its disk is full. Later answers "
                    f"of the servers are ignored. The last lines of its log: {self._last_words(name)}"
                )

    def require_processors(self, name: str, seconds: float) -> None:
        """Raise Failed if its threads, of so many seconds, have waited for a processor far longer than they have had
        one: that says nothing about what it was given.
        """
        ran, waited = _processor_seconds(self._started[name].pid)
        if waited > max(seconds / 2, _STARVED * ran):
            raise Failed(
                f"{self._titles[name]} got {ran:.0f} s of CPU time, and waited {waited:.0f} s for a CPU, because "
                f"other processes keep this host busy and have priority over a rehearsal. {LESS_BUSY}"
            )

    def peak_bytes(self) -> int:
        """The sum of what each had in memory at most, so far, without files: etcd maps its database, and the kernel
        takes such pages back when memory runs out.
        """
        return sum(_peak(process.pid) for process in self._started.values()) + _peak(os.getpid())

    def end(self) -> None:
        """Kill all: their data is thrown away."""
        for process in self._started.values():
            process.kill()
        for process in self._started.values():
            process.wait()
        for place in self._mounted:
            ctr("unmount", "--rm", place)

    def _exit(self, name: str, code: int) -> str:
        return f"it exited with code {code}: {self._last_words(name)}"

    def _last_words(self, name: str) -> str:
        with open(self._log(name), "rb") as file:
            file.seek(max(0, os.path.getsize(file.name) - _LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
        fatal = next((line for line in reversed(lines) if _FATAL.match(line)), lines[-1] if lines else "no output")
        said = _ERROR.search(fatal)
        return stripped(said[1].replace('\\"', '"') if said else fatal, None, self._given[name])

    def _log(self, name: str) -> str:
        return os.path.join(self.work, f"{name}.log")


class Etcd:
    """A scratch etcd's JSON gateway."""

    def __init__(self, port: int) -> None:
        self._port = port

    def missing(self) -> str:
        """Why it doesn't serve; "" where it does."""
        try:
            self._ask("/v3/kv/range", {"key": _text(b"/"), "limit": 1})
        except Failed as error:
            return str(error)
        return ""

    def disarm(self) -> None:
        """Deactivate the alarms for space that are in the data: with one, nothing can be written. Raises Failed."""
        for each in self._ask(_ALARMS, {"action": "GET"}).get("alarms", ()):
            if each.get("alarm") == "NOSPACE":
                self._ask(_ALARMS, {**each, "action": "DEACTIVATE"})

    def delete_below(self, folder: str) -> int:
        """Delete all keys that begin so; returns the revision afterwards. Raises Failed."""
        first = folder.encode()
        end = first[:-1] + bytes([first[-1] + 1])
        answer = self._ask("/v3/kv/deleterange", {"key": _text(first), "range_end": _text(end)})
        return int(answer["header"]["revision"])

    def put(self, key: str, value: str) -> int:
        """Write a key; returns the revision afterwards. Raises Failed."""
        answer = self._ask("/v3/kv/put", {"key": _text(key.encode()), "value": _text(value.encode())})
        return int(answer["header"]["revision"])

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ASK_SECONDS)
        with contextlib.closing(connection):
            try:
                connection.request("POST", path, body=json.dumps(body))
                response = connection.getresponse()
                said = response.read()
            except (OSError, http.client.HTTPException) as error:
                late = isinstance(error, socket.timeout)
                why = f"no answer within {_ASK_SECONDS:.0f} s{busy_host()}" if late else str(error)
                raise Failed(f"the scratch etcd doesn't answer: {why}") from error
        if response.status != 200:
            raise Failed("the scratch etcd refuses {}: {}".format(path, said.decode("utf-8", "replace")))
        answer: dict[str, Any] = json.loads(said)
        return answer


def stripped_name(image: str) -> str:
    """An image's name as a folder's."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", image)


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()


def _processor_seconds(pid: int) -> tuple[float, float]:
    """How long a process's threads have run, and have waited for a processor, as schedstat has it (in nanoseconds);
    nothing where the kernel doesn't say it.
    """
    ran = waited = 0
    for path in glob.glob(os.path.join(_PROC, str(pid), "task", "*", "schedstat")):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            own = file.read().split()
            ran, waited = ran + int(own[0]), waited + int(own[1])
    return ran / 1e9, waited / 1e9


def _peak(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return kept_bytes(file.read())
    except OSError:
        return 0


def kept_bytes(status: str) -> int:
    """What a process had at most, by its `/proc/PID/status`, but for the files that it maps now."""
    found = {name: int(size) for name, size in _SIZES.findall(status)}
    return max(0, found.get("VmHWM", 0) - found.get("RssFile", 0)) * 1024
