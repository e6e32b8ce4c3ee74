"""Serves copies of a cluster's data with two versions of kube-apiserver on this host, and compares what they answer.

It works only where nothing can be reached, and writes nothing outside of its folder. What it prints has names, and the
servers' reasons without values.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from upgrader.onhost.common.private_folder import make_private
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal.abandoned import end_when_abandoned
from upgrader.onhost.rehearsal.api import Api
from upgrader.onhost.rehearsal.clients import Request
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.discovery import PATIENCE_SECONDS
from upgrader.onhost.rehearsal.isolation import require_isolation
from upgrader.onhost.rehearsal.last_in_line import last_in_line
from upgrader.onhost.rehearsal.paced_copy import copy_data
from upgrader.onhost.rehearsal.processes import Etcd, Processes
from upgrader.onhost.rehearsal.receive import receive
from upgrader.onhost.rehearsal.room import require_disk, require_memory
from upgrader.onhost.rehearsal.service_ranges import ranges_of
from upgrader.onhost.rehearsal.unwatched import KEYS, UNREADABLE, block_informers, only_these
from upgrader.onhost.rehearsal.yaml_keys import key_pattern

_START_SECONDS = 180.0
_TIMES = 3
"""As many times as long as the running version, the target may take: a busy host slows down both."""
_RESTORE_SECONDS = 600.0
_EXIT_SECONDS = 0.5
"""From when a program that was killed no longer answers until that is known."""
_SYNC_SECONDS = 20.0
"""For the rest, once a server lacks only its informers: those that meet an object that can't be read never have all."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_INFORMERS = "informer-sync"
_KMS = key_pattern("kms")
_APIS = "/apiregistration.k8s.io/apiservices/"
"""Removed from the copies: no other server could be reached. A server makes its own APIServices again."""
_LARGE_LISTS = "WatchListClient"
"""A feature gate: with it, informers read 10,000 objects at once, and not 500."""
_PORTS = {"current": (12379, 16443), "target": (22379, 26443)}
"""Of the scratch etcd, and of the scratch kube-apiserver, in a network of their own."""


def main(given: str) -> None:
    """`given` is JSON: `work`, the private folder; `unit`, the name of the unit that this runs in; `data`, the folder
    in `work` with etcd's data, which is used up; `etcd`, its image; `servers`: `current` and `target`, each with its
    `image`, its `flags`, the paths of its `encryption` configuration, and the `prefix` of its keys in etcd; `memory`
    (bytes) and `seconds` that all may take; `incoming`: null, or what comes as a tar archive on standard input: its
    `file_count`, and its `byte_count`; `snapshot`: "", or the name of the file in `data` of which etcd's data is to be
    made; `requests`: what clients send: each `apiVersion` with a resource and its verbs.

    Prints `findings` and `counts`, or why it `failed`.
    """
    asked = json.loads(given)
    threading.Thread(target=end_when_abandoned, args=(asked["work"],), daemon=True).start()
    try:
        answer = _rehearse(asked)
    except Failed as error:
        answer = {"failed": str(error)}
    except OSError as error:
        place = asked["work"] if error.errno in _FULL else "a file"
        answer = {"failed": f"{error.filename or place}: {error.strerror or error}"}
    except Exception as error:  # noqa: BLE001 — its own text, and a traceback, may quote the data
        at = traceback.extract_tb(error.__traceback__)[-1]
        answer = {"failed": f"an unexpected {type(error).__name__} at line {at.lineno} of {at.filename}"}
    sys.stdout.write(json.dumps(answer) + "\n")


def _rehearse(asked: dict[str, Any]) -> dict[str, Any]:
    work = asked["work"]
    require_isolation()
    make_private(work)
    last_in_line(asked["unit"])
    if asked["incoming"]:
        require_memory(asked["memory"])
        require_disk(work, 3 * asked["incoming"]["byte_count"])
        receive(sys.stdin.buffer, work, asked["data"], **asked["incoming"])
    begun = time.monotonic()
    for name, server in asked["servers"].items():
        if any(_has_kms(path) for path in server["encryption"]):
            return {"findings": [{"what": "kms", "resource": name, "reason": "", "count": 1, "names": []}]}
    processes = Processes(work, asked["memory"])
    try:
        if asked["snapshot"]:
            _restore(asked, processes)
        _check_room(asked)
        found = _served(asked, processes, begun + asked["seconds"])
        processes.require_unbroken()  # a kube-apiserver without its etcd answers, and refuses everything
        return {**found, "peak": processes.peak_bytes(), "seconds": round(time.monotonic() - begun, 1)}
    except Failed:
        processes.require_unbroken(_EXIT_SECONDS)  # which explains that one no longer answers
        raise
    finally:
        processes.end()


def _restore(asked: dict[str, Any], processes: Processes) -> None:
    """Replace the snapshot, which is all that the data's folder has, by etcd's data."""
    data = os.path.join(asked["work"], asked["data"])
    snapshot = os.path.join(asked["work"], asked["snapshot"])
    os.rename(os.path.join(data, asked["snapshot"]), snapshot)
    os.rmdir(data)
    words = [processes.program("etcdutl", asked["etcd"]), "snapshot", "restore", snapshot, f"--data-dir={data}"]
    processes.finish("etcdutl", words, _RESTORE_SECONDS)
    os.unlink(snapshot)


def _served(asked: dict[str, Any], processes: Processes, until: float) -> dict[str, Any]:
    data, token, apis = os.path.join(asked["work"], asked["data"]), secrets.token_hex(32), {}
    etcd = processes.program("etcd", asked["etcd"])
    programs = {name: processes.program("kube-apiserver", server["image"]) for name, server in asked["servers"].items()}
    copy_data(data, _place(asked, "target"))
    shutil.move(data, _place(asked, "current"))
    tokens = os.path.join(asked["work"], "tokens.csv")
    with open(os.open(tokens, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(f"{token},rehearsal,rehearsal,system:masters\n")
    revision, took = 0, 0.0
    for name, (port, secure) in _PORTS.items():
        revision = _start_etcd(asked, processes, name, etcd)
        certificates = os.path.join(asked["work"], f"{name}.certificates")
        words = [
            programs[name],
            *asked["servers"][name]["flags"],
            f"--etcd-servers=http://127.0.0.1:{port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={secure}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}",
        ]
        certificate = os.path.join(certificates, "apiserver.crt")
        starting = _Starting(name, secure, token, certificate, revision, processes.require_unbroken)
        started = time.monotonic()
        missing = _start_server(
            processes,
            name,
            words,
            starting.lacks_more_than_informers,
            asked["memory"],
            max(_START_SECONDS, _TIMES * took),
        )
        if missing:
            return _not_started(name, missing)
        apis[name], took = starting.api(), time.monotonic() - started
    requests = [Request(*each) for each in asked["requests"]]

    def unhurried() -> None:
        for each in apis:
            processes.require_processors(_server(each), PATIENCE_SECONDS)

    comparison = Comparison(
        apis["current"],
        apis["target"],
        revision,
        until,
        requests,
        ranges=(ranges_of(asked["servers"]["current"]["flags"]), ranges_of(asked["servers"]["target"]["flags"])),
        unbroken=processes.require_unbroken,
        unhurried=unhurried,
    )
    sync_seconds = max(_SYNC_SECONDS, took)
    unsynced = [
        (name, processes.wait(_server(name), partial(_lacking, api), sync_seconds)) for name, api in apis.items()
    ]
    found = [_not_started(name, missing)["findings"][0] for name, missing in unsynced if missing]
    # Admission refuses everything until it has its informers, so that only reading is of use.
    try:
        comparison.run(write=not found)
    except Failed:
        processes.require_unbroken(_EXIT_SECONDS)
        crash = processes.crash(_server("target"))
        if not crash or processes.crash(_server("current")):
            raise
        return {"findings": [_found("crash", crash)], "counts": comparison.counts}
    if not found and block_informers(comparison.undecodable):
        found = _not_started("target", _LACKS.format(_INFORMERS))["findings"]
    return {"findings": [*found, *comparison.findings()], "counts": comparison.counts}


def _start_server(
    processes: Processes, name: str, words: list[str], lacks: Callable[[], str], memory: int, seconds: float
) -> str:
    """Start a kube-apiserver; returns what it isn't ready for after so many seconds, or "".

    A version may have locked or removed the feature gate that only saves memory: that says nothing about the cluster.
    """
    server = _server(name)
    for gates in ([f"--feature-gates={_LARGE_LISTS}=false"], []):
        title = f"the {name} kube-apiserver"
        processes.start(server, [*words, *gates], _garbage(name, memory), title=title)
        missing = processes.wait(server, lacks, seconds)
        if _LARGE_LISTS not in missing:
            break
    return missing


def _server(name: str) -> str:
    """The name of its process."""
    return f"kube-apiserver-{name}"


def _garbage(name: str, memory: int) -> dict[str, str]:
    """The environment of the server `name`. The target's garbage is collected less often than by Go's default, as each
    request makes much of it; the running version is asked too rarely for that to be worth its memory. Near the share of
    the `memory` (bytes) that each may have, it is collected all the more often.
    """
    return {"GOGC": "300" if name == "target" else "100", "GOMEMLIMIT": str(memory * 3 // 8)}


def _not_started(name: str, missing: str) -> dict[str, Any]:
    if name == "current":
        raise Failed(f"the current kube-apiserver does not serve the copy: {missing}")
    return {"findings": [_found("start", missing)]}


def _found(what: str, reason: str) -> dict[str, Any]:
    return {"what": what, "resource": "", "reason": reason, "count": 1, "names": []}


def _start_etcd(asked: dict[str, Any], processes: Processes, name: str, program: str) -> int:
    """Start one; returns the revision of its data, without what could not be reached, and with what keeps pods and
    Secrets out of memory.
    """
    port = _PORTS[name][0]
    words = [
        program,
        f"--data-dir={_place(asked, name)}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{port + 1}",
        "--force-new-cluster",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=-1",  # none: the cluster's may be any
        "--log-level=error",
    ]
    etcd = Etcd(port)
    processes.start(f"etcd-{name}", words, needed=True)
    missing = processes.wait(f"etcd-{name}", etcd.missing, _START_SECONDS)
    if missing:
        raise Failed(f"the scratch etcd does not serve the copy: {missing}")
    etcd.disarm()
    prefix = asked["servers"][name]["prefix"]
    etcd.delete_below(prefix + _APIS)
    return max(etcd.put(prefix + key, UNREADABLE) for key in KEYS)


class _Starting:
    """A server that may not have its certificate yet."""

    def __init__(
        self, name: str, port: int, token: str, certificate: str, revision: int, unbroken: Callable[[], None]
    ) -> None:
        self._of = name, port, token, certificate, revision, unbroken

    def api(self) -> Api:
        return Api(*self._of)

    def lacks_more_than_informers(self) -> str:
        """What it isn't ready for, but for its informers; "" where that is nothing."""
        if not os.path.exists(self._of[3]):
            return "it has no certificate yet"
        try:
            lacking = _lacking(self.api())
        except OSError as error:  # half of a certificate
            return str(error)
        return "" if lacking == _LACKS.format(_INFORMERS) else lacking


_LACKS = "it is not ready: {}"


def _lacking(api: Api) -> str:
    """What a server isn't ready for; "" where it is ready."""
    try:
        status, answer = api.ask("GET", "/readyz?verbose")
        lacking = re.findall(r"(?m)^\[-\](\S+)", str(answer.get("message")))
        if lacking == [_INFORMERS] and only_these(str(api.ask("GET", f"/readyz/{_INFORMERS}")[1].get("message"))):
            return ""
    except Failed as error:
        return str(error)
    return "" if status == 200 else _LACKS.format(", ".join(lacking) or f"status {status}")


def _place(asked: dict[str, Any], name: str) -> str:
    return os.path.join(asked["work"], f"{name}.etcd")


def _has_kms(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return bool(_KMS.search(file.read()))


def _check_room(asked: dict[str, Any]) -> None:
    require_memory(asked["memory"])
    data = os.path.join(asked["work"], asked["data"])
    size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(data) for name in names)
    require_disk(asked["work"], 2 * size)
