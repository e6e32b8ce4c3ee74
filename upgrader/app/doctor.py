"""`upgrader doctor`: whether the machine that upgrader runs on, and its files, are fit for a run. Changes nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from upgrader.app.wiring import open_kube, open_renderer, own_machine, system_clock
from upgrader.config.inventory import load_hosts
from upgrader.config.load import load_settings
from upgrader.errors import UpgraderError
from upgrader.model.cluster import KEEP_KEYS, Host
from upgrader.model.counted import counted
from upgrader.model.settings import Settings
from upgrader.ports import Clock, Helm, Kube, OwnMachine
from upgrader.preflight.helm_client import check_client

__all__ = ["Doctor", "Symptom", "this_doctor"]

State = Literal["ok", "warning", "error"]

_ENOUGH_BYTES, _LEAST_BYTES = 1 << 30, 64 << 20
"""A journal has 4 MB at most; backups, bundles and twenty runs' logs come beside it."""
_APART = timedelta(seconds=5)
_OTHERS = 0o077
_SECONDS = 10.0
_INSTALL = "Install upgrader with its dependencies."


@dataclass(frozen=True)
class Symptom:
    """One line: what was checked, the result, and the remedy if it isn't right."""

    name: str
    state: State
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Doctor:
    """Looks at one machine, and at the folder that it works on."""

    machine: OwnMachine
    clock: Clock
    open_helm: Callable[[], AbstractContextManager[Helm]]
    open_kube: Callable[[], AbstractContextManager[Kube]]
    folder: Path

    def examine(self, environ: Mapping[str, str]) -> tuple[Symptom, ...]:
        """Every line, also behind one that is wrong."""
        return tuple(self._symptoms(environ))

    def _symptoms(self, environ: Mapping[str, str]) -> Iterator[Symptom]:
        yield Symptom("python", "ok", ".".join(map(str, sys.version_info[:3])))
        yield self._helm()
        yield self._ansible()
        yield self._ssh()
        yield self._agent(environ)
        yield _age()
        yield self._disk()
        try:
            settings = load_settings(self.folder, environ)
        except UpgraderError as error:
            yield Symptom("folder", "error", error.message, error.remedy)
            return
        yield Symptom("folder", "ok", str(self.folder))
        yield self._kubeconfig(settings)
        yield from map(self._secret, settings.observability.secret_files)
        yield self._clock_of_the_api()
        yield from self._controllers(settings)

    def _helm(self) -> Symptom:
        try:
            with self.open_helm() as helm:
                found, wrong = helm.version(), next(check_client(helm), None)
        except UpgraderError as error:
            return Symptom("helm", "error", error.message, error.remedy)
        return Symptom("helm", "error", wrong.title, wrong.remedy) if wrong else Symptom("helm", "ok", found)

    def _ansible(self) -> Symptom:
        answer = self.machine.answer("ansible-playbook", "--version")
        if answer is None or answer.exit_status:
            return Symptom("ansible", "error", "ansible-playbook doesn't answer", _INSTALL)
        return Symptom("ansible", "ok", answer.stdout.partition("\n")[0])

    def _ssh(self) -> Symptom:
        answer = self.machine.answer("ssh", "-V")
        if answer is None or answer.exit_status:
            return Symptom("ssh", "error", "there is no OpenSSH client", "Install it: apt install openssh-client")
        return Symptom("ssh", "ok", answer.stderr.strip())

    def _agent(self, environ: Mapping[str, str]) -> Symptom:
        if not environ.get("SSH_AUTH_SOCK"):
            return Symptom("agent", "ok", "none: only key files are used")
        answer = self.machine.answer("ssh-add", "-l")
        if answer is None or answer.exit_status not in (0, 1):
            return Symptom("agent", "warning", "SSH_AUTH_SOCK is set, but no agent answers", "eval $(ssh-agent)")
        keys = len(answer.stdout.splitlines()) if answer.exit_status == 0 else 0
        return Symptom("agent", "ok", f"{counted(keys, 'key')}")

    def _disk(self) -> Symptom:
        free = self.machine.free_bytes(self.folder / "runs")
        if free is None:
            return Symptom("disk", "warning", f"the free disk space of {self.folder} is unknown", "Check it: df")
        text = f"{free / 2**30:.1f} GiB free for journals and backups"
        if free >= _ENOUGH_BYTES:
            return Symptom("disk", "ok", text)
        remedy = (
            "Free some space, or lower policy.keepRuns and backup.keep: a run stops if its journal can't be written."
        )
        return Symptom("disk", "error" if free < _LEAST_BYTES else "warning", text, remedy)

    def _kubeconfig(self, settings: Settings) -> Symptom:
        path = settings.kubeconfig
        mode = self.machine.mode(path)
        if mode is None:
            if not settings.kubeconfig_named:
                text = (
                    f"{path} doesn't exist. Without it, upgrader uses the files of kubectl's KUBECONFIG, but only if "
                    "you name a context"
                )
                return Symptom("kubeconfig", "warning", text)
            return Symptom(
                "kubeconfig", "error", f"{path} can't be read", "See docs/ssh.md for which kubeconfig is used."
            )
        if mode & _OTHERS:
            return Symptom("kubeconfig", "warning", f"other users can read {path} ({mode:o})", f"chmod 600 {path}")
        return Symptom("kubeconfig", "ok", f"{path} ({mode:o})")

    def _secret(self, file: Path) -> Symptom:
        mode = self.machine.mode(file)
        if mode is None:
            remedy = "Create the file, or correct the section `observability` in upgrader.yaml."
            return Symptom("credentials", "error", f"{file} can't be read", remedy)
        if mode & _OTHERS:
            return Symptom("credentials", "warning", f"other users can read {file} ({mode:o})", f"chmod 600 {file}")
        return Symptom("credentials", "ok", f"{file} ({mode:o})")

    def _clock_of_the_api(self) -> Symptom:
        try:
            with self.open_kube() as kube:
                before = self.clock.now()
                server, after = kube.server_time(), self.clock.now()
        except UpgraderError as error:
            return Symptom("clock", "warning", f"not compared: {error.message}", error.remedy)
        # HTTP's date has no fraction of a second, and is of some moment between question and answer.
        apart = max(before - server - timedelta(seconds=1), server - after, timedelta())
        if apart > _APART:
            return Symptom(
                "clock",
                "warning",
                f"{apart.total_seconds():.0f} s apart from the API server's",
                "Synchronize this machine's clock: the validity of saved plans, tokens and certificates depends on it.",
            )
        return Symptom("clock", "ok", "agrees with the API server's")

    def _controllers(self, settings: Settings) -> Iterator[Symptom]:
        try:
            controllers = load_hosts(settings.inventory, dynamic=settings.dynamic_inventory)["controllers"]
        except UpgraderError as error:
            yield Symptom("inventory", "error", error.message, error.remedy)
            return
        yield Symptom("inventory", "ok", f"{counted(len(controllers), 'controller')}")
        keys = dict.fromkeys(host.key_file for host in controllers if host.key_file)
        yield from map(self._key, keys)
        yield self._known_hosts(controllers)

    def _key(self, file: Path) -> Symptom:
        mode = self.machine.mode(file)
        if mode is None:
            return Symptom("ssh key", "error", f"{file} can't be read", "Correct ansible_ssh_private_key_file.")
        if self.machine.ssh_refuses(file):
            return Symptom("ssh key", "error", f"other users can read {file}: ssh refuses it", f"chmod 600 {file}")
        return Symptom("ssh key", "ok", str(file))

    def _known_hosts(self, controllers: tuple[Host, ...]) -> Symptom:
        unknown = [host for host in controllers if not any(self._knows(host, file) for file in _files(host))]
        if not unknown:
            return Symptom("known_hosts", "ok", "has every controller")
        return Symptom(
            "known_hosts",
            "error",
            f"has no key of {', '.join(host.name for host in unknown)}",
            (f"{KEEP_KEYS} " if any(host.forgets_keys for host in unknown) else "")
            + "Log in to each controller once, and compare its fingerprint with the one on its console: docs/ssh.md.",
        )

    def _knows(self, host: Host, file: Path) -> bool:
        name = host.host_key_alias or (host.address if host.port == 22 else f"[{host.address}]:{host.port}")
        answer = self.machine.answer("ssh-keygen", "-F", name, "-f", str(file))
        return answer is not None and answer.exit_status == 0 and bool(answer.stdout.strip())


def this_doctor(folder: Path) -> Doctor:
    """The one of this machine."""
    return Doctor(own_machine(), system_clock(), open_renderer, lambda: open_kube(folder, _SECONDS), folder)


def _files(host: Host) -> tuple[Path, ...]:
    return (host.known_hosts or Path("~/.ssh/known_hosts").expanduser(), *host.more_known_hosts)


def _age() -> Symptom:
    try:
        found = version("pyrage")
    except PackageNotFoundError:
        return Symptom("age", "error", "pyrage is not installed", _INSTALL)
    return Symptom("age", "ok", f"built in ({re.sub(r'[^0-9.].*', '', found)})")
