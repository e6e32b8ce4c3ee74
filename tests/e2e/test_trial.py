"""Planned programs are tried in pods on the controller before anything changes, and nothing of that stays."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.lab_cluster import OLD, TARGET, LabCluster
from upgrader.adapters.clock import SystemClock
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.manifest import objects_in
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.trial.pod import LABELS
from upgrader.steps.trial.programs import planned_programs
from upgrader.steps.trial.trial import Trial

_TRIAL = ",".join(f"{key}={value}" for key, value in LABELS.items())
_KINDS = [Kind("v1", plural) for plural in ("pods", "configmaps", "secrets")]
_POLICY = "/etc/kubernetes/upgrader-test-policy.yaml"
_BAD: Mapping[str, tuple[Sequence[str], str]] = {
    "flag": (["--no-such-flag=1"], "unknown flag: --no-such-flag"),
    "gate": (["--feature-gates=AllAlpha=perhaps"], "invalid value of AllAlpha=perhaps"),
    "audit": ([f"--audit-policy-file={_POLICY}", "--audit-log-path=/var/log/a.log"], "loading audit policy file"),
    "encryption": ([f"--encryption-provider-config={_POLICY}"], "encryption provider configuration"),
}


def test_programs_that_read_their_flags_and_files(cluster: LabCluster) -> None:
    """Everything that this cluster runs, as of the next minor: nothing is found or left, and nothing is disturbed."""
    cluster.wait_until_settled(OLD)  # a pod that an earlier test has left to drain would end meanwhile
    before, running = cluster.manifests(), cluster.containers()
    after = {name: text.replace(OLD, TARGET) for name, text in before.items()}
    notes = list[str]()
    assert _tried(cluster, _plan(before, after), notes) == ()
    assert notes[-1] == "4 of 4 programs have read their flags and files"
    assert cluster.containers() == running
    assert cluster.troubles(OLD) == []


@pytest.mark.soak
def test_programs_that_refuse_are_quoted(cluster: LabCluster) -> None:
    """A wrong flag, a feature gate of another type, and a broken file for each of two flags."""
    cluster.on_controller("sh", "-c", f"echo 'kind: Nonsense' > {_POLICY}")
    try:
        own = objects_in(cluster.manifests()["kube-apiserver"])["Deployment kube-system/kube-apiserver"]
        wrong = "\n---\n".join(yaml.safe_dump(_with(own, name, flags)) for name, (flags, _) in _BAD.items())
        found = _tried(cluster, _plan({"wrong": ""}, {"wrong": wrong}), [])
    finally:
        cluster.on_controller("rm", _POLICY)
    assert {finding.id for finding in found} == {"trial.refused"}
    assert len(found) == len(_BAD)
    for name, (_, words) in _BAD.items():
        (told,) = [finding.diagnosis for finding in found if f"kube-system/{name}." in finding.diagnosis]
        assert words in told


def test_run_ends_before_it_changes_anything(cluster: LabCluster) -> None:
    """Exit 4, with the program's own words, and no release, pod or container is another one."""
    cluster.wait_until_settled(OLD)  # a pod that an earlier test has left to drain would end meanwhile
    before, running = cluster.releases(), cluster.containers()
    cluster.change_values("kube-apiserver", {"extraArgs": {"max-requests-inflight": "many"}})
    ended = cluster.run(OLD)
    assert ended.exit_code == 4, ended
    assert "before it changed anything" in ended.stderr, ended
    assert "trial.refused" in ended.stderr and 'invalid argument "many"' in ended.stderr, ended
    cluster.wait_until_settled(OLD)  # the pod that the run's baseline tried may still be ending
    assert (cluster.releases(), cluster.containers()) == (before, running)
    assert [kind.plural for kind in _KINDS if cluster.kube.list(kind, labels=_TRIAL)] == []


def _tried(cluster: LabCluster, plan: Plan, notes: list[str]) -> tuple[Finding, ...]:
    trial = Trial(cluster.kube, SystemClock(), (Host("controller-1", ""),))
    found = trial.run(planned_programs(plan), notes.append)
    assert [kind.plural for kind in _KINDS if cluster.kube.list(kind, labels=_TRIAL)] == []
    return found


def _plan(before: Mapping[str, str], after: Mapping[str, str]) -> Plan:
    releases = [
        PlannedRelease(ReleaseSpec(name, "kube-system", Path()), "upgrade", "", before[name], text, ())
        for name, text in after.items()
    ]
    return Plan(KubernetesVersion.parse(OLD), KubernetesVersion.parse(TARGET), tuple(releases))


def _with(deployment: Mapping[str, Any], name: str, flags: Sequence[str]) -> Any:
    """The same under another name, with these flags, and the file that they name."""
    made: Any = copy.deepcopy(dict(deployment))
    made["metadata"]["name"] = name
    pod = made["spec"]["template"]["spec"]
    program = next(each for each in pod["containers"] if each["name"] == "kube-apiserver")
    program["args"] += flags
    program["volumeMounts"].append({"name": "policy", "mountPath": _POLICY})
    pod["volumes"].append({"name": "policy", "hostPath": {"path": _POLICY, "type": "FileOrCreate"}})
    return made
