"""Sends a program to a host, runs it there, and reads its answer: one JSON object, in its last line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import CommandResult, Commands

__all__ = ["SentProgram"]

T = TypeVar("T")

_START = 'import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv.pop(1))), "program", "exec"))'
_NOT_FOUND = 127
_OF_PYTHON = re.compile(r"\w+(?:Error|Exception)\b")
"""How the last line of an error begins that Python itself has met."""
_NO_PYTHON = (
    "Install python3 on the host, which Ansible and upgrader's programs there need. If it is not on PATH, set "
    "ansible_python_interpreter in the inventory."
)
_OLD_PYTHON = (
    "The host needs Python 3.8 or newer, as for Ansible. If `python3` is older, set ansible_python_interpreter in the "
    "inventory to a newer one."
)


@dataclass(frozen=True)
class SentProgram:
    """A module of a package of `upgrader.onhost`; `asked` is the object in errors: `its etcd`."""

    module: str
    package: str
    asked: str
    remedy: str | Callable[[str], str]
    """The remedy if the program reports a failure, or answers in another form; or a function that finds it by the
    message.
    """
    inside: tuple[str, ...] = ()
    """The command that starts it on the host, such as `systemd-run …`; () for none."""

    def read(
        self,
        hosts: Commands,
        host: Host,
        decode: Callable[[dict[str, Any]], T],
        *words: str,
        seconds: float,
        secrets: tuple[str, ...] = (),
        given: Iterable[bytes] | None = None,
    ) -> T:
        """Its answer, decoded. Raises as `answer` does, and HostError if `decode` raises an error for an answer of
        another form.
        """
        answer = self.answer(hosts, host, *words, seconds=seconds, secrets=secrets, given=given)
        try:
            return decode(answer)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._not_understood(host, f"{type(error).__name__}: {error}") from error

    def answer(
        self,
        hosts: Commands,
        host: Host,
        *words: str,
        seconds: float,
        secrets: tuple[str, ...] = (),
        quiet: bool = False,
        given: Iterable[bytes] | None = None,
    ) -> dict[str, Any]:
        """Its output for these arguments and `secrets`, which don't appear in any process list, and may have more than
        the 128 KiB of an argument. `quiet`: the answer is
        a secret, so errors don't repeat it. `given`: what it reads from its standard input, sent as it comes; None:
        nothing. Raises HostUnreachable; HostError if the program failed, or didn't run; what `given` raises.
        """
        sent = program(self.module, self.package, secrets)
        # Without more to come, Python itself reads all of its input as the program.
        start = ("-",) if given is None else ("-c", _START, str(len(sent)))
        stdin = sent if given is None else chain((sent,), given)
        command = [*self.inside, host.python, "-I", *start, *words]
        done = hosts.run(host, command, stdin=stdin, timeout_seconds=seconds, check=False)
        last = _last_line(done.stdout)  # a login shell may greet before it
        try:
            answer = json.loads(last)
        except ValueError:
            raise self._no_answer(host, done, "the answer is truncated" if quiet and last else last) from None
        if not isinstance(answer, dict):
            raise self._not_understood(host, "another form" if quiet else last)
        if "failed" in answer:
            why = str(answer["failed"])
            raise HostError(f"{host.name}: {why}", remedy=self._remedy(why))
        return answer

    def _no_answer(self, host: Host, done: CommandResult, printed: str) -> HostError:
        said = _last_line(done.stderr)
        if not done.exit_status:
            return self._not_understood(host, printed or said or "no output")
        not_found = done.exit_status == _NOT_FOUND and not self.inside
        if not_found or host.python in done.stderr.partition("\n")[0]:
            return HostError(f"{host.name}: {host.python} can't be run: {done.stderr.strip()}", remedy=_NO_PYTHON)
        why = said or printed or "no output"
        # What starts Python may have failed, or ended it.
        remedy = self._remedy(why) if self.inside and not _OF_PYTHON.match(said) else _OLD_PYTHON
        return HostError(
            f"{host.name}: querying {self.asked} failed with exit code {done.exit_status}: {why}", remedy=remedy
        )

    def _not_understood(self, host: Host, why: str) -> HostError:
        return HostError(f"{host.name}: the answer about {self.asked} can't be parsed: {why}", remedy=self._remedy(why))

    def _remedy(self, why: str) -> str:
        return self.remedy if isinstance(self.remedy, str) else self.remedy(why)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
