"""`upgrader explain`: what the id of a check or of what `recover` finds, a gate, an exit code or an error says.

All of it comes from the code that says it.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from upgrader import errors
from upgrader.app.finding_texts import check_texts, recovery_texts
from upgrader.certificates.gates import InUseGate, ServedGate
from upgrader.certificates.trust_gates import AcceptedGate, AggregatedGate, PublishedGate
from upgrader.errors import UpgraderError, UsageError
from upgrader.gates.apiserver_gate import ApiServerGate
from upgrader.gates.availability_gate import AvailabilityGate
from upgrader.gates.bake_gate import BakeGate
from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.gates.continuity.clients_gate import ClientsGate
from upgrader.gates.continuity.continuity_gate import ContinuityGate
from upgrader.gates.continuity.workload_gate import WorkloadGate
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.kubeadm_config_gate import KubeadmConfigGate
from upgrader.gates.kubelet_config_gate import KubeletConfigGate
from upgrader.gates.metric_gate import MetricGate
from upgrader.gates.nodes_gate import NodesGate
from upgrader.gates.protector_gate import ProtectorGate
from upgrader.gates.release_gate import ReleaseGate
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.gates.rollout_group_gate import RolloutGroupGate
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY, WORST_SEVERITY, may_be_overruled
from upgrader.model.exit_code_meanings import EXIT_CODES

__all__ = ["Explanation", "all_codes", "explain"]

Kind = Literal["check", "gate", "exit code", "error", "recovery"]

_GATES: Mapping[str, type] = {
    "accepts-new-ca/NODE": AcceptedGate,
    "aggregated-apis": AggregatedGate,
    "apiserver": ApiServerGate,
    "availability": AvailabilityGate,
    "bake": BakeGate,
    "certificates-in-use": InUseGate,
    "checkpoint": CheckpointGate,
    "continuity": ContinuityGate,
    "continuity/clients": ClientsGate,
    "continuity/workload": WorkloadGate,
    "critical-pods": CriticalPodsGate,
    "daemonset/NAME": RolloutGate,
    "deployment/NAME": RolloutGate,
    "kubeadm-config": KubeadmConfigGate,
    "kube-root-ca.crt": PublishedGate,
    "kubelet-config": KubeletConfigGate,
    "metric/NAME": MetricGate,
    "nodes": NodesGate,
    "protector/NAME": ProtectorGate,
    "refuses-old-ca/NODE": AcceptedGate,
    "release/NAME": ReleaseGate,
    "rollout-group/NAME": RolloutGroupGate,
    "served/NODE": ServedGate,
    "statefulset/NAME": RolloutGate,
}
_RECOVERED: Mapping[str, tuple[str, str]] = {
    "apiserver.exits": (
        "…: kube-apiserver or its standby pod exits with …: …",
        "`upgrader recover`: it rolls the Helm release back to the last good revision",
    ),
    "certificates.expired": (
        "…: certificates have expired",
        "`kubeadm certs renew all` on that controller, then `upgrader recover` again",
    ),
    "certificates.not-yet-valid": ("…: certificates aren't valid yet", "correct the clocks, or renew the certificates"),
    "clock.off": ("…: the clock is wrong, so certificates don't seem to be valid", "set the clock (`timedatectl`)"),
    "containerd.down": (
        "…: containerd is stopped, or fails: no container can be started or inspected",
        "if it is stopped, `upgrader recover` starts it; if it fails, the finding shows its last log lines",
    ),
    "etcd.down": (
        "…: etcd does not run, or does not answer",
        "`upgrader recover` starts etcd if it is a systemd service (Kubespray); for a static pod, see the finding",
    ),
    "etcd.lost": ("…: etcd has lost its data", "the steps that the finding prints; `upgrader` never changes that data"),
    "etcd.member-lost": ("…: one member of etcd has lost its data", "remove the member, then add it again"),
    "kubelet.down": (
        "…: kubelet is stopped, or fails: pods are neither started nor restarted",
        "if it is stopped, `upgrader recover` starts it; if it fails, the finding shows its last log lines",
    ),
}
"""Meaning and remedy of those whose code puts the words together at that moment."""
_EXIT_CODE = re.compile(r"(?:exit)?[ -]?(?:code)?[ -]?(\d+)")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)[^)]*\)")


@dataclass(frozen=True)
class Explanation:
    """Text without markup but for backticks; what is not known of a code is ""."""

    code: str
    kind: Kind
    means: str
    why: str
    """Why it matters."""
    remedy: str
    page: str
    """In the documentation, such as `docs/troubleshooting.md`."""


def explain(code: str) -> Explanation:
    """Raises UsageError for what is no code, with those that it may have been."""
    name = code.strip()
    known = _all()
    exit_code = _EXIT_CODE.fullmatch(name.lower())
    found = known.get(exit_code[1] if exit_code else name)
    family, _, one = name.partition("/")
    if found is None and one:  # a gate, with the name of what it is about
        found = known.get(f"{family}/NAME") or known.get(f"{family}/NODE")
    if found is None:
        members = [code for code in known if code.startswith(f"{name.rstrip('.')}.")]  # a family, as `--skip` takes it
        near = members or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        raise UsageError(
            f"{name!r} is not a check, a finding of `recover`, a gate, an exit code or an error",
            remedy=(f"Did you mean {' or '.join(near)}? " if near else "") + "`upgrader explain` lists all of them.",
        )
    return found


def all_codes() -> tuple[Explanation, ...]:
    """Every one: exit codes, errors, gates, checks, what `recover` finds."""
    return tuple(_all().values())


@cache
def _all() -> Mapping[str, Explanation]:
    # An id that checks and `recover` share (`etcd.unhealthy`) is about the same: the checks' text says more.
    every = (*_recoveries(), *_exit_codes(), *_errors(), *_gates(), *_checks())
    found = {each.code: each for each in every}
    order = ("exit code", "error", "gate", "check", "recovery")
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[1].kind)))


def _exit_codes() -> list[Explanation]:
    return [
        Explanation(
            str(each.code),
            "exit code",
            _plain(each.meaning),
            f"the cluster: {_plain(each.cluster)}",
            _plain(each.remedy),
            "docs/troubleshooting.md#exit-codes",
        )
        for each in EXIT_CODES
    ]


def _errors() -> list[Explanation]:
    codes = {each.code: each for each in EXIT_CODES}
    found = []
    for name, error in vars(errors).items():
        if not (isinstance(error, type) and issubclass(error, UpgraderError)):
            continue
        end = codes[error.exit_code]
        why = f"exit code {end.code}: {_plain(end.meaning)}; the cluster: {_plain(end.cluster)}"
        otherwise = _plain(end.remedy)
        if error.exit_codes:
            *others, last = map(str, error.exit_codes)
            why = f"exit code {', '.join(others)} or {last}, by the worst of its clusters"
            otherwise = "`upgrader explain` and that exit code"
        found.append(
            Explanation(
                name,
                "error",
                _paragraph(error),
                f"it ends the command with {why}",
                f"as the message says; otherwise: {otherwise}",
                "docs/reference/codes.md",
            )
        )
    return found


def _gates() -> list[Explanation]:
    return [
        Explanation(
            name,
            "gate",
            _paragraph(gate),
            "a step has passed once all its gates have passed several times in a row; a gate that doesn't pass in "
            "time rolls the step back",
            "the verdict names the object and the cause; runs/RUN/report.html has the details",
            "docs/concepts.md",
        )
        for name, gate in _GATES.items()
    ]


def _checks() -> list[Explanation]:
    described = {finding.id: (texts, finding) for texts in check_texts() for finding in texts.findings}
    found = []
    for id_, worst in WORST_SEVERITY.items():
        skip = "`--skip` overrides it" if may_be_overruled(id_) else "it can't be skipped"
        why = f"{worst}; {skip}" if worst in ("error", "unknown") else worst
        family, _, rest = id_.partition(".")
        if id_ in described:
            texts, finding = described[id_]
            means, remedy, page = finding.title, finding.remedy, texts.heading.lower().replace(" ", "-")
            remedy = remedy if remedy != "…" else "what the finding says"
            why = f"{why}. Expected: {texts.claim}"
        elif rest == "unknown":
            means, remedy, page = f"`{family}` could not be checked", "what the finding says", ""
        elif rest == "forbidden" and family in READ_BY_CHECKS_ONLY:
            means, remedy, page = f"`{family}` lacks a permission that only checks need", "grant it to the user", ""
        else:
            means, remedy, page = f"found by `{family}`", "what the finding says", ""
        where = f"docs/reference/checks.md{f'#{page}' if page else ''}"
        found.append(Explanation(id_, "check", means, why, remedy, where))
    return found


def _recoveries() -> list[Explanation]:
    found = []
    for finding in recovery_texts():
        means, remedy = _RECOVERED.get(finding.id, (finding.title, finding.remedy))
        found.append(
            Explanation(
                finding.id,
                "recovery",
                means,
                "found by `upgrader recover` on a controller, or between this machine and the API; the first finding "
                "in its list is the cause",
                remedy if remedy.strip("… ") else "what the finding says",
                "docs/troubleshooting.md#the-api-does-not-answer",
            )
        )
    return found


def _paragraph(documented: type) -> str:
    return (inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")


def _plain(markdown: str) -> str:
    """Links as a terminal shows them."""
    return _LINK.sub(r"\1: docs/\2", markdown)
