"""Tries the planned programs: makes the pods, waits for each, and removes them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from upgrader.errors import ApiError
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.pod_placement import may_run_on
from upgrader.ports import Clock, Kind, Kube, KubeObject
from upgrader.steps.trial.files import wanted_files
from upgrader.steps.trial.findings import Tried, findings_of
from upgrader.steps.trial.pod import LABELS, TrialPod, manifest, metadata
from upgrader.steps.trial.programs import FileObject, PlannedProgram
from upgrader.steps.trial.reading import CONTAINER, Reading, last_words, reading
from upgrader.wait_and_retry import may_be_repeated, retry, wait_until

__all__ = ["Trial", "remove_left"]

_PODS = Kind("v1", "pods")
_NODES = Kind("v1", "nodes", namespaced=False)
_EVENTS = Kind("v1", "events")
_SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts")
_OF_FILES: Mapping[str, Kind] = {"ConfigMap": Kind("v1", "configmaps"), "Secret": Kind("v1", "secrets")}
_SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())

_SECONDS = 120.0
"""For all programs on all controllers. A program takes 3 s; the rest is for kubelets that are slow."""
_LEFT_BEHIND_SECONDS = 60.0
"""How much longer a pod may live than it is waited for: its kubelet would hide what became of it."""
_CREATE_SECONDS, _RETRY_SECONDS = 20.0, 2.0
_REMOVE_SECONDS = 30.0
"""For all that is removed at once: an API that is away for a moment must not leave a copy of a Secret for months."""
_LOG_LINES = 80


@dataclass(frozen=True)
class Trial:
    """Each program on each controller that may run it, all at once. Leaves nothing behind."""

    kube: Kube
    clock: Clock
    controllers: tuple[Host, ...]

    def run(self, programs: tuple[PlannedProgram, ...], note: Callable[[str], None]) -> tuple[Finding, ...]:
        """The reasons not to start the programs. Raises ApiError if the API can't be reached at all."""
        remove_left(self.kube, self.clock, note, {program.namespace for program in programs})
        nodes = [node for host in self.controllers if (node := self.kube.get(_NODES, host.name)) is not None]
        made: dict[tuple[str, FileObject], str] = {}
        pods: list[TrialPod] = []
        running: dict[str, TrialPod] = {}
        tried: list[Tried] = []
        try:
            for program in programs:
                ready = [str(node["metadata"]["name"]) for node in nodes if _may_try(program, node)]
                if not ready:
                    note(f"{program.command}: no Ready controller matches it, so it is not tested")
                for name in ready:
                    pod = TrialPod(f"upgrader-trial-{secrets.token_hex(4)}", name, program)
                    pods.append(pod)
                    refused = self._create(pod, made, note)
                    if refused:
                        tried.append((program, name, Reading("unknown", refused)))
                    else:
                        running[pod.name] = pod
            tried += self._wait(running, note)
        finally:
            self._remove(made, pods, note)
        read = sum(reading.state == "read" for _, _, reading in tried)
        note(f"{read} of {len(tried)} programs have read their flags and files")
        return tuple(findings_of(tried))

    def _create(self, pod: TrialPod, made: dict[tuple[str, FileObject], str], note: Callable[[str], None]) -> str:
        """Why the pod, or what it mounts, could not be created; "" where it was."""
        program, seconds = pod.program, _SECONDS + _LEFT_BEHIND_SECONDS
        try:
            for each in sorted(wanted_files(program, manifest(pod, {}, seconds=seconds)["spec"])):
                if (program.namespace, each) not in made:
                    name = f"upgrader-trial-{secrets.token_hex(4)}"
                    made[program.namespace, each] = name
                    content = {key: program.brought[each][key] for key in _CONTENT if key in program.brought[each]}
                    self._create_one(
                        _OF_FILES[each[0]],
                        {"apiVersion": "v1", "kind": each[0], "metadata": metadata(name), **content},
                        program.namespace,
                        note,
                    )
            copies = {each: name for (namespace, each), name in made.items() if namespace == program.namespace}
            pull_secrets = self._pull_secrets(program)
            item = manifest(pod, copies, seconds=seconds, pull_secrets=pull_secrets)
            self._create_one(_PODS, item, program.namespace, note)
        except ApiError as error:
            return f"its pod could not be created: {error.message}"
        return ""

    def _pull_secrets(self, program: PlannedProgram) -> Sequence[Mapping[str, Any]]:
        """What admission gives a pod of the planned ServiceAccount: a trial's pod is one of `default`, without a token.

        With AlwaysPullImages, and from kubelets v1.35 on, an image that is on the node is no one's without them.
        """
        account = program.command.pod.get("serviceAccountName") or program.command.pod.get("serviceAccount")
        if not account:
            return ()
        try:
            found = self.kube.get(_SERVICE_ACCOUNTS, str(account), program.namespace)
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return ()
        return tuple((found or {}).get("imagePullSecrets") or ())

    def _create_one(self, kind: Kind, item: KubeObject, namespace: str, note: Callable[[str], None]) -> None:
        def create() -> None:
            try:
                self.kube.create(kind, item, namespace)
            except ApiError as error:
                # Created by an attempt whose answer was lost.
                if (
                    error.status != HTTPStatus.CONFLICT
                    or self.kube.get(kind, item["metadata"]["name"], namespace) is None
                ):
                    raise

        what = f"the API to create {kind.plural} {namespace}/{item['metadata']['name']}"
        retry(self.clock, create, pause=_pause, seconds=_CREATE_SECONDS, what=what, note=note)

    def _wait(self, running: Mapping[str, TrialPod], note: Callable[[str], None]) -> Iterator[Tried]:
        """What became of each; what is not known by the deadline is unknown."""
        last = {name: Reading("waiting", "its pod was not found") for name in running}

        def waited_for() -> str:
            for name, pod in running.items():
                if last[name].state == "waiting":
                    last[name] = self._read(pod)
            return ", ".join(name for name, each in last.items() if each.state == "waiting")

        wait_until(self.clock, waited_for, seconds=_SECONDS, what="the trial pods", note=note)
        for name, pod in running.items():
            each = last[name]
            if each.state == "waiting":
                each = Reading("unknown", f"after {_SECONDS:.0f} s: {each.words}{self._warnings(pod)}")
            yield pod.program, pod.node, each

    def _read(self, pod: TrialPod) -> Reading:
        namespace = pod.program.namespace
        found = self.kube.get(_PODS, pod.name, namespace)
        if found is None:
            return Reading("unknown", f"its pod {namespace}/{pod.name} was deleted")
        return reading(
            pod.program.command.component,
            found,
            lambda: self.kube.logs(namespace, pod.name, CONTAINER, lines=_LOG_LINES),
        )

    def _warnings(self, pod: TrialPod) -> str:
        """What the kubelet says of a pod that doesn't start, such as a volume that isn't there."""
        try:
            events = self.kube.list(_EVENTS, pod.program.namespace, fields=f"involvedObject.name={pod.name}")
        except ApiError as error:
            return f"\n  its events could not be read: {error.message}"
        texts = dict.fromkeys(str(item.get("message")) for item in events if item.get("type") == "Warning")
        return "".join(f"\n  {last_words(text)}" for text in list(texts)[-3:])

    def _remove(
        self,
        made: Mapping[tuple[str, FileObject], str],
        pods: Iterable[TrialPod],
        note: Callable[[str], None],
    ) -> None:
        created = [(_PODS, pod.program.namespace, pod.name) for pod in pods]
        created += [(_OF_FILES[kind], namespace, name) for (namespace, (kind, _)), name in made.items()]
        _remove(self.kube, self.clock, created, note)


_CONTENT = ("data", "stringData", "binaryData")


def remove_left(kube: Kube, clock: Clock, note: Callable[[str], None], namespaces: Collection[str] = ()) -> None:
    """Remove what an interrupted run left: everywhere, or in these namespaces, where no more may be read. Raises
    ApiError.
    """
    for kind in (_PODS, *_OF_FILES.values()):
        found = [item["metadata"] for item in _left(kube, kind, namespaces)]
        _remove(kube, clock, [(kind, each["namespace"], each["name"]) for each in found], note)


def _left(kube: Kube, kind: Kind, namespaces: Collection[str]) -> tuple[KubeObject, ...]:
    try:
        return kube.list(kind, labels=_SELECTOR)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return tuple(item for namespace in sorted(namespaces) for item in kube.list(kind, namespace, labels=_SELECTOR))


def _remove(kube: Kube, clock: Clock, objects: Iterable[tuple[Kind, str, str]], note: Callable[[str], None]) -> None:
    """Each (kind, namespace, name)."""
    deadline = clock.monotonic() + _REMOVE_SECONDS
    for kind, namespace, name in objects:
        try:
            delete = partial(kube.delete, kind, name, namespace)
            what = f"the API to delete {kind.plural} {namespace}/{name}"
            retry(clock, delete, pause=_pause, seconds=deadline - clock.monotonic(), what=what, note=note)
        except ApiError as error:
            note(f"{kind.plural} {namespace}/{name} could not be deleted; the next run deletes it: {error.message}")


def _may_try(program: PlannedProgram, node: KubeObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and may_run_on(program.command.pod, node)


def _pause(error: Exception) -> float | None:
    return _RETRY_SECONDS if may_be_repeated(error) else None
