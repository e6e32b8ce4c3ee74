"""`upgrader rehearse`: what the target did with a copy of the data, for people and for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from upgrader.app.rehearsal import Rehearsed
from upgrader.cli.main import cli
from upgrader.errors import Blocked, UsageError
from upgrader.model.cluster_copy.copy import ClusterCopy
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.steps.backup.identity_file import write_identity
from upgrader.steps.backup.verify import BackupFile
from upgrader.steps.rehearsal.differences import Difference, findings_of
from upgrader.steps.rehearsal.redacted import redacted
from upgrader.steps.rehearsal.result import Result

COUNTS = {
    "objects": 1200,
    "read": 1300,
    "updated": 1100,
    "created": 1000,
    "manifests": 30,
    "requests": 7,
    "unserved": 5,
    "unproven": 4,
}
GONE = Finding("rehearsal.gone", "error", "webs are stored", "2 of webs: a/b", "delete them")


def invoke(
    monkeypatch: pytest.MonkeyPatch, findings: tuple[Finding, ...], *more: str, **emulation: Any
) -> tuple[str, bool]:
    """What is on standard output, and whether the command fails."""
    result = Result("controller-1", (), COUNTS, 41.4, 900 << 20)
    rehearsed = Rehearsed(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), result, findings, **emulation)
    monkeypatch.setattr("upgrader.app.rehearsal.rehearse", lambda *_, **__: rehearsed)
    done = CliRunner().invoke(cli, ["rehearse", *more])
    assert done.exception is None or isinstance(done.exception, Blocked), done
    return done.stdout, done.exception is not None


def test_a_target_that_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compared is told, and what of it says nothing."""
    shown, blocked = invoke(monkeypatch, ())
    assert not blocked and "v1.36.3 → v1.37.1, on controller-1" in shown
    assert "the target reads and writes every object as the running version does" in shown
    compared = "1,200 objects: 1,300 reads, 1,100 updates, 1,000 creations and 30 manifests of Helm releases were"
    assert f"{compared} compared in 41 s" in " ".join(shown.split())
    assert "5 kinds were not compared: the running version does not serve them on the copy" in shown
    assert "4 of them prove nothing" in shown and "7 kinds of requests in the audit log were compared" in shown


def test_a_target_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its findings are as those of checks, and so is the exit code."""
    shown, blocked = invoke(monkeypatch, (GONE,))
    assert blocked and "webs are stored  rehearsal.gone" in shown and "1 error: different from today" in shown
    shown, blocked = invoke(monkeypatch, (GONE,), "-o", "json")
    found = json.loads(shown)
    assert blocked and found["blocked"] is True and found["counts"] == COUNTS
    assert found["findings"][0]["id"] == "rehearsal.gone" and found["controller"] == "controller-1"


def test_names_are_left_out_where_others_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """For artifacts of CI: what users named has the same placeholder throughout, also in the error; what Kubernetes
    names stays.
    """
    denied = "ValidatingAdmissionPolicy acme-rules with binding acme-all denied request: …"
    differences = (
        Difference("create", "services", "spec.externalIPs[0]: …", 2, ("acme/pay", "acme-2/pay", "acme/pay")),
        Difference("manifest", "services", denied, 1, ("acme/pay of release acme-2/shop",)),
        Difference("manifest-unread", "manifests in Helm's records", "", 1, ("a document of release acme-2/shop",)),
        Difference("gone", "acmes.acme.example.com", "", 1, ("acme",)),
        Difference("gone", "podgroups.scheduling.k8s.io", "", 1, ("acme/group",)),
        Difference("create", "namespaces", denied, 1, ("acme",)),
        Difference("client", "acme.example.com/v1 acmes list", "", 1, ("acme/1.2 (user acme)",)),
        Difference("client", "v1 pods/eviction create", "", 1, ("acme/1.2 (user acme)",)),
        Difference(
            "manifest-gone", "acmes.acme.example.com", "acme.example.com/v1beta1", 1, ("acme of release acme/a",)
        ),
        Difference("manifest-gone", "podgroups.scheduling.k8s.io", "scheduling.k8s.io/v1", 1, ("a of release a/a",)),
    )
    result = Result("acme-cp-1", differences, COUNTS, 41.4, 900 << 20, "acme-build")
    versions = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
    rehearsed = Rehearsed(*versions, result, tuple(findings_of(differences)))
    monkeypatch.setattr("upgrader.app.rehearsal.rehearse", lambda *_, **__: rehearsed)
    for more in ((), ("-o", "json")):
        done = CliRunner().invoke(cli, ["rehearse", "--redacted", *more])
        assert isinstance(done.exception, Blocked)
        shown = f"{done.output} {done.exception.message}"
        assert "acme" not in shown and "scheduling.k8s.io" in shown
    found = json.loads(done.stdout)
    assert (found["controller"], found["rehearsal_host"]) == ("host-1", "host-2")
    said = [each["diagnosis"] for each in found["findings"]]
    assert said[0].startswith("2 of services: namespace-1/object-1, namespace-2/object-2, namespace-1/object-1.")
    assert said[1].startswith("1 of services: namespace-1/object-1 of release namespace-2/release-1. The target says: ")
    assert "ValidatingAdmissionPolicy policy-1 with binding binding-1 denied request" in said[1]
    assert said[2].endswith("a document of release namespace-2/release-1")
    assert [each["title"].split(" of ")[0] for each in found["findings"][6:8]] == [
        "clients send list for custom-resource-1",
        "clients send create for pods/eviction",
    ]
    assert said[6:8] == ["client-1"] * 2
    assert [each["title"].partition(" have ")[2].partition(",")[0] for each in found["findings"][8:]] == [
        "custom-resource-1 at version v1beta1",
        "podgroups.scheduling.k8s.io at version scheduling.k8s.io/v1",
    ]
    assert said[3] == "1 of custom-resource-1: object-3" and said[5].startswith("1 of namespaces: namespace-1.")


def test_why_a_target_does_not_start_is_redacted() -> None:
    """It names flags' paths, addresses and domains, which users chose. What Kubernetes declares stays."""
    said = "it exited with code 1: open /etc/acme/keys.yaml or https://acme.example of acme.example.com: feature gate X"
    result = Result("a", (Difference("start", "", said, 1, ()),), {}, 1.0, 1)
    (found,) = redacted(result).differences
    assert found.reason == "it exited with code 1: open … or … of … feature gate X"


def test_where_it_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host of group `rehearsal`: its name, and the controller's of which the data is."""
    result = Result("controller-1", (), COUNTS, 41.4, 900 << 20, "build-1")
    rehearsed = Rehearsed(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), result, ())
    asked = list[object]()

    def rehearse(*given: object, **_: object) -> Rehearsed:
        asked.append(given[-2])
        return rehearsed

    monkeypatch.setattr("upgrader.app.rehearsal.rehearse", rehearse)
    shown = CliRunner().invoke(cli, ["rehearse", "--on", "build-1"]).stdout
    assert "v1.36.3 → v1.37.1, on build-1, with data of controller-1" in shown
    found = json.loads(CliRunner().invoke(cli, ["rehearse", "--on", "build-1", "-o", "json"]).stdout)
    assert (found["controller"], found["rehearsal_host"]) == ("controller-1", "build-1") and asked == ["build-1"] * 2
    assert json.loads(invoke(monkeypatch, (), "-o", "json")[0])["rehearsal_host"] is None


def test_a_backup_is_compared_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With its key, which is read before the cluster is; and of when the data is, for people and for programs."""
    result = Result("controller-1", (), COUNTS, 41.4, 900 << 20, "this machine")
    versions = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
    rehearsed = Rehearsed(*versions, result, (), backup_taken=datetime(2026, 11, 23, 13, 4, tzinfo=UTC))
    asked = list[object]()

    def rehearse(*given: object, **_: object) -> Rehearsed:
        asked.append(given[-1])
        return rehearsed

    monkeypatch.setattr("upgrader.app.rehearsal.rehearse", rehearse)
    key = tmp_path / "key.txt"
    write_identity(key, "age1", "AGE-SECRET-KEY-1TEST")
    words = ["rehearse", "--here", "backup.tar.age", "--identity", str(key)]
    shown = CliRunner().invoke(cli, words).stdout
    assert "on this machine, with data of controller-1" in shown and "a backup taken at 2026-11-23 13:04 UTC" in shown
    found = json.loads(CliRunner().invoke(cli, [*words, "-o", "json"]).stdout)
    assert (found["rehearsal_host"], found["backup_taken"]) == ("this machine", "2026-11-23T13:04:00+00:00")
    assert [each.path for each in asked if isinstance(each, BackupFile)] == [Path("backup.tar.age")] * 2
    assert json.loads(invoke(monkeypatch, (), "-o", "json")[0])["backup_taken"] is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--here", "b", "--identity", "k", "--on", "build-1"), "--on and --here can't be combined"),
        (("--here", "b"), "must be used together"),
        (("--identity", "k"), "must be used together"),
    ],
)
def test_options_that_contradict_are_refused(words: tuple[str, ...], why: str) -> None:
    """Before anything is read."""
    error = CliRunner().invoke(cli, ["rehearse", *words]).exception
    assert isinstance(error, UsageError) and why in error.message and error.remedy


def test_which_emulation_was_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each version emulated, and what a run begins with, which was not tried."""
    shown, _ = invoke(monkeypatch, (), emulated_first=(1, 36))
    words = " ".join(shown.split())
    assert "v1.36.3 → v1.37.1, on" in words
    assert "tested as it runs after `upgrader finalize`, and not while it emulates 1.36" in words
    shown, _ = invoke(monkeypatch, (), current_emulates=(1, 35), target_emulates=(1, 36))
    assert "v1.36.3 (emulates 1.35) → v1.37.1 (emulates 1.36), on" in shown and "finalize" not in shown
    shown, _ = invoke(monkeypatch, (), "-o", "json", current_emulates=(1, 35), emulated_first=(1, 36))
    found = json.loads(shown)
    assert (found["current_emulates"], found["target_emulates"], found["emulated_first"]) == ("1.35", None, "1.36")


def test_a_copy_is_written_and_what_it_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`rehearse copy` rehearses nothing; -C may be before the command, behind it, or behind `copy`."""
    flags = {"kube-apiserver": {"event-ttl": "2h"}}
    objects = ({"kind": "Namespace"}, {"kind": "Namespace"})
    copied = ClusterCopy(KubernetesVersion(1, 36, 3), True, (), flags, {}, objects, ("Deployment a/b: its reason",))
    asked: list[tuple[Path, Path]] = []

    def write(folder: Path, out: Path, _: object) -> ClusterCopy:
        asked.append((folder, out))
        return copied

    monkeypatch.setattr("upgrader.app.rehearsal_copy.write_cluster_copy", write)
    words = ["rehearse", "copy", "--out", "copy.yaml"]
    for given in (
        ["-C", str(tmp_path), *words],
        [*words, "-C", str(tmp_path)],
        ["rehearse", "-C", str(tmp_path), *words[1:]],
    ):
        done = CliRunner().invoke(cli, given)
        assert done.exception is None, done
        assert "v1.36.3, 0 controllers, 0 workers" in done.stdout and "2 Namespace" in done.stdout
        assert "kube-apiserver --event-ttl" in done.stdout and "not copied  Deployment a/b: its reason" in done.stdout
    assert asked == [(tmp_path, Path("copy.yaml"))] * 3
    for option, value in (
        ("--to", "v1.37.1"),
        ("--on", "build-1"),
        ("--here", "b"),
        ("--identity", "k"),
        ("--audit-log", "."),
    ):
        error = CliRunner().invoke(cli, ["rehearse", option, value, *words[1:]]).exception
        assert isinstance(error, UsageError) and f"{option} has no meaning" in error.message
