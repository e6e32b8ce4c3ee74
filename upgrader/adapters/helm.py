"""Helm through pyhelm3, without the pitfalls of either.

pyhelm3 is asynchronous and starts Helm through a shell. Here one event loop serves every call, and Helm starts
directly, in a session of its own: Ctrl-C in the terminal reaches only upgrader, which then decides when Helm stops.
If upgrader is killed, Helm still completes (or rolls back) what it began.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import pyhelm3
import pyhelm3.command
import pyhelm3.errors
import semver
import yaml

from upgrader.adapters.chart_schemas import check_schemas
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.helm_confinement import Confinement
from upgrader.adapters.helm_limit import PENDING, ROLLBACKS, UNDONE_UPGRADES, UPGRADES, HelmLimit, awaited_hooks
from upgrader.adapters.helm_processes import CLUSTER_VARIABLE, helm_at_work
from upgrader.adapters.helm_refusals import refusal
from upgrader.errors import (
    ApiError,
    ApiUnavailable,
    ChartRefused,
    HelmError,
    HelmUnfinished,
    Interrupted,
    ReleaseLocked,
    UsageError,
)
from upgrader.model.limited_yaml import check_limits
from upgrader.model.manifest import objects_in
from upgrader.model.redaction.known_secrets import KNOWN, secrets_in
from upgrader.model.release import ReleaseSpec, Revision, installed
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock
from upgrader.wait_and_retry import retry

__all__ = ["HelmAdapter", "find_helm"]

T = TypeVar("T")

HISTORY_KEPT = 20
"""Revisions that Helm keeps: enough for many failed attempts above the last good one."""

_READ_SECONDS = 30.0
"""For all tries of a read together."""
_READ_RETRIES = 3
_READ_PAUSE_SECONDS = 0.5
_GRACE_SECONDS = 30.0
"""How much longer than its own timeout Helm may take before it is stopped."""
_WATCH_SECONDS = 1.0
_LOOK_SECONDS = 0.02
_DESCRIPTION_CHARACTERS = 256
_KILLED = "killed"
"""The message with which a call is cancelled whose Helm must write nothing more."""

_UNKNOWN_KIND = "unable to build kubernetes objects"

_NOT_REACHED = (
    "cluster unreachable",
    "connection refused",
    "connection reset",
    "connection lost",
    "connection timed out",
    "broken pipe",
    "no route to host",
    "network is unreachable",
    # As macOS has it, also for a machine that has just woken up.
    "operation timed out",
    "network is down",
    "host is down",
    "use of closed network connection",
    # An HTTP proxy, in the place of a connection.
    '": Bad Gateway',
    '": Service Unavailable',
    '": Gateway Timeout',
    "server sent GOAWAY",
    "stream error: stream ID",
    "EOF",
    "i/o timeout",
    "TLS handshake timeout",
    "Client.Timeout",
    "no such host",
    "unexpected end of JSON input",
    "too many requests",
    "Too Many Requests",
    "server is currently unable",
    "has prevented the request from succeeding",
    "unable to return a response in the time allotted",
    "request did not complete within requested timeout",
    "transport is closing",
    "etcdserver: leader changed",
    "etcdserver: no leader",
    "etcdserver: request timed out",
    "etcdserver: server stopped",
)
"""How Helm and Go report an API that didn't answer, or whose answer didn't arrive; and how the API server reports that
etcd elects a leader.
"""
_NO_KUBECONFIG = ("tls: private key does not match public key", "error loading config file")
"""How it reports a kubeconfig of which half is renewed, also as a cluster that is unreachable."""
_WEBHOOK_NOT_REACHED = re.compile(
    r'failed to call webhook: (?:Post "[^"\n]*": )?.{0,160}?(?:' + "|".join(map(re.escape, _NOT_REACHED)) + ")"
)
"""An API server's error about a webhook that doesn't answer."""


def find_helm() -> Path:
    """The Helm to use: the one beside this Python (where `make` puts it), or else the one on PATH."""
    beside = Path(sys.executable).parent / "helm"
    found = beside if os.access(beside, os.X_OK) else shutil.which("helm")
    if found is None:
        raise UsageError("Helm was not found", remedy="Install Helm 4 (or 3), or put it on PATH.")
    return Path(found)


class _Command(pyhelm3.command.Command):  # type: ignore[misc]  # pyhelm3 has no types
    """pyhelm3's command, but without a shell."""

    def __init__(
        self,
        executable: Path,
        kubeconfig: Path,
        context: str,
        cluster: Callable[[], str],
        confinement: Confinement | None,
    ) -> None:
        super().__init__(
            executable=str(executable),
            kubeconfig=kubeconfig,
            kubecontext=context or None,
            history_max_revisions=HISTORY_KEPT,
        )
        self._cluster_uid = cluster
        self._confinement = confinement
        self.left = False
        """Whether a running Helm continues when its call is cancelled."""
        self._connection = ["--kubeconfig", str(kubeconfig), *(["--kube-context", context] if context else [])]

    async def run(self, command: list[Any], input: bytes | None = None) -> bytes:  # noqa: A002 (pyhelm3's name)
        """Run Helm to its end; raises pyhelm3's errors. Cancelling stops Helm, which then rolls back by itself; where
        the message is `_KILLED`, it writes nothing more.

        Not by asyncio's subprocesses: they kill a Helm that is `left` to itself, once they are collected.
        """
        with _memory(input or b"") as given, _memory() as out, _memory() as errors:
            process = subprocess.Popen(
                [self._executable, *(str(part) for part in command), *self._connection],
                stdin=given,
                stdout=out,
                stderr=errors,
                env={**self._environment(), CLUSTER_VARIABLE: self._cluster_uid()},
                start_new_session=True,
            )
            if self._confinement:
                self._confinement.limit(process.pid)
            try:
                await _ended(process)
            except asyncio.CancelledError as cancelled:
                if _KILLED in cancelled.args:
                    process.kill()
                    process.wait()
                elif not self.left:
                    await _end(process)
                raise
            stdout, stderr = _written(out), _written(errors)
        if process.returncode == 0:
            return stdout
        if process.returncode < 0:
            # A killed Helm doesn't report it, and earlier output must not pass for the cause.
            stderr += f"\nError: Helm was killed (signal {-process.returncode})".encode()
        text = stderr.decode(errors="replace")
        kind = pyhelm3.errors.ReleaseNotFoundError if "release: not found" in text else pyhelm3.errors.Error
        raise kind(process.returncode, stdout, stderr)

    def client_version(self) -> semver.Version:
        """Helm's version, which pyhelm3 needs for its client; without a shell, as Helm loads its plugins for this,
        too.
        """
        try:
            done = subprocess.run(
                [self._executable, "version", "--template", "{{ .Version }}"],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_READ_SECONDS,
                check=True,
            )
            return semver.Version.parse(done.stdout.strip().removeprefix("v"))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            told = str(getattr(error, "stderr", None) or error).strip()
            raise UsageError(
                f"the version of Helm could not be determined: {told}", remedy=f"Run: {self._executable} version"
            ) from error

    def _environment(self) -> Mapping[str, str]:
        return self._confinement.environment if self._confinement else _environment()


def _memory(content: bytes = b"") -> IO[bytes]:
    """A file in memory for Helm's input and output, as values and manifests contain Secrets. Not a pipe: if upgrader is
    killed, Helm's next write into it would end Helm before it completes.
    """
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("helm"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - not Linux: a file without a name, which the caller closes
    file.write(content)
    file.seek(0)
    return file


def _written(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


async def _ended(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        await asyncio.sleep(_LOOK_SECONDS)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM makes Helm stop waiting, mark the revision as failed and roll back, which is not waited for long: the
    caller's own rollback follows the SIGKILL, and repairs the API meanwhile, as Helm doesn't.
    """
    process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await _ended(process)
    except TimeoutError:
        process.kill()
        process.wait()


class HelmAdapter:
    """`ports.Helm` for the cluster that a kubeconfig and a context name."""

    def __init__(
        self,
        kubeconfig: Path,
        context: str = "",
        executable: Path | None = None,
        *,
        clock: Clock | None = None,
        cluster: Callable[[], str] = lambda: "",
        record_age: Callable[[str, str, int], float | None] = lambda *_: None,
        confinement: Confinement | None = None,
    ) -> None:
        """`cluster` gives the UID of its namespace kube-system; "" while it isn't known. `record_age`: as `RecordAge`.

        `confinement` is for charts that anyone may have written; without it Helm has this process's environment.
        """
        self._clock = clock or SystemClock()
        self._cluster_uid = cluster
        self._record_age = record_age
        self._written: dict[tuple[str, str, int, str], float] = {}
        """Release, namespace, pending revision and its status → when it was written (monotonic)."""
        self._awaited: dict[tuple[str, str, int, str], int] = {}
        """The same → how many hooks Helm waits for before that status ends."""
        helm = executable or find_helm()
        self._command = _Command(helm, kubeconfig, context, cluster, confinement)
        self._client = pyhelm3.Client(self._command, executable=str(helm))
        self._loop = asyncio.new_event_loop()
        # In a thread of its own: a second Ctrl-C raises KeyboardInterrupt wherever the main thread is. That is where it
        # waits, then, and never in the middle of a coroutine, which would end Helm, or of the loop itself.
        self._thread = threading.Thread(target=self._loop.run_forever, name="helm", daemon=True)

    def close(self) -> None:
        """Close the event loop. Tasks that a second Ctrl-C left in it are cancelled; a running Helm continues on its
        own.
        """
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    async def _leave(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            self._command.left = True
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    def version(self) -> str:
        return str(self._client.version)

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        try:
            rows = self._read(lambda: self._command.history(release, namespace=namespace), _release(release, namespace))
        except _NotInstalled:
            return ()
        found = installed(tuple(sorted((_revision(row) for row in rows), key=lambda r: r.number)))
        if not found or not found[-1].pending:
            return found
        return (*found[:-1], self._pending(release, namespace, found[-1]))

    def _pending(self, release: str, namespace: str, newest: Revision) -> Revision:
        """With what decides whether a Helm may still be active: a date that this machine's clock can be compared with,
        and how often that Helm waits. Both are asked for once.
        """
        key = release, namespace, newest.number, newest.status
        if key not in self._awaited:
            self._awaited[key] = self._hooks(release, namespace, newest)
        waits = 1 + self._awaited[key]
        if key not in self._written:
            try:
                age = self._record_age(release, namespace, newest.number)
            except ApiError:
                return replace(newest, updated=None, waits=waits)  # unknown: it counts as young
            if age is None:
                return replace(newest, waits=waits)
            self._written[key] = self._clock.monotonic() - age
        age = self._clock.monotonic() - self._written[key]
        return replace(newest, updated=self._clock.now() - timedelta(seconds=age), waits=waits)

    def _hooks(self, release: str, namespace: str, newest: Revision) -> int:
        return awaited_hooks(lambda: self._stored_hooks(release, namespace, newest.number), PENDING[newest.status])

    def at_work(self, release: str, namespace: str) -> int:
        return helm_at_work(release, namespace, self._cluster_uid())

    def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
        command = ["get", "manifest", release, "--namespace", namespace]
        if revision is not None:
            command += ["--revision", str(revision)]
        with _revision_missing(release, namespace, revision):
            return _learned(self._read(lambda: self._command.run(command), _release(release, namespace)).decode())

    def render(self, spec: ReleaseSpec, *, target: KubernetesVersion | None = None, offline: bool = False) -> str:
        if offline:
            check_schemas(spec.chart)
        return self._rendered(spec, ["--no-hooks"], target, offline)

    def _rendered(
        self, spec: ReleaseSpec, options: list[str], target: KubernetesVersion | None = None, offline: bool = False
    ) -> str:
        if not offline:
            server = ["--dry-run=server"] if self._client.version.major >= 4 else ["--validate", "--dry-run=server"]
            try:
                return self._template(spec, [*options, *server])
            except HelmError as error:
                # A chart's own kinds are unknown to the API until their definitions are installed.
                if _UNKNOWN_KIND not in error.message:
                    raise
        # Otherwise Helm takes its own library's version for the cluster's, and may refuse a chart for that.
        return self._template(spec, [*options, *(["--kube-version", str(target)] if target else [])])

    def _template(self, spec: ReleaseSpec, options: list[str]) -> str:
        command = [
            "template",
            spec.name,
            str(spec.chart),
            "--namespace",
            spec.namespace,
            "--is-upgrade",
            *options,
            "--values",
            "-",
        ]
        KNOWN.learn(secrets_in(spec.values))  # first: Helm's complaint may quote them
        try:
            values = json.dumps(spec.values).encode()
            rendered = self._read(lambda: self._command.run(command, values), _release(spec.name, spec.namespace))
        except HelmError as error:
            raise refusal(spec, error) from error
        return _parsed(
            rendered,
            f"release '{spec.name}': the rendered manifest",
            f"Run: helm template {spec.name} {spec.chart} --values FILE",
        )

    def definitions(self, chart: Path) -> str:
        subject = _Subject(f"chart {chart}", f"helm show crds {chart}")
        found = self._read(lambda: self._command.run(["show", "crds", str(chart)]), subject)
        return _parsed(found, f"{subject.name}: the definitions in its folder crds/", f"Run: {subject.see}")

    def upgrade(
        self,
        spec: ReleaseSpec,
        *,
        timeout_seconds: float,
        watch: Callable[[], None],
        take_ownership: bool = False,
        description: str = "",
        wait: bool = True,
    ) -> Revision:
        helm_4 = self._client.version.major >= 4

        async def work() -> Revision:
            try:
                # Not by pyhelm3's client: it judges charts and names by rules of its own, the latter once Helm has
                # made the change.
                done = await self._command.install_or_upgrade(
                    spec.name,
                    spec.chart.absolute(),
                    dict(spec.values),
                    namespace=spec.namespace,
                    # Helm takes a rollback on failure for a wish to wait, too.
                    atomic=wait,
                    atomic_arg="--rollback-on-failure" if helm_4 else "--atomic",
                    # Otherwise Helm merges in the values of the newest revision, even of a failed one.
                    reset_values=True,
                    take_ownership=take_ownership,
                    # Both, as in `rollback`: Helm 4 refuses the second for a release that Helm 3 wrote, without the
                    # first.
                    server_side="true" if helm_4 else None,
                    force_conflicts=helm_4,
                    create_namespace=False,
                    description=_plain(description) or None,
                    timeout=f"{timeout_seconds:.0f}s",
                    wait=wait,
                )
                return Revision(int(done["version"]), "deployed", description=done["info"].get("description") or "")
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise HelmError(
                    f"Helm has upgraded release '{spec.name}', but its output is not the release as JSON",
                    remedy="Find out what else prints to Helm's standard output, such as a Helm plugin. Then check "
                    f"the release: helm history {spec.name} -n {spec.namespace}",
                ) from error

        subject = _release(spec.name, spec.namespace)
        limit = self._upgrade_limit(spec, timeout_seconds, undone=wait)
        return self._run(self._watched(work(), watch, subject, limit), subject)

    def _upgrade_limit(self, spec: ReleaseSpec, timeout_seconds: float, *, undone: bool) -> HelmLimit:
        """`undone`: whether Helm itself undoes it if it fails. The new chart tells the hooks of that, too."""
        events, waits = (UNDONE_UPGRADES, 2) if undone else (UPGRADES, 1)
        return HelmLimit(timeout_seconds, 2 * _GRACE_SECONDS, events, lambda: self._rendered(spec, []), waits)

    def rollback(
        self,
        release: str,
        namespace: str,
        revision: int,
        *,
        timeout_seconds: float,
        wait: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> Revision:
        command = ["rollback", release, str(revision), "--namespace", namespace]
        command += ["--timeout", f"{timeout_seconds:.0f}s", "--history-max", str(HISTORY_KEPT)]
        if wait:
            command.append("--wait")
        if self._client.version.major >= 4:
            # Explicit: for a revision that Helm 3 wrote, Helm 4 would apply on the client's side, and then refuse
            # --force-conflicts, without which manual edits stay.
            command += ["--server-side=true", "--force-conflicts"]
        limit = self._rollback_limit(release, namespace, revision, timeout_seconds)
        subject = _release(release, namespace)
        with _revision_missing(release, namespace, revision):
            self._run(self._watched(self._command.run(command), watch, subject, limit), subject)
        return self.history(release, namespace)[-1]

    def _rollback_limit(self, release: str, namespace: str, revision: int, timeout_seconds: float) -> HelmLimit:
        stored = partial(self._stored_hooks, release, namespace, revision)
        return HelmLimit(timeout_seconds, _GRACE_SECONDS, ROLLBACKS, stored)

    def _stored_hooks(self, release: str, namespace: str, revision: int) -> str:
        command = ["get", "hooks", release, "--namespace", namespace, "--revision", str(revision)]
        found = self._read(lambda: self._command.run(command), _release(release, namespace))
        return _parsed(found, f"release '{release}': its hooks", f"Run: helm get hooks {release} -n {namespace}")

    def uninstall(self, release: str, namespace: str, *, timeout_seconds: float) -> None:
        self._call(
            self._client.uninstall_release(release, namespace=namespace, timeout=f"{timeout_seconds:.0f}s", wait=True),
            _release(release, namespace),
            timeout_seconds + _GRACE_SECONDS,
        )

    def _read(self, work: Callable[[], Coroutine[Any, Any, T]], subject: _Subject) -> T:
        """Read with retries where the API is unreachable, but not where its certificate is not trusted.

        Helm gives up at the first broken connection, and replacing kube-apiserver breaks some.
        """
        deadline = self._clock.monotonic() + _READ_SECONDS
        return retry(
            self._clock,
            lambda: self._call(work(), subject, deadline - self._clock.monotonic()),
            pause=_read_pause,
            attempts=_READ_RETRIES + 1,
            seconds=_READ_SECONDS,
        )

    async def _watched(
        self, work: Coroutine[Any, Any, T], watch: Callable[[], None], subject: _Subject, limit: HelmLimit
    ) -> T:
        """Await `work`, and call `watch` once a second; when that raises, cancel `work` and raise the error, as well as
        HelmUnfinished past the limit, which is read beside that: an API that is slow takes a minute for it.
        """
        task = asyncio.ensure_future(work)
        began = self._clock.monotonic()
        ends = began + limit.seconds
        reading: asyncio.Future[float] | None = None
        how: str | None = None
        try:
            while True:
                await asyncio.wait({task}, timeout=_WATCH_SECONDS)
                if task.done():
                    return task.result()
                await asyncio.to_thread(watch)
                if reading is not None and reading.done():
                    seconds, reading = reading.result(), None
                    ends = began + seconds
                    if self._clock.monotonic() >= ends and not task.done():
                        raise _unfinished(subject, seconds)
                elif reading is None and self._clock.monotonic() >= ends:
                    reading = asyncio.ensure_future(asyncio.to_thread(limit.extended))
        except Interrupted:
            # Another process works on the release by now: Helm's own rollback would be against that.
            how = _KILLED
            raise
        finally:
            if not task.done():
                task.cancel(how)
                await asyncio.wait({task})
            if reading is not None:  # or else a Helm that reads would be left behind
                await asyncio.wait({reading})

    def _call(self, work: Coroutine[Any, Any, T], subject: _Subject, limit_seconds: float) -> T:
        """The same within a limit; raises HelmUnfinished past it."""
        try:
            return self._run(asyncio.wait_for(work, limit_seconds), subject)  # noqa: TID251  # nothing cancels it
        except TimeoutError as error:
            raise _unfinished(subject, limit_seconds) from error

    def _run(self, work: Coroutine[Any, Any, T], subject: _Subject) -> T:
        """Run one call in the adapter's loop, and translate its errors."""
        if not self._thread.is_alive():
            self._thread.start()
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except pyhelm3.errors.ReleaseNotFoundError as error:
            raise _NotInstalled(f"{subject.name} is not installed") from error
        except pyhelm3.errors.Error as error:
            raise _translated(subject, error.stderr.decode(errors="replace")) from error


@dataclass(frozen=True)
class _Subject:
    """What a command of Helm is about, and the command that shows more of it."""

    name: str
    see: str


def _release(name: str, namespace: str) -> _Subject:
    return _Subject(f"release '{name}'", f"helm history {name} -n {namespace}")


def _unfinished(subject: _Subject, seconds: float) -> HelmUnfinished:
    return HelmUnfinished(
        f"Helm did not complete {subject.name} within {seconds:.0f} s", remedy=f"Check its state: {subject.see}"
    )


def _parsed(rendered: bytes, what: str, remedy: str) -> str:
    """The text, if `objects_in` can read it; raises ChartRefused."""
    try:
        manifest = rendered.decode()
        check_limits(manifest)
        return _learned(manifest)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        # Helm reads YAML with another library, and of most objects no more than their names.
        raise ChartRefused(f"{what} can't be parsed as Kubernetes objects: {error}", remedy=remedy) from error


def _learned(manifest: str) -> str:
    """The same manifest; the values of its Secrets are masked from now on."""
    KNOWN.learn(secrets_in(list(objects_in(manifest).values())))
    return manifest


def _plain(text: str) -> str:
    """Valid in any locale, and not longer than Helm accepts."""
    return text.replace("→", "->").encode("ascii", "replace").decode()[:_DESCRIPTION_CHARACTERS]


class _NotInstalled(HelmError):
    """The release or the revision does not exist."""


@contextmanager
def _revision_missing(release: str, namespace: str, revision: int | None) -> Iterator[None]:
    """Name a revision that doesn't exist: Helm says "release: not found" then, too."""
    try:
        yield
    except _NotInstalled as error:
        if revision is None:
            raise
        raise HelmError(
            f"revision {revision} of release '{release}' is not in Helm's history",
            remedy="Another Helm client has removed it (each keeps only the newest revisions: --history-max), or has "
            f"uninstalled the release. If a later revision is acceptable, roll back to it: helm history {release} -n "
            f"{namespace}. Otherwise, install the previous chart and values again: helm upgrade {release} CHART -n "
            f"{namespace} --reset-values -f VALUES",
        ) from error


def _read_pause(error: Exception) -> float | None:
    unreachable = isinstance(error, ApiUnavailable) and "x509" not in error.message
    return _READ_PAUSE_SECONDS if unreachable else None


def _revision(row: dict[str, Any]) -> Revision:
    return Revision(
        number=int(row["revision"]),
        status=row["status"],
        chart=row.get("chart", ""),
        description=row.get("description", ""),
        updated=_when(row.get("updated", "")),
    )


def _when(text: str) -> datetime | None:
    """Helm writes RFC 3339 with nanoseconds, which Python reads only since 3.11, and only to microseconds."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return None


def _translated(subject: _Subject, text: str) -> HelmError | ApiUnavailable:
    """Helm's stderr as an UpgraderError: the part from `Error:` on, as warnings precede it."""
    cause = text[max(text.rfind("Error: "), 0) :].strip().removeprefix("Error: ")
    cause = cause.removesuffix("Use --debug flag to render out invalid YAML").strip()
    if "another operation" in cause and "in progress" in cause:
        return ReleaseLocked(
            f"{subject.name} is stuck: {cause}",
            remedy=f"If no other Helm process is changing it, run `{subject.see}`, then `helm rollback` to "
            "the last revision that is 'superseded' or 'deployed'.",
        )
    if any(words in cause for words in _NO_KUBECONFIG):
        return ApiUnavailable(
            f"Helm can't use the kubeconfig for {subject.name}: {cause}",
            remedy="If the kubeconfig, or the client certificate that it names, is being renewed just now, try again "
            "in a minute. Otherwise check that its client certificate and key were issued together.",
        )
    of_the_api = _WEBHOOK_NOT_REACHED.sub("", cause)
    if any(words in of_the_api for words in _NOT_REACHED):
        return ApiUnavailable(
            f"Helm could not reach the API server for {subject.name}: {cause}",
            remedy="`upgrader recover --dry-run` finds the cause over SSH, without the API. If it finds no problem, "
            "check the kubeconfig's server address and the network route to it.",
        )
    return HelmError(f"Helm failed on {subject.name}: {cause}", remedy=f"See: {subject.see}")


def _environment() -> dict[str, str]:
    """The environment without variables that would point Helm to another cluster or user than its kubeconfig and
    context.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("HELM_KUBE")}
