"""Causes in kube-apiserver itself and in its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.model.finding import Finding, Severity
from upgrader.onhost.node.disk_layout import KUBE_APISERVER, Layout
from upgrader.onhost.node.generation_choice import best
from upgrader.onhost.sending.host_facts import Container, Endpoint, Generation, HostFacts, Unknown, Workload
from upgrader.recover.diagnosis.causes.cause import Cause, duration, last_words

__all__ = ["active_standby", "apiserver", "checkpoints"]

_STARTING_SECONDS = 30.0
_RECENT_SECONDS = 900.0
_SLACK_SECONDS = 5.0
_STORE = re.compile(r":2379|etcd|context deadline exceeded")


def apiserver(name: str, facts: HostFacts, explained: bool) -> Iterator[Cause]:
    """Why it doesn't serve, or what is wrong with it though it does. `explained`: a deeper cause was found."""
    serves = isinstance(facts.api, Endpoint) and facts.api.answers
    if isinstance(facts.containers, Unknown):
        if facts.runtime.answers:
            title = f"{name}: the containers of kube-apiserver can't be read"
            yield Cause(Finding("apiserver.unknown", "unknown", title, facts.containers.why))
        return
    recent = [c for c in facts.containers if _counts(c, facts)]
    crashed = _crashed(recent)
    for container in crashed:
        # Without etcd every instance ends like this: no news, once etcd was named.
        if not (explained and _STORE.search(last_words(container.log))):
            yield Cause(_exit(name, container, serves), explains=not serves)
    if serves or explained or crashed:
        return
    yield Cause(_absent(name, facts, recent), explains=True)


def _counts(container: Container, facts: HostFacts) -> bool:
    """What ended with the machine's power is no sign of what is wrong now."""
    if not isinstance(facts.booted, Unknown) and container.created < facts.booted - _SLACK_SECONDS:
        return False
    return container.state == "running" or facts.taken - container.created < _RECENT_SECONDS


def _crashed(recent: list[Container]) -> list[Container]:
    """The newest container of each name and pod, where it ended badly; one for each kind of instance."""
    newest: dict[tuple[str, str], Container] = {}
    for container in recent:
        newest.setdefault((container.pod, container.name), container)
    bad = [c for c in newest.values() if c.state == "exited" and c.exit_code and c.sandbox_ready]
    return list({(c.standby, c.name): c for c in reversed(bad)}.values())


def _exit(name: str, container: Container, serves: bool) -> Finding:
    which = "the standby pod of kube-apiserver" if container.standby else "kube-apiserver"
    part = "" if container.name == "kube-apiserver" else f", container {container.name},"
    ended = {"OOMKilled": "was killed for using more memory than its limit"}.get(
        container.reason, f"exits with {container.exit_code}"
    )
    words = last_words(container.log) or container.message
    again = f" ({container.attempt + 1} times so far)" if container.attempt else ""
    title = f"{name}: {which}{part} {ended}{f': {words}' if words else ''}{again}"
    detail = "\n".join((f"Pod {container.pod}, image {container.image}.", *container.log[-6:]))
    if "address already in use" in words:
        remedy = (
            "Another instance uses its port. Without --permit-port-sharing, a standby pod and kube-apiserver's own "
            "pod can't run at the same time."
        )
    elif container.standby:
        remedy = "An older generation may work; `upgrader recover` tries the next one."
    else:
        also = "; meanwhile, another instance serves the API" if serves else ""
        remedy = f"Run `upgrader recover`: it rolls the Helm release back to its last good revision{also}."
    return Finding("apiserver.exits", "error", title, detail, remedy)


_OF_ITS_POD = re.compile(r"kube-apiserver(?!-client)")
"""Not `kubernetes.io/kube-apiserver-client-kubelet`: whose certificate it asks for at an API that is away."""


def _absent(name: str, facts: HostFacts, recent: list[Container]) -> Finding:
    """Nothing deeper was found, and nothing crashed."""
    running = next((c for c in recent if c.name == "kube-apiserver" and c.state == "running"), None)
    answer = facts.api.said if isinstance(facts.api, Endpoint) else facts.api.why
    complaints = [line for line in facts.complaints if _OF_ITS_POD.search(line)]
    if running is not None:
        age = facts.taken - (running.started or running.created)
        which = "the standby pod of kube-apiserver" if running.standby else "kube-apiserver"
        title = f"{name}: {which} has been running for {duration(age)} without serving: {answer}"
        if age < _STARTING_SECONDS:
            return Finding("apiserver.starting", "warning", title, "It may still be starting.")
        return Finding("apiserver.not-ready", "error", title, "\n".join(running.log[-6:]))
    if complaints:
        title = f"{name}: the kubelet can't start kube-apiserver: {_complaint(complaints[-1])}"
        return Finding("apiserver.refused", "error", title, "\n".join(complaints[-3:]))
    since = "" if isinstance(facts.booted, Unknown) else f" (up for {duration(facts.taken - facts.booted)})"
    title = f"{name}: no kube-apiserver runs on this machine{since}: {answer}"
    why = "Without an API, the kubelet starts only static pods, and none of them is kube-apiserver."
    workload = facts.workload()
    if workload is not None and workload.active is not None:
        why = "The manifest of a standby pod is in place; the kubelet has not started it yet."
    return Finding("apiserver.absent", "error", title, why, "`upgrader recover` starts the last-known-good generation.")


def _complaint(line: str) -> str:
    """The kubelet's own error out of its log line."""
    found = re.search(r'err="(.+?)"(?: pod=|$)', line)
    return (found[1] if found else line).replace('\\"', '"').replace("\\", "")


def active_standby(name: str, facts: HostFacts) -> Iterator[Cause]:
    """A standby pod that is in place, and whether it can run at all."""
    workload = facts.workload()
    if workload is None or workload.active is None:
        return
    number = workload.active.number
    serves = isinstance(facts.api, Endpoint) and facts.api.answers
    generation = next((g for g in workload.generations if g.number == number), None)
    if generation is None:
        title = f"{name}: the active standby pod of kube-apiserver matches no generation"
        why = (
            f"{workload.active.path} differs from every generation's manifest: it was changed, or its generation was "
            "removed."
        )
        yield Cause(Finding("checkpoint.foreign", "warning", title, why))
    elif wrong := _unfit(generation):
        title = f"{name}: the active standby pod of kube-apiserver, generation {number}, can't be trusted: {wrong}"
        severity: Severity = "warning" if serves else "error"
        yield Cause(Finding("checkpoint.unfit", severity, title, "", _instead(workload)), explains=not serves)
    else:
        title = (
            f"{name}: a standby pod of kube-apiserver is active: generation {number}, captured at "
            f"{generation.captured_at}"
        )
        why = "It is deactivated once kube-apiserver's pod is Ready again."
        yield Cause(Finding("checkpoint.active", "info", title, why))


def _unfit(generation: Generation) -> str:
    """Why a generation can't be trusted to start; empty when it can."""
    if generation.damage:
        return f"it is damaged ({generation.damage})"
    if generation.has_images is False:
        return f"{_images(generation.missing)} not on this machine"
    return f"it has failed before ({generation.failure})" if generation.failed else ""


def _images(missing: tuple[str, ...] | Unknown) -> str:
    names = () if isinstance(missing, Unknown) else missing
    return f"image {names[0]} is" if len(names) == 1 else f"images {', '.join(names)} are"


def _instead(workload: Workload) -> str:
    good = workload.restorable
    return f"Generation {good.number} (of {good.captured_at}) is good." if good else "No other generation is good."


def checkpoints(name: str, facts: HostFacts) -> Iterator[Cause]:
    """Generations that can't be used; and whether any of kube-apiserver's can."""
    serves = isinstance(facts.api, Endpoint) and facts.api.answers
    if isinstance(facts.workloads, Unknown):
        title = f"{name}: the checkpoints can't be read"
        yield Cause(Finding("checkpoint.unknown", "unknown", title, facts.workloads.why))
        return
    for workload in facts.workloads:
        for generation in workload.generations:
            where = f"{name}: generation {generation.number} of {workload.name}"
            if generation.damage:
                title = f"{where} is damaged: {generation.damage}"
                yield Cause(Finding("checkpoint.damaged", "warning", title, generation.folder, _instead(workload)))
            elif generation.has_images is False:
                title = f"{where} can't be started: {_images(generation.missing)} not on this machine"
                remedy = f"{_instead(workload)} This generation is usable again once its image is on the machine."
                yield Cause(Finding("checkpoint.image-missing", "warning", title, "", remedy))
            elif generation.failed:
                title = f"{where} failed after it was started: {generation.failure}"
                severity: Severity = "info" if serves else "warning"
                yield Cause(Finding("checkpoint.failed", severity, title, generation.folder, _instead(workload)))
        if workload.trouble:
            title = f"{name}: the checkpoints of {workload.name} can't be read"
            yield Cause(Finding("checkpoint.unreadable", "unknown", title, workload.trouble))
        if workload.marks_unknown:
            title = f"{name}: it is unknown which generations of {workload.name}'s checkpoint have failed"
            yield Cause(Finding("checkpoint.marks-unknown", "unknown", title, workload.marks_unknown))
    found = facts.workload()
    if not serves and (found is None or found.restorable is None):
        yield _all_failed(name, found) if found is not None and _last_resort_failed(found) else _none(name, found)


def _last_resort_failed(found: Workload) -> bool:
    last_resort = best(found.generations)
    return last_resort is not None and last_resort.failed


def _all_failed(name: str, found: Workload) -> Cause:
    """A recovery starts none of them. One that is in place stays, as the last resort of the pod-checkpointer."""
    title = f"{name}: every usable checkpoint of kube-apiserver has failed before"
    why = "\n".join(f"Generation {g.number}: {g.failure}" for g in found.generations if g.intact and g.failed)
    remedy = (
        "Manual action required: find the cause (the findings above, or the last lines of "
        f"/var/log/pods/{KUBE_APISERVER.namespace}_{KUBE_APISERVER.name}*/*/*.log on {name}) and fix it. Then remove "
        f"{Layout().failed_path(KUBE_APISERVER)} there, which has only these failure marks, and run `upgrader recover` "
        "again."
    )
    return Cause(Finding("checkpoint.all-failed", "error", title, why, remedy), blocks=found.active is None)


def _none(name: str, found: Workload | None) -> Cause:
    """Why there is nothing to restore, and what to do about it."""
    title = f"{name}: no usable checkpoint of kube-apiserver"
    whole = [g for g in found.generations if g.intact] if found is not None else []
    if whole and not isinstance(whole[-1].missing, Unknown):
        images = " ".join(image.partition(" ")[0] for image in whole[-1].missing)
        why = f"Generation {whole[-1].number} is intact, but can't be started without its images."
        remedy = f"Import them on {name}: `ctr -n k8s.io images pull {images}`, or `ctr -n k8s.io images import FILE`."
        return Cause(Finding("checkpoint.none", "error", title, why, remedy), blocks=True)
    why = (
        "Every generation is damaged."
        if found is not None and found.generations
        else "This controller has never had one."
    )
    if found is not None and found.trouble:
        why = found.trouble
    remedy = (
        f"If `upgrader adopt` was used, kubeadm's manifests are in /etc/kubernetes/upgrader/adopted on {name}: move "
        "them to /etc/kubernetes/manifests. Otherwise: `kubeadm init phase control-plane apiserver`."
    )
    return Cause(Finding("checkpoint.none", "error", title, why, remedy), blocks=True)
