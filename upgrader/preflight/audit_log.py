"""With `--audit-log`: the clients in the audit log use no API that the target removes.

Kubernetes' own components are left out: each uses the APIs of its own version, and a run replaces them. Custom APIs
aren't judged. A client that sent nothing while the log was written isn't in it, nor is what the audit policy leaves
out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from upgrader.model.api_lifecycle import ApiLifecycle, replacement_at
from upgrader.model.audit_log import AuditLog, Requests, ending_apis, one_line
from upgrader.model.counted import counted
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext

__all__ = ["DAMAGED", "OTHER_CLUSTER", "check_audit_log", "check_clients", "check_log", "foreign_clients"]

OTHER_CLUSTER = "audit-log.other-cluster"
"""The finding that names nodes: those of another cluster."""
DAMAGED = "audit-log.damaged"
"""The finding that names files: those with lines that can't be read."""
_OWN = {
    "kubelet/": ("system:node:",),
    "kube-controller-manager/": ("system:kube-controller-manager", "system:serviceaccount:kube-system:"),
    "kube-scheduler/": ("system:kube-scheduler",),
    "kube-proxy/": ("system:kube-proxy", "system:serviceaccount:kube-system:kube-proxy"),
}
"""Kubernetes' own components: how their agents begin, and the names of their users."""
_APISERVER = "system:apiserver"
"""A kube-apiserver's own user, whatever its program is called."""
_SHOWN = 10
"""Clients that a finding names."""


def check_audit_log(context: PreflightContext) -> Iterator[Finding]:
    """The APIs that its clients use; nothing if no log was given."""
    if context.audit_log is not None:
        yield from check_clients(context.audit_log, context.served, context.nodes, context.observed.server)


def check_clients(
    log: AuditLog,
    target: KubernetesVersion,
    nodes: Collection[str] = (),
    current: KubernetesVersion | None = None,
) -> Iterator[Finding]:
    """The same without a cluster, whose nodes and present version aren't known then.

    Of an API that `current` doesn't serve, nothing is reported: its clients fail already.
    """
    yield from _of_another_cluster(log, nodes)
    yield from _damaged(log)
    clients = foreign_clients(log)
    deprecated: list[str] = []
    for (version, resource), group in groupby(sorted(clients, key=_api), key=_api):
        api, users = ending_apis()[version, resource], sorted(group, key=lambda each: -each.count)
        if current is not None and not api.served_by(current):
            continue
        if not api.served_by(target):
            yield _removed(api, users, target)
        elif api.deprecated_by(target):
            deprecated.append(f"{api}: {first_few([each.client for each in users])}")
    if deprecated:
        yield Finding(
            "audit-log.deprecated",
            "info",
            f"clients use APIs that {target} deprecates but still serves",
            "\n".join(deprecated),
        )
    yield from _extent(log)


def check_log(log: AuditLog, nodes: Collection[str]) -> Iterator[Finding]:
    """Whether it is of the cluster with these nodes, and could be read, and of which time it is."""
    yield from _of_another_cluster(log, nodes)
    yield from _damaged(log)
    yield from _extent(log)


def _of_another_cluster(log: AuditLog, nodes: Collection[str]) -> Iterator[Finding]:
    if nodes and log.nodes and log.nodes.isdisjoint(nodes):
        yield Finding(
            OTHER_CLUSTER,
            "error",
            "the audit log is from another cluster",
            f"Its kubelets run on {first_few(sorted(log.nodes))}; this cluster has none of these nodes.",
            "Pass the audit log of this cluster's kube-apiserver.",
        )


def _damaged(log: AuditLog) -> Iterator[Finding]:
    if log.damaged_lines:
        yield Finding(
            DAMAGED,
            "unknown",
            f"lines of the audit log that can't be read as events: {log.damaged_lines}",
            f"The first: {', '.join(log.damaged)}. It is unknown which clients sent these requests.",
            "Copy the files again. A file that several processes write to can also have such lines.",
        )


def _extent(log: AuditLog) -> Iterator[Finding]:
    if not log.answered:
        yield Finding(
            "audit-log.empty",
            "unknown",
            "the audit log has no completed request",
            f"It has {log.events} events. It is unknown which clients use which APIs.",
            "Check the audit policy: it needs a rule of level Metadata or higher, and must not omit the stage "
            "ResponseComplete. Or add older log files.",
        )
        return
    yield Finding(
        "audit-log.read",
        "info",
        f"the audit log has {log.events} events, from {_second(log.first)} to {_second(log.last)}",
        "Clients that sent no request in that time, and requests that the audit policy doesn't log, are not in it.",
    )


def _removed(api: ApiLifecycle, users: Sequence[Requests], target: KubernetesVersion) -> Finding:
    lines = [f"{each.client}: {one_line(', '.join(each.verbs))} ({_counted(each)})" for each in users[:_SHOWN]]
    more = [f"and {len(users) - _SHOWN} more"] if len(users) > _SHOWN else []
    replacement = replacement_at(api, target)
    return Finding(
        "audit-log.removed",
        "error",
        f"{counted(len(users), 'client')} of {api}, which {target} doesn't serve",
        "\n".join([*lines, *more, "Their requests fail once kube-apiserver is upgraded."]),
        f"Update them first, to versions that use {replacement}."
        if replacement
        else "Update or remove them first: nothing replaces this API.",
    )


def _counted(requests: Requests) -> str:
    if requests.count == 1:
        return f"1 request, at {_second(requests.last)}"
    return f"{counted(requests.count, 'request')}, the last at {_second(requests.last)}"


def _second(time: str) -> str:
    """Without fractions, which add nothing."""
    return f"{time.partition('.')[0]}Z" if "." in time else one_line(time) or "?"


def foreign_clients(log: AuditLog) -> list[Requests]:
    """Those that a run doesn't replace."""
    return [each for each in log.requests if not _own(each)]


def _own(requests: Requests) -> bool:
    """Whether it is a component that the run replaces, or of a skew that the target supports."""
    users = next((users for agent, users in _OWN.items() if requests.agent.startswith(agent)), ())
    return requests.user == _APISERVER or any(_is(requests.user, each) for each in users)


def _is(user: str, wanted: str) -> bool:
    return user.startswith(wanted) if wanted.endswith(":") else user == wanted


def _api(requests: Requests) -> tuple[str, str]:
    return requests.api_version, requests.resource
