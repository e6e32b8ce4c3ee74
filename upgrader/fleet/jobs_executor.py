"""Runs of clusters as Jobs on a management cluster, one for each attempt, in a namespace of the cluster's own.

A Job is known by its name, which is made from the campaign, the cluster and the attempt: so a coordinator that takes
over finds it. What the run reads goes with it in Secrets, which are removed at its end. How it ended is in its pod's
status, and in the cluster's journal, which is fetched from the cluster itself into the cluster folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

from upgrader.app.wiring import open_api
from upgrader.config.load import load_settings
from upgrader.config.yaml_document import typed
from upgrader.engine.history.journal_in_secrets import ClusterReplicas
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.history.run_discovery import bring_home, find_runs, with_remote_runs
from upgrader.errors import ApiError, ApiUnavailable, Blocked, CredentialsRefused, UpgraderError, UsageError
from upgrader.fleet.approved_copies import remove_copies
from upgrader.fleet.campaigns import INPUTS, KUBECONFIG
from upgrader.fleet.copies_in_secrets import MOST_BYTES, chunks_of
from upgrader.fleet.inputs import copy_approved
from upgrader.fleet.job_objects import (
    CONTAINER,
    JOBS,
    POD_COPIES,
    POD_KUBECONFIG,
    Attempt,
    digest_of,
    end_of,
    has_ended,
    job_of,
    last_line_time,
    namespace_of,
    newest_pod,
    secrets_of,
    waits_for,
)
from upgrader.fleet.job_watch import JobWatch
from upgrader.fleet.model import Fleet, JobSettings
from upgrader.fleet.outcomes import CommandEnd, Sign
from upgrader.fleet.unread_journals import Unread
from upgrader.gates.kubernetes_kinds import NAMESPACES, PODS, SECRETS
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.ports import Clock, Kube, KubeObject

__all__ = ["JobsExecutor", "fetch_journals", "way_out"]

_LOOK_SECONDS = 60.0
"""A Job of which the watch knows nothing is read at most so often."""
_SIGN_SECONDS = 300.0
"""A log is read at most so often."""
_LOG_LINES = 5
_SECONDS = 5.0
"""Of each request to a cluster whose journals are fetched."""
_ADMISSION = "Change what the error names on the management cluster, such as a ResourceQuota or an admission policy."
_APPROVED, _COPIES, _RESUME = "--approved-inputs", "--approved-copies", "--resume"


def fetch_journals(folder: Path, kubeconfig: Path) -> Unread:
    """Bring the journals that are in a cluster into its folder, where they say more than those there. Returns which
    can't be read, and why.
    """
    runs = folder / "runs"
    with KNOWN.apart():  # a team's credentials are masked in what is said of its cluster, and nowhere else
        try:
            with open_api(kubeconfig, _SECONDS) as kube:
                found = find_runs((ClusterReplicas(kube),))
            here = past_runs(runs)
            for run in with_remote_runs(here, found, runs):
                there = found.get(run.name) if run.place else None
                if there is not None:
                    bring_home(there, runs)
        except UpgraderError as error:
            return Unread(KNOWN.mask(error.message))
        known = {run.name for run in here if not run.problem and run.state.over}
        damaged = {run: KNOWN.mask(why) for run, why in found.damaged.items() if run not in known}
        place = (why for why in found.may_hide if why not in found.damaged.values())
        return Unread(KNOWN.mask("; ".join(place)), damaged)


@dataclass
class JobsExecutor:
    """Begins Jobs, and says how far they are. Its errors name the object of the management cluster, and the right that
    is missing.
    """

    kube: Kube
    """The management cluster."""
    watch: JobWatch
    """Of its Jobs."""
    settings: JobSettings
    fleet: Fleet
    pins: str
    """What the upgrader in the image has to be, as `pins_text`."""
    clock: Clock
    fetch: Callable[[Path, Path], Unread] = fetch_journals
    _looks: dict[Path, float] = field(default_factory=dict)
    """When a Job was known to run last, on the monotonic clock."""
    _signs: dict[Path, tuple[float, Sign]] = field(default_factory=dict)
    """The last sign of life, and when it was asked for."""
    _silence: tuple[float, str] | None = None
    """When it did not answer last, and what was said of that."""
    _sent: dict[Path, bytes] = field(default_factory=dict)
    """The kubeconfig that a Job has."""

    def check(self, known: str = "") -> str:
        """The management cluster's UID; `known` is of the one where the campaign's Jobs are, "" if there are none.

        Raises Blocked for another one, and where it is one of the fleet's: its upgrade would stop its own coordinator
        and Jobs. Raises UsageError for names of which there can't be a namespace, and if it doesn't answer.
        """
        for each in self.fleet.clusters:
            namespace_of(self.settings, each.name)
        with _of_hub():
            found = self.kube.get(NAMESPACES, "kube-system")
        uid = str(found["metadata"]["uid"]) if found else ""
        if not uid:
            raise UsageError("the management cluster has no namespace kube-system, whose UID identifies it")
        if known not in ("", uid):
            raise Blocked(
                f"the kubeconfig of the management cluster points to the cluster with the UID {uid}, but the "
                f"campaign's Jobs are on the cluster with the UID {known}",
                remedy=f"Use the kubeconfig of that cluster. {way_out(known)}",
            )
        for each in self.fleet.clusters:
            if each.uid == uid:
                raise Blocked(
                    f"cluster {each.name} is the management cluster itself: its upgrade would stop the Jobs of the "
                    "other clusters",
                    remedy="Name it in `exclude`, and upgrade it from another machine: upgrader run.",
                )
        return uid

    def prepare(self, attempt: Path, arguments: Sequence[str]) -> Callable[[], None]:
        """Pack what a Job of an attempt needs of its cluster's folder. What is returned creates the Job, unless there
        is one: if it isn't known whether it was created, `running` will tell. Both raise UsageError.
        """
        mine = self._attempt(attempt)
        folder = Path(os.path.realpath(self.fleet.by_name[mine.cluster].folder))
        chunks = self._chunks(attempt, folder, arguments)
        given = _in_pod(arguments, {"-C": str(folder), "--kubeconfig": POD_KUBECONFIG})
        job = job_of(mine, self.settings, folder, len(chunks), self.pins, given)
        return partial(self._start, attempt, mine, job, chunks)

    def _start(self, attempt: Path, mine: Attempt, job: KubeObject, chunks: Sequence[bytes]) -> None:
        kubeconfig = self._kubeconfig(attempt)
        try:
            with _of_hub():
                self._remove_secrets(mine.namespace, mine.cluster)
                for secret in secrets_of(mine, chunks, kubeconfig):
                    self.kube.apply(SECRETS, secret, mine.namespace)
                self._create(job, mine)
        except _HubSilent:
            return  # whether the Job is there can't be known now: a second one must not be begun beside it
        except UsageError:
            with suppress(UsageError), _of_hub():  # why there is no Job is what is to be told
                self._remove_secrets(mine.namespace, mine.cluster)
            raise
        self._sent[attempt] = kubeconfig
        self._looks[attempt] = self.clock.monotonic()

    def running(self, attempt: Path) -> bool:
        """Whether its Job has not ended, or a pod of a Job that was deleted still runs. Raises UsageError."""
        now, mine = self.clock.monotonic(), self._attempt(attempt)
        with _of_hub():
            ended = self.watch.ended(mine.campaign, mine.namespace, mine.name)
            if ended is None:
                if now - self._looks.get(attempt, -_LOOK_SECONDS) < _LOOK_SECONDS:
                    return True
                ended = not self._is_there(mine, now)
            if ended:
                self._looks.pop(attempt, None)
                return False
            self._renew(attempt, mine)
        self._looks[attempt] = now
        return True

    def _is_there(self, mine: Attempt, now: float) -> bool:
        """Whether its Job has not ended, or a pod of it lives; what doesn't answer for one isn't asked for another."""
        if self._silence is not None and now - self._silence[0] < _LOOK_SECONDS:
            raise _HubSilent(self._silence[1])
        try:
            with _of_hub():
                job = self.kube.get(JOBS, mine.name, mine.namespace)
                there = any(map(_lives, self._pods(mine))) if job is None else not has_ended(job)
        except _HubSilent as error:
            self._silence = now, error.message
            raise
        self._silence = None
        return there

    def sign(self, attempt: Path) -> Sign:
        """When it has written something last, and what it is. Raises UsageError if that can't be read."""
        now, mine = self.clock.monotonic(), self._attempt(attempt)
        known = self._signs.get(attempt)
        if known is not None and now - known[0] < _SIGN_SECONDS:
            return known[1]
        with _of_hub():
            pod = newest_pod(self._pods(mine))
            waiting, time = waits_for(pod), None
            terminating = pod is not None and "deletionTimestamp" in pod["metadata"]
            if pod is not None and not waiting and not terminating:
                name = pod["metadata"]["name"]
                time = last_line_time(self.kube.logs(mine.namespace, name, CONTAINER, lines=_LOG_LINES))
        if pod is not None and terminating:
            sign = _terminating(mine, pod, known[1].time if known else None)
            self._signs[attempt] = now, sign
            return sign
        shown = f"{mine.shown} ({waiting})" if waiting else mine.shown
        kubectl = f"kubectl -n {mine.namespace}"
        log, to_end = f"its log ({kubectl} logs job/{mine.name})", f"delete it ({kubectl} delete job {mine.name})"
        sign = Sign(shown, time, log, to_end)
        self._signs[attempt] = now, sign
        return sign

    def end(self, attempt: Path) -> CommandEnd | None:
        """How an attempt ended that isn't running: by its pod; None if it couldn't say, or its Job is gone. Brings the
        cluster's journals into its folder, and removes the attempt's Secrets. Raises UsageError if the management
        cluster doesn't say, or neither the pod nor the journals do: a run in the middle is none that never began. A pod
        that names no run says nothing of one in the middle, whatever its exit code: it may have been to resume it, or
        have failed to write its end; an earlier pod of its Job, which a drain has deleted, may have begun it.
        """
        mine = self._attempt(attempt)
        folder = self.fleet.by_name[mine.cluster].folder
        with _of_hub():
            pod = newest_pod(self._pods(mine))
            end = end_of(pod) if pod else None
            found = self.fetch(folder, attempt.with_name(KUBECONFIG))
            unread = found.since(end.run if end else "")
            if unread and (end is None or not end.run):
                raise UsageError(
                    "it is unknown whether the run succeeded: its pod is gone or didn't report its run, and the "
                    f"cluster's journals can't be read: {unread}. Each `upgrader fleet run` reads them again. If an "
                    f"upgrade has stopped the API: upgrader -C {typed(folder)} {self.fleet.goal.to_end}. If the "
                    "cluster is permanently gone, name it in `exclude`: upgrader fleet run --new"
                )
            self._remove_secrets(mine.namespace, mine.cluster)
        for known in (self._looks, self._signs, self._sent):
            known.pop(attempt, None)
        return replace(end, unread=unread, began=self.watch.began(mine.namespace, mine.name)) if end else None

    def _attempt(self, attempt: Path) -> Attempt:
        """`runs/CAMPAIGN/clusters/CLUSTER/NUMBER`."""
        cluster = attempt.parent.name
        return Attempt(attempt.parents[2].name, cluster, int(attempt.name), namespace_of(self.settings, cluster))

    def _chunks(self, attempt: Path, folder: Path, arguments: Sequence[str]) -> tuple[bytes, ...]:
        if load_settings(folder, {}).backup.recipients:
            raise UsageError(
                f"{folder / 'upgrader.yaml'} sets backup.recipients, but a Job's backup would be lost with its pod",
                remedy="Take backups with `upgrader backup`, and leave `backup.recipients` empty; or use --executor "
                "local.",
            )
        copies, approved = attempt.with_name(INPUTS), arguments[arguments.index(_APPROVED) + 1]
        try:
            made = copy_approved(folder, copies, approved, MOST_BYTES)
            if made is None:
                raise UsageError(
                    f"{folder} changed just now, and no longer matches what was approved",
                    remedy="Restore it, or approve the change: upgrader fleet approve --changes CLUSTER --reason TEXT",
                )
            chunks = chunks_of(made, POD_COPIES)
            remove_copies(made)
        except OSError as error:
            raise UsageError(f"{copies} can't be read or removed: {error.strerror}") from error
        return chunks

    @staticmethod
    def _kubeconfig(attempt: Path) -> bytes:
        """What the coordinator has copied of the cluster's kubeconfig, and renews while the attempt runs."""
        path = attempt.with_name(KUBECONFIG)
        try:
            return path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}") from error

    def _create(self, job: KubeObject, mine: Attempt) -> None:
        try:
            self.kube.create(JOBS, job, mine.namespace)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            there = self.kube.get(JOBS, mine.name, mine.namespace)
            if there is None or digest_of(there) != digest_of(job):
                raise UsageError(
                    f"{mine.shown} already exists, with different content",
                    remedy=f"Find out who created it: kubectl -n {mine.namespace} get job {mine.name} -o yaml. Delete "
                    "it when it has no running pod.",
                ) from error

    def _renew(self, attempt: Path, mine: Attempt) -> None:
        """Hand a Job the credentials that the coordinator has now; the kubelet brings them to its pod."""
        if not attempt.with_name(KUBECONFIG).exists():  # it was left without by a coordinator that was killed
            return
        content = self._kubeconfig(attempt)
        if content != self._sent.get(attempt):
            self.kube.apply(SECRETS, secrets_of(mine, (), content)[0], mine.namespace)
            self._sent[attempt] = content

    def _remove_secrets(self, namespace: str, cluster: str) -> None:
        """Those of earlier attempts too: a coordinator that was killed could not."""
        found = self.kube.each(SECRETS, namespace, labels=f"upgrader.io/cluster={cluster}", metadata_only=True)
        for name in [each["metadata"]["name"] for each in found]:
            self.kube.delete(SECRETS, name, namespace)

    def _pods(self, mine: Attempt) -> tuple[KubeObject, ...]:
        return self.kube.list(PODS, mine.namespace, labels=f"upgrader.io/attempt={mine.name}")


def way_out(hub: str) -> str:
    """What helps if the management cluster with this UID is lost."""
    return (
        "If it is permanently gone, and none of its nodes runs a pod, confirm that, and use another one: upgrader "
        f"fleet jobs-gone {hub} --reason TEXT"
    )


def _lives(pod: KubeObject) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _terminating(mine: Attempt, pod: KubeObject, time: datetime | None) -> Sign:
    """Of an attempt whose pod is being deleted. If its node is lost, the pod stays, also without its Job, and its log
    can't be read: `time` is when it was known to have written something last.
    """
    name, node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName") or "of the pod"
    return Sign(
        f"{mine.shown} (pod {name} is terminating)",
        time,
        f"node {node}",
        f"start node {node} again; or, only once it is certain that this node is off, delete the pod (kubectl -n "
        f"{mine.namespace} delete pod {name} --force)",
    )


def _in_pod(arguments: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Arguments with other values. The copies are made already, and a Job's second pod resumes what its first began."""
    given: list[str] = []
    pairs = iter(arguments)
    for each in pairs:
        if each == _COPIES:
            next(pairs)
        elif each in values:
            given += [each, values[each]]
            next(pairs)
        elif each != _RESUME:
            given.append(each)
    return [*given, _RESUME]


class _HubSilent(UsageError):
    """The management cluster has not answered, or doesn't take the coordinator's credentials."""


@contextmanager
def _of_hub() -> Iterator[None]:
    try:
        yield
    except CredentialsRefused as error:
        # They are no cluster's fault, either: their file is read again. An `unknown` run is named without the remedy.
        raise _HubSilent(
            f"the management cluster: {error.message}; replace the credentials in its kubeconfig (`jobs.kubeconfig`)",
            remedy="Replace them: the kubeconfig is read again every minute.",
        ) from error
    except ApiError as error:
        silent = isinstance(error, ApiUnavailable) or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        remedy = _ADMISSION if error.status == HTTPStatus.FORBIDDEN else error.remedy
        raise (_HubSilent if silent else UsageError)(
            f"the management cluster: {error.message}",
            remedy="Grant the coordinator the rights in the chart `fleet`." if error.lacks_right else remedy,
        ) from error
