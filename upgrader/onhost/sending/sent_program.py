"""Runs a program that is sent to a host, and reads its answer: one JSON object, in its last line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import Hosts

__all__ = ["SentProgram"]


@dataclass(frozen=True)
class SentProgram:
    """A module of a package's `onhost`; `asked` names in errors what is asked: `its etcd`."""

    module: str
    package: str
    asked: str
    remedy: str
    """For what the program itself says that failed."""

    def answer(
        self, hosts: Hosts, host: Host, *words: str, seconds: float, secrets: tuple[str, ...] = (), quiet: bool = False
    ) -> dict[str, Any]:
        """What it prints for these arguments, and then for `secrets`, which are no arguments of a process.

        `quiet`: the answer is a secret, and so no error repeats it. Raises HostUnreachable; HostError where it has
        failed, or didn't run.
        """
        command, sent = [host.python, "-I", "-", *words], program(self.module, self.package, secrets)
        done = hosts.run(host, command, stdin=sent, timeout_seconds=seconds, check=False)
        last = done.stdout.strip().rpartition("\n")[2]  # a login shell may greet before it
        try:
            answer = json.loads(last)
        except ValueError:
            printed = "an answer that was cut off" if quiet and last else last
            said = done.stderr.strip().rpartition("\n")[2] or printed or "no output"
            raise HostError(
                f"{host.name}: {self.asked} could not be asked ({done.exit_status}): {said}",
                remedy="Python 3.8 or newer is needed there, as Ansible needs it; where `python3` is older, name "
                "another one as ansible_python_interpreter in the inventory.",
            ) from None
        if not isinstance(answer, dict) or "failed" in answer:
            why = answer.get("failed") if isinstance(answer, dict) else last
            raise HostError(f"{host.name}: {why}", remedy=self.remedy)
        return answer
