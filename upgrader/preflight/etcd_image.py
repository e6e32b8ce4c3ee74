"""etcd's members can change to the planned image: it isn't older, skips no minor, and etcd tolerates each restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upgrader.model.etcd_upgrades import Precondition, preconditions_of, removed_on_the_way
from upgrader.model.etcd_version import OLDEST_ETCD, EtcdVersion
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.onhost.sending.host_facts import EtcdServer, Member, Unknown
from upgrader.preflight.context import PreflightContext
from upgrader.steps.etcd.plan import PlannedEtcd
from upgrader.steps.plan import planned_of

__all__ = ["check_etcd_image"]

_DOCS = "docs/etcd.md"


def check_etcd_image(context: PreflightContext) -> Iterator[Finding]:
    """Nothing where upgrader.yaml has no section `etcd`, or all members have the image."""
    step = next(iter(planned_of(context.plan, PlannedEtcd)), None)
    if step is None:
        return
    unread = [name for name, facts in context.facts.items() if facts.has_etcd and name not in context.observed.etcd]
    if unread:
        yield Finding(
            "etcd-image.unread",
            "unknown",
            f"etcd's image can't be read from its manifest on {first_few(unread)}",
            "The manifest must have kubeadm's format: one container `etcd` with one image, each on its own line.",
            "Compare /etc/kubernetes/manifests/etcd.yaml there with what `kubeadm init phase etcd local` writes.",
        )
    if not step.of and not unread:
        yield _elsewhere()
    if not step.members:
        return
    strangers = [m.node for m in step.members if m.node not in context.controllers]
    if strangers:
        yield Finding(
            "etcd-image.unlisted",
            "error",
            f"{first_few(strangers)}: runs a member of etcd, but is not in the group `controllers` of the inventory",
            "upgrader can't change its manifest, or tell whether etcd tolerates its restart.",
            "Add it to the group `controllers` of the inventory, by the name of its node.",
        )
    # Why a controller can't be examined is another finding; so is a member that doesn't answer.
    servers = {
        name: facts.etcd.server
        for name, facts in context.facts.items()
        if facts.has_etcd and isinstance(facts.etcd.server, EtcdServer)
    }
    yield from _versions(step, servers)
    yield from _preconditions(step, servers)
    yield from _removed_flags(context, step, servers)
    yield from _spare(step, servers)
    if step.new_minor:
        yield Finding(
            "etcd-image.no-return",
            "info",
            f"once all members run etcd {step.settings.version}, etcd can't be downgraded to the previous minor",
            "After that, the older etcd rejects the data. A rollback leaves etcd as it is: older kube-apiservers "
            "work with the newer etcd. Only a backup can restore the old version.",
            f"See {_DOCS}.",
        )


def _elsewhere() -> Finding:
    return Finding(
        "etcd-image.elsewhere",
        "error",
        "upgrader.yaml has a section `etcd`, but no controller has /etc/kubernetes/manifests/etcd.yaml",
        "upgrader only upgrades etcd members made by kubeadm, in that file; another `staticPodPath` isn't supported.",
        "Remove the section, and upgrade etcd with its own tools: https://etcd.io/docs/latest/upgrades/",
    )


def _versions(step: PlannedEtcd, servers: Mapping[str, EtcdServer]) -> Iterator[Finding]:
    planned = step.settings.version
    if planned < OLDEST_ETCD:
        yield Finding(
            "etcd-image.too-old",
            "error",
            f"etcd {planned} is older than {OLDEST_ETCD}, the oldest one that Kubernetes' own tools support",
            "That version can return wrong data after some failures.",
            "Set etcd.image in upgrader.yaml to a newer image.",
        )
    found = {name: EtcdVersion.parse(server.version) for name, server in servers.items() if server.version}
    newer = {name: version for name, version in found.items() if version > planned}
    if newer:
        yield Finding(
            "etcd-image.older",
            "error",
            f"etcd {planned} is older than the running version: {_shown(newer)}",
            "An older etcd might not be able to read the data.",
            "Set etcd.image in upgrader.yaml to a newer image.",
        )
    behind = {name: version for name, version in found.items() if planned.minors_after(version) > 1}
    if behind:
        yield Finding(
            "etcd-image.skips-minor",
            "error",
            f"etcd {planned} is more than one minor ahead of the running version: {_shown(behind)}",
            "etcd members are only compatible across one minor version.",
            "Upgrade through each minor in between, in a separate run.",
        )


def _preconditions(step: PlannedEtcd, servers: Mapping[str, EtcdServer]) -> Iterator[Finding]:
    """Upstream's own, for the way to the next minor: the most severe one that any member doesn't meet."""
    planned, unmet = step.settings.version, dict[Precondition, dict[str, EtcdVersion]]()
    for name, server in servers.items():
        if server.version:
            runs = EtcdVersion.parse(server.version)
            for each in preconditions_of(runs, planned):
                unmet.setdefault(each, {})[name] = runs
    if not unmet:
        return
    worst = min(unmet, key=lambda each: each.severity != "error")
    least = max(each.least for each in unmet)
    yield Finding(
        "etcd-image.precondition",
        "error" if worst.severity == "error" else "warning",
        f"etcd {planned} requires that every member runs {worst.least} or later: {_shown(unmet[worst])} doesn't",
        f"{worst.why} {worst.source}",
        f"First set etcd.image in upgrader.yaml to {least} or a later patch of that minor, and run that upgrade.",
    )


def _removed_flags(
    context: PreflightContext, step: PlannedEtcd, servers: Mapping[str, EtcdServer]
) -> Iterator[Finding]:
    for name, server in servers.items():
        flags = context.facts[name].etcd.flags
        runs = EtcdVersion.parse(server.version) if server.version else step.settings.version
        removed = list(removed_on_the_way(flags, runs, step.settings.version))
        if removed:
            yield Finding(
                "etcd-image.removed-flags",
                "error",
                f"{name}: etcd {step.settings.version} doesn't start with these flags in its manifest: "
                f"{first_few(list(map(str, removed)))}",
                f"etcd {removed[-1].minor} has removed them. {removed[-1].source}",
                "Replace or remove them in /etc/kubernetes/manifests/etcd.yaml, one controller at a time: the running "
                "etcd already supports the replacements. Do the same in kubeadm's ClusterConfiguration "
                "(etcd.local.extraArgs).",
            )


def _spare(step: PlannedEtcd, servers: Mapping[str, EtcdServer]) -> Iterator[Finding]:
    lists = [server.members for server in servers.values() if not isinstance(server.members, Unknown)]
    members: tuple[Member, ...] = max(lists, key=len, default=())
    learners = [member.name or member.id for member in members if member.learner]
    healthy = sum(any(s.healthy and s.id == member.id for s in servers.values()) for member in members)
    if learners or (members and healthy < step.of):
        what = f"{first_few(learners)} is still a learner" if learners else f"{healthy} of {step.of} are healthy"
        yield Finding(
            "etcd-image.not-ready",
            "error",
            f"etcd doesn't tolerate the restart of a member: {what}",
            "Members are restarted one at a time, and only while all are healthy.",
            "Repair etcd first, or wait until the learner is promoted; then run `upgrader check`.",
        )
    if 0 < len(members) <= 2:
        yield Finding(
            "etcd-image.no-spare",
            "info",
            f"etcd has {len(members)} member{'s' * (len(members) > 1)}: the API is unavailable while one restarts",
            "Requests wait or fail for a few seconds. Pods keep running.",
            "With three members, the API stays available on the other controllers.",
        )


def _shown(versions: Mapping[str, EtcdVersion]) -> str:
    return first_few([f"{name} ({version})" for name, version in sorted(versions.items())])
