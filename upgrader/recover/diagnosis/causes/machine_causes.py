"""Causes below Kubernetes: the clock, certificates, disks, services, the folder of static pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from upgrader.model.finding import Finding, Severity
from upgrader.onhost.sending.host_facts import Certificate, HostFacts, Space, Unit, Unknown
from upgrader.recover.diagnosis.causes.cause import Cause, duration, last_words, moment, size

__all__ = ["clock_and_certificates", "disks", "manifests", "services"]

_CLOCK_SECONDS = 10.0
_NEEDED = {
    "/etc/kubernetes/pki/ca.crt",
    "/etc/kubernetes/pki/apiserver.crt",
    "/etc/kubernetes/pki/apiserver-etcd-client.crt",
    "/etc/kubernetes/pki/etcd/ca.crt",
    "/etc/kubernetes/pki/etcd/server.crt",
}
"""Without these no kube-apiserver can serve, whichever instance it is."""

_BOOT_SECONDS = 30.0
_FULL_BYTES = 16 << 20
_FULL_ETCD_BYTES = 64 << 20
"""etcd makes its log in files of 64 MB, and doesn't start when it can't."""

_SCARCE_BYTES = 1 << 30
_FULL_INODES = 64


def clock_and_certificates(name: str, facts: HostFacts) -> Iterator[Cause]:
    """Certificates that don't hold now, and whether that is the certificates' fault or the clock's."""
    known = [c for c in facts.certificates if isinstance(c, Certificate)]
    ours = facts.taken - facts.clock.offset
    bad = [c for c in known if not _valid(c, facts.taken)]
    by_clock = [c for c in bad if _valid(c, ours)]
    off = max(0.0, abs(facts.clock.offset) - facts.clock.error)
    if off > _CLOCK_SECONDS:
        yield _clock(name, facts, by_clock)
    yield from _certificates(name, facts, [c for c in bad if c not in by_clock])
    for unknown in (c for c in facts.certificates if isinstance(c, Unknown)):
        yield Cause(Finding("certificates.unknown", "unknown", f"{name}: a certificate can't be read", unknown.why))


def _valid(certificate: Certificate, at: float) -> bool:
    return certificate.not_before <= at < certificate.not_after


def _clock(name: str, facts: HostFacts, hit: Sequence[Certificate]) -> Cause:
    ahead = facts.clock.offset > 0
    title = f"{name}: the clock is {duration(abs(facts.clock.offset))} {'ahead' if ahead else 'behind'}"
    remedy = (
        f"Set the clock of {name} (`timedatectl`, `chronyc makestep`), or this machine's clock if that one is wrong."
    )
    if not hit:
        why = f"It shows {moment(facts.taken)}. The clock of the machine that runs `upgrader` is the reference."
        return Cause(Finding("clock.off", "warning", title, why, remedy))
    state = "expired" if ahead else "not yet valid"
    needed = any(c.path in _NEEDED for c in hit)
    title += f": by this clock, {_counted(hit)} {state}"
    return Cause(Finding("clock.off", "error", title, _listed(hit), remedy), explains=needed, blocks=needed)


def _certificates(name: str, facts: HostFacts, bad: Sequence[Certificate]) -> Iterator[Cause]:
    serves = not isinstance(facts.api, Unknown) and facts.api.answers
    for early in (False, True):
        group = [c for c in bad if (facts.taken < c.not_before) is early]
        if not group:
            continue
        needed = any(c.path in _NEEDED for c in group)
        title = f"{name}: {_counted(group)} {'not yet valid' if early else 'expired'}"
        remedy = (
            f"Correct the clocks, or renew the certificates: `kubeadm certs renew all` on {name}."
            if early
            else f"Run `kubeadm certs renew all` on {name}, restart the components that use these certificates, then "
            "run this command again."
        )
        severity: Severity = "error" if needed and not serves else "warning"
        identity = "certificates.not-yet-valid" if early else "certificates.expired"
        yield Cause(Finding(identity, severity, title, _listed(group), remedy), explains=needed, blocks=needed)


def _counted(certificates: Sequence[Certificate]) -> str:
    return f"{certificates[0].path} is" if len(certificates) == 1 else f"{len(certificates)} certificates are"


def _listed(certificates: Sequence[Certificate]) -> str:
    return "\n".join(f"{c.path}: {moment(c.not_before)} to {moment(c.not_after)}" for c in certificates)


def disks(name: str, facts: HostFacts) -> Iterator[Cause]:
    """File systems that are full, out of inodes or read-only, each once."""
    known = sorted((s for s in facts.spaces if isinstance(s, Space)), key=lambda s: s.device)
    for _, group in groupby(known, key=lambda s: s.device):
        spaces = sorted(group, key=lambda s: s.path)
        paths = ", ".join(s.path for s in spaces)
        space = min(spaces, key=lambda s: s.free)
        needed = {s.path for s in spaces} != {"/var/log"}
        limit = _FULL_ETCD_BYTES if any(s.path == "/var/lib/etcd" for s in spaces) else _FULL_BYTES
        of = f"{size(space.free)} of {size(space.size)} free"
        if any(s.read_only for s in spaces if s.path != "/"):
            why = "The kernel remounts a file system read-only after a disk error."
            remedy = f"Find the cause with `dmesg` on {name}; check the disk (`fsck`), then run `mount -o remount,rw`."
            title = f"{name}: the disk of {paths} is read-only"
            yield Cause(Finding("disk.read-only", "error", title, why, remedy), explains=needed, blocks=needed)
        elif space.free < min(limit, space.size / 2):
            remedy = f"Free space on {name} (see `du -xhd1 {spaces[0].path}`); `upgrader` deletes nothing."
            title = f"{name}: the disk of {paths} is full: {of}"
            yield Cause(Finding("disk.full", "error", title, "", remedy), explains=needed, blocks=needed)
        elif space.inodes and space.inodes_free < _FULL_INODES:
            why = f"{space.inodes_free} of {space.inodes} inodes are free: there is space, but files can't be created."
            remedy = f"Find the folder with too many files: `du --inodes -xd1 {spaces[0].path}` on {name}."
            title = f"{name}: the disk of {paths} has no inodes left"
            yield Cause(Finding("disk.inodes", "error", title, why, remedy), explains=needed, blocks=needed)
        elif space.free < _SCARCE_BYTES and space.free < space.size / 20:
            why = "When less space is free, the kubelet evicts pods and removes images."
            yield Cause(Finding("disk.scarce", "warning", f"{name}: the disk of {paths} is nearly full: {of}", why))
    for unknown in (s for s in facts.spaces if isinstance(s, Unknown)):
        yield Cause(Finding("disk.unknown", "unknown", f"{name}: the free space of a disk is unknown", unknown.why))


def services(name: str, facts: HostFacts) -> Iterator[Cause]:
    """The container runtime before the kubelet, which needs it; and etcd, where it is a service of the host."""
    runtime = facts.containerd
    yield from _service(name, facts, runtime, "no container can be started or inspected")
    if isinstance(runtime, Unit) and runtime.running and not facts.runtime.answers:
        title = f"{name}: {runtime.name} runs but does not answer: {facts.runtime.said}"
        remedy = f"`systemctl restart {runtime.name}` on {name}; running containers keep running."
        yield Cause(Finding("runtime.silent", "error", title, "", remedy), explains=True)
    yield from _service(name, facts, facts.kubelet, "pods are neither started nor restarted")
    if facts.etcd_service is not None:
        yield from _service(name, facts, facts.etcd_service, "a member of etcd is missing")
    elif isinstance(facts.etcd.named_here, Unknown) and not facts.has_etcd:
        service = facts.etcd.service
        if isinstance(service, Unit) and not service.running:
            title = f"{name}: {service.name} is {service.state}, and may be a member of the cluster's etcd"
            remedy = f"If this machine is a member of that etcd, start it: `systemctl start {service.name}` on {name}."
            yield Cause(Finding("etcd.service-unknown", "unknown", title, facts.etcd.named_here.why, remedy))


def _service(name: str, facts: HostFacts, unit: Unit | Unknown, effect: str) -> Iterator[Cause]:
    if isinstance(unit, Unknown):
        title = f"{name}: the state of a service is unknown"
        yield Cause(Finding("service.unknown", "unknown", title, unit.why))
        return
    if unit.running:
        if unit.enabled == "disabled":
            title = f"{name}: {unit.name} runs, but is disabled: after a reboot, {effect}"
            remedy = f"`systemctl enable {unit.name}` on {name}."
            yield Cause(Finding(f"{unit.name}.disabled", "warning", title, "", remedy))
        return
    if unit.state == "activating" and _young(facts):
        title = f"{name}: {unit.name} is starting ({unit.restarts} failed attempts since the machine booted)"
        yield Cause(Finding(f"{unit.name}.starting", "warning", title, "\n".join(unit.said[-3:])), explains=True)
        return
    if unit.loaded == "not-found":
        title = f"{name}: service {unit.name} does not exist"
        yield Cause(Finding(f"{unit.name}.missing", "error", title, "", f"Install {unit.name}."), True, True)
        return
    words = last_words([line for line in unit.said if not line.startswith(f"{unit.name}.service:")])
    detail = "\n".join(unit.said[-6:])
    if unit.state == "inactive":
        # In order, by an operator or by a unit that it belongs to: the last lines of its log name no cause.
        state = "is stopped"
        detail = f"Since {moment(unit.since)}, {duration(facts.taken - unit.since)} ago." if unit.since else ""
    elif unit.state == "failed" or unit.sub_state == "auto-restart":
        state = f"fails ({unit.result}, status {unit.exit_status})" + (f": {words}" if words else "")
    else:
        state = f"is {unit.state} ({unit.sub_state})"
    masked = "masked" in (unit.enabled, unit.loaded)
    remedy = f"`systemctl {'unmask --now' if masked else 'start'} {unit.name}` on {name}"
    remedy += "; `upgrader recover` does that." if not masked else ": it was masked on purpose."
    title = f"{name}: {unit.name} {state}{' and masked' if masked else ''}: {effect}"
    finding = Finding(f"{unit.name}.down", "error", title, detail, remedy)
    yield Cause(finding, explains=True, blocks=masked)


def _young(facts: HostFacts) -> bool:
    """Whether the machine has just booted: services that need each other may fail at first."""
    return not isinstance(facts.booted, Unknown) and facts.taken - facts.booted < _BOOT_SECONDS


def manifests(name: str, facts: HostFacts) -> Iterator[Cause]:
    """The folder of static pods: etcd's manifest lies there, and the standby pods that the checkpointer starts."""
    if isinstance(facts.manifests, Unknown):
        title = f"{name}: /etc/kubernetes/manifests can't be read"
        yield Cause(Finding("manifests.unknown", "unknown", title, facts.manifests.why))
        return
    if facts.manifests.exists and (facts.etcd.manifest is not False or not facts.has_etcd):
        return
    title = f"{name}: folder /etc/kubernetes/manifests doesn't exist: the kubelet starts no static pods"
    if facts.manifests.exists:
        title = f"{name}: etcd's manifest is gone from /etc/kubernetes/manifests: the kubelet starts no etcd"
    why = ""
    if facts.etcd.data == "present":
        why = "etcd is a static pod: its data is still there, but nothing runs it."
    remedy = (
        f"On {name}: `kubeadm init phase etcd local` writes etcd's manifest again (with `--config`, or "
        "`--apiserver-advertise-address`, if kubeadm was given one); it keeps the data. Then `upgrader recover`."
        if facts.has_etcd
        else f"On {name}: `mkdir -m 700 /etc/kubernetes/manifests`; then `upgrader recover`."
    )
    running = not isinstance(facts.etcd.server, Unknown) and facts.etcd.server.healthy
    yield Cause(
        Finding("manifests.missing", "error", title, why, remedy), explains=True, blocks=facts.has_etcd and not running
    )
