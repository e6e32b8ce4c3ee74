"""The running and the planned kube-apiserver of a plan, as a rehearsal starts them."""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from upgrader.contract.variables import seen_words
from upgrader.errors import UsageError
from upgrader.model.host_path import on_node
from upgrader.model.image_name import full_name
from upgrader.model.manifest import objects_in
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.rehearsal.differences import Difference
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.planned_commands import PlannedCommand, commands_of

__all__ = ["CHANGED_FLAGS", "Server", "kept_elsewhere", "servers_of"]

_API_SERVER = "kube-apiserver"
_ADMISSION = "admission-control-config-file"
_ENABLED = "enable-admission-plugins"
_ALL_ENABLED = "admission-control"
"""Deprecated: all plugins that run. kube-apiserver refuses to start with one of the two other lists beside it."""
_CALLING = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
"""Admission plugins that would call others. Without them, the webhooks' configurations are objects like all others."""
_CALLING_IF_ENABLED = "ImagePolicyWebhook"
"""One more, which is off by default, and of which the kubeconfig may name a program to run. A list of disabled plugins
can't have it, as a version without it would not start.
"""
_ENCRYPTION = "encryption-provider-config"
_ETCD_PREFIX = "etcd-prefix"
_SIGNER = "service-account-signing-endpoint"
_OVERRIDES = "etcd-servers-overrides"
_EXPIRING = ("events", "events.events.k8s.io")
"""Which nothing is to be known of: they are gone after an hour, and are what most clusters keep elsewhere."""
_KEPT = frozenset(
    {
        _ADMISSION,
        _ALL_ENABLED,
        "allow-privileged",
        "api-audiences",
        "default-not-ready-toleration-seconds",
        "default-unreachable-toleration-seconds",
        "disable-admission-plugins",
        "emulated-version",
        "emulation-forward-compatible",
        _ENABLED,
        _ENCRYPTION,
        _ETCD_PREFIX,
        "feature-gates",
        "min-compatibility-version",
        "runtime-config",
        "runtime-config-emulation-forward-compatible",
        "service-account-issuer",
        "service-account-key-file",
        "service-account-max-token-expiration",
        "service-account-signing-key-file",
        "service-cluster-ip-range",
        "service-node-port-range",
        "storage-media-type",
    }
)
"""The flags that decide what becomes of objects. No other is passed: some name sockets, servers, or files to write."""
_DISABLED = f"--disable-admission-plugins={','.join(_CALLING)}"
CHANGED_FLAGS = (
    "--authorization-mode=RBAC",
    _DISABLED,
    "--enable-priority-and-fairness=false",
    "--etcd-compaction-interval=0",  # by default, a list that takes over five minutes can't be continued
    "--endpoint-reconciler-type=none",
    "--watch-cache=false",  # it would hold all objects in memory, once for each version
)
_NOWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}
"""Addresses for documentation: one must be advertised, of the Services' family."""


@dataclass(frozen=True)
class Server:
    """A kube-apiserver: its image, its flags with the controller's paths, and `encryption`, the paths of its keys."""

    image: str
    flags: tuple[str, ...]
    encryption: tuple[str, ...]
    prefix: str
    """Of its keys in etcd."""
    elsewhere: tuple[str, ...] = ()
    """Names of resources that it keeps in another etcd, of which there is no copy."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths that its flags name."""
        return tuple(path for path in map(_path, self.flags) if path)

    @property
    def admission(self) -> tuple[str, ...]:
        """Those of them that configure admission."""
        return tuple(_path(flag) for flag in self.flags if flag.startswith(f"--{_ADMISSION}="))

    def below(self, folder: str) -> Server:
        """The same one, with its files below a folder."""
        flags = (flag.partition("=")[0] + "=" + folder + _path(flag) if _path(flag) else flag for flag in self.flags)
        return replace(self, flags=tuple(flags), encryption=tuple(folder + path for path in self.encryption))


def _path(flag: str) -> str:
    """The path that a flag names, with the controller's paths; "" if it names none."""
    name, _, value = flag.removeprefix("--").partition("=")
    return value if _is_path(name, value) else ""


def _is_path(name: str, value: str) -> bool:
    """Whether a flag's value is a path on the host."""
    return value.startswith("/") and name != _ETCD_PREFIX


def servers_of(plan: Plan) -> dict[str, Server]:
    """`current` and `target`. Raises UsageError where the plan starts no other kube-apiserver, or one of which a file
    is not on the controllers' disks.
    """
    for release in planned_of(plan, PlannedRelease):
        if release.action != "unchanged":
            before = _commands(release, release.before, plan)
            after = _commands(release, release.after, plan)
            for workload, target in after.items():
                if workload in before:
                    return {"current": _server(before[workload]), "target": _server(target)}
    raise UsageError(
        f"the plan for {plan.target} changes no running kube-apiserver: there is nothing to rehearse",
        remedy="Choose another version: --to",
    )


def kept_elsewhere(servers: Mapping[str, Server]) -> Iterator[Difference]:
    """Each resource of which a version keeps the objects in another etcd."""
    for resource in dict.fromkeys(each for server in servers.values() for each in server.elsewhere):
        yield Difference("elsewhere", resource, "", 0, ())


def _commands(release: PlannedRelease, rendered: str, plan: Plan) -> dict[str, PlannedCommand]:
    return {
        workload: command
        for workload, item in objects_in(rendered).items()
        for command in commands_of(release, workload, item, plan.target)
        if command.component == _API_SERVER and command.arguments is not None
    }


def _server(command: PlannedCommand) -> Server:
    if any(value for _, value in _seen(command, (_SIGNER,))):
        # Neither would it start without a key, nor may a copy ask the signer of the real cluster.
        raise UsageError(
            f"{command}: another program signs its tokens (--{_SIGNER}), so it can't be rehearsed",
            remedy="Nothing was started. Try the target on a test cluster with a signer of its own.",
        )
    given = [(name, _uncalling(name, value)) for name, value in _seen(command, _KEPT)]
    on_disk = [(name, _on_disk(command, name, value)) for name, value in given]
    changed = [flag for flag in CHANGED_FLAGS if flag != _DISABLED or _ALL_ENABLED not in dict(given)]
    ranges = [value for name, value in given if name == "service-cluster-ip-range"]
    family = ipaddress.ip_network(ranges[-1].partition(",")[0], strict=False).version if ranges else 4
    return Server(
        full_name(str(command.found.get("image"))),
        (*(f"--{name}={value}" for name, value in on_disk), *changed, f"--advertise-address={_NOWHERE[family]}"),
        tuple(value for name, value in on_disk if name == _ENCRYPTION),
        _prefix(dict(given).get(_ETCD_PREFIX, "/registry")),
        tuple(each for _, value in _seen(command, (_OVERRIDES,)) for each in _overridden(value)),
    )


def _seen(command: PlannedCommand, names: Container[str]) -> list[tuple[str, str]]:
    """Those of its flags that have one of the names, with their values as the program sees them."""
    kept = [(each.name, each.value) for each in command.flags or () if each.name in names and not each.letter]
    seen = seen_words(["true" if value is None else value for _, value in kept], command.found)
    return [(name, value) for (name, _), value in zip(kept, seen, strict=True)]


def _overridden(value: str) -> Iterator[str]:
    """Names of the resources in a list of `GROUP/RESOURCE#SERVERS`, without those that expire."""
    for each in value.split(","):
        group, _, plural = each.partition("#")[0].strip().partition("/")
        name = f"{plural}.{group}" if group else plural
        if plural and name not in _EXPIRING:
            yield name


def _uncalling(name: str, value: str) -> str:
    """A flag's value without the plugins that call others: kube-apiserver refuses to start with one in both lists."""
    if name not in (_ENABLED, _ALL_ENABLED):
        return value
    return ",".join(each for each in value.split(",") if each.strip() not in (*_CALLING, _CALLING_IF_ENABLED))


def _prefix(value: str) -> str:
    """As etcd's keys begin for kube-apiserver, which takes a prefix without a slash for one with it."""
    stripped = value.strip("/")
    return f"/{stripped}" if stripped else ""


def _on_disk(command: PlannedCommand, name: str, value: str) -> str:
    if not _is_path(name, value):
        return value
    try:
        found = on_node(command.pod, command.found, value)
    except KeyError as error:
        raise UsageError(
            f"{command}: --{name}={value} is in a volume that is not a folder of the controllers ({error.args[0]}), so "
            "it can't be rehearsed",
            remedy="Nothing was started. A rehearsal reads only files on the controllers' disks.",
        ) from None
    return found or value
