"""Decodes the output of the program on a host into `HostFacts`: parses certificates, and masks secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cryptography import x509

from upgrader.model.log_lines import readable
from upgrader.onhost.sending.host_facts import (
    ActiveManifest,
    Alarm,
    Backup,
    Certificate,
    Cgroups,
    Client,
    Clock,
    Container,
    Endpoint,
    Etcd,
    EtcdServer,
    Generation,
    HostFacts,
    Identity,
    Manifests,
    Member,
    Space,
    Unit,
    Unknown,
    Updates,
    Workload,
)

__all__ = ["decode", "etcd_server"]

T = TypeVar("T")
Json = Mapping[str, Any]


def decode(raw: Json, sent: float, received: float) -> HostFacts:
    """`sent`, `received`: when the request left and the answer arrived, by our clock.

    Raises ValueError, KeyError, TypeError or AttributeError for an answer of another form.
    """
    containers = _known(raw["containers"], lambda found: tuple(_container(c) for c in found))
    if isinstance(containers, Unknown):
        servers: tuple[Container, ...] | Unknown = containers
        stores: tuple[Container, ...] = ()
    else:
        servers = tuple(c for c in containers if not c.pod.startswith("etcd-"))
        stores = tuple(c for c in containers if c.pod.startswith("etcd-"))
    complaints = _known(raw["complaints"], _lines)
    return HostFacts(
        taken=raw["taken"],
        booted=_known(raw["booted"], float),
        clock=_clock(raw, sent, received),
        kubelet=_known(raw["kubelet"], _unit),
        containerd=_known(raw["containerd"], _unit),
        runtime=_endpoint(raw["runtime"]),
        spaces=_known_all(raw["spaces"], lambda found: Space(**found)),
        certificates=_known_all(raw["certificates"], _certificate),
        manifests=_known(raw["manifests"], lambda found: Manifests(found["exists"], tuple(found["files"]))),
        etcd=_etcd(raw["etcd"], raw["etcd_server"], raw["etcd_named_here"]),
        api=_known(raw["api"], lambda found: Endpoint(**found)),
        containers=servers,
        workloads=_known(raw["workloads"], lambda found: tuple(_workload(w) for w in found)),
        etcd_containers=stores,
        complaints=() if isinstance(complaints, Unknown) else complaints,
        clients=_known(raw["clients"], lambda found: tuple(filter(None, map(_client, found)))),
        identity=_known(raw["identity"], _identity),
        cgroups=_known(raw["cgroups"], lambda found: Cgroups(found["version"], found["fail_v1"])),
        updates=_known(
            raw["updates"], lambda found: Updates(found["timer"], tuple(found["packages"]), found["reboots"])
        ),
    )


def _known(value: Any, build: Callable[[Any], T]) -> T | Unknown:
    if isinstance(value, Mapping) and "unknown" in value:
        return Unknown(str(value["unknown"]))
    return build(value)


def _known_all(values: Any, build: Callable[[Any], T]) -> tuple[T | Unknown, ...]:
    """Each of a list; one Unknown where there is no list."""
    if isinstance(values, Mapping):
        return (Unknown(str(values["unknown"])),)
    return tuple(_known(value, build) for value in values)


def _clock(raw: Json, sent: float, received: float) -> Clock:
    """The host read its clock after the request had left, and `took` seconds before the answer could arrive."""
    earliest, latest = sent, received - raw["took"]
    return Clock(offset=raw["taken"] - (earliest + latest) / 2, error=abs(latest - earliest) / 2)


def _unit(found: Json) -> Unit:
    said = _known(found["said"], _lines)
    return Unit(**{**found, "said": () if isinstance(said, Unknown) else said})


def _lines(found: list[str]) -> tuple[str, ...]:
    return readable("\n".join(found))


def _endpoint(found: Json) -> Endpoint:
    return Endpoint(False, str(found["unknown"])) if "unknown" in found else Endpoint(**found)


def _client(found: Json) -> Client | None:
    """None for one whose certificate can't be read: it may be refused for a reason of its own."""
    kept = {name: found[name] for name in ("name", "status", "pod", "address", "conclusive")}
    if not found["certificate"]:
        return Client(**kept)
    read = _certificate({"path": found["name"], "pem": found["certificate"], "real": ""})
    if isinstance(read, Unknown):
        return None
    return Client(**kept, not_before=read.not_before, not_after=read.not_after)


def _certificate(found: Json) -> Certificate | Unknown:
    try:
        read = x509.load_pem_x509_certificate(found["pem"].encode())
    except ValueError as error:
        return Unknown(f"{found['path']} can't be read: {error}")
    begin, end = read.not_valid_before_utc.timestamp(), read.not_valid_after_utc.timestamp()
    return Certificate(found["path"], begin, end, found["pem"], found["real"])


def _identity(found: Json) -> Identity:
    reserved = tuple(tuple(map(int, pair)) for pair in found["reserved"])
    ephemeral = tuple(map(int, found["ephemeral"]))
    return Identity(found["machine_id"], found["keys"], ephemeral, reserved, found["migrate_req"])


def _etcd(found: Json, server: Json, named_here: Any) -> Etcd:
    answered = _known(server, etcd_server)
    if "unknown" in found:
        unknown = Unknown(str(found["unknown"]))
        return Etcd(manifest=unknown, data_dir="/var/lib/etcd", data=unknown, server=answered)
    return Etcd(
        manifest=found["manifest"],
        data_dir=found["data_dir"],
        data=_known(found["data"], lambda data: data),
        server=answered,
        flags=found["flags"],
        service=_known(found["service"], lambda service: _unit(service) if service else None),
        named_here=_known(named_here, bool),
        backups=tuple(Backup(**backup) for backup in found["backups"]),
    )


def etcd_server(found: Json) -> EtcdServer:
    """Decodes a member's answer from `onhost/etcd_facts.py`. Raises as `decode` does."""
    members = _known(found["members"], lambda listed: tuple(_member(m) for m in listed))
    alarms = tuple(Alarm(**alarm) for alarm in found["alarms"])
    has_cluster = _known(found["has_cluster"], bool)
    return EtcdServer(**{**found, "members": members, "alarms": alarms, "has_cluster": has_cluster})


def _member(found: Json) -> Member:
    return Member(**{**found, "peers": tuple(found["peers"]), "clients": tuple(found["clients"])})


def _container(found: Json) -> Container:
    return Container(**{**found, "log": _lines(found["log"]), "message": " ".join(_lines([found["message"]]))})


def _workload(found: Json) -> Workload:
    active = found["active"]
    return Workload(
        name=found["name"],
        policy=found["policy"],
        active_path=found["active_path"],
        generations=tuple(_generation(g) for g in found["generations"]),
        active=ActiveManifest(**active) if active else None,
        marks_unknown=found["marks_unknown"],
        trouble=found["trouble"],
    )


def _generation(found: Json) -> Generation:
    values = {key: value for key, value in found.items() if key != "policy"}
    return Generation(**{**values, "missing": _known(found["missing"], tuple)})
