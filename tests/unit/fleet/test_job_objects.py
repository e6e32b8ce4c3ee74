"""The Job of an attempt, field by field, and what its pod says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from upgrader.errors import UsageError
from upgrader.fleet.copies_in_secrets import CHUNK_BYTES
from upgrader.fleet.job_objects import (
    Attempt,
    digest_of,
    end_of,
    has_ended,
    job_of,
    last_line_time,
    namespace_of,
    newest_pod,
    secrets_of,
    waits_for,
)
from upgrader.fleet.model import JobSettings

SETTINGS = JobSettings(Path("/hub"), "registry.example/runner@sha256:" + 64 * "0")
ATTEMPT = Attempt("20261201T000000-fleet-v1.37.1", "eu-1", 2, "fleet-eu-1")
FOLDER = Path("/srv/fleet/clusters/eu-1")
LAST = (
    '{"format_version":"1.0","time":"2026-12-01T00:00:00Z","type":"CommandEnded","data":{"exit_code":4,"run":"r",'
    '"error":{"code":"GateFailed","what":"failed","why":"so"}}}'
)


def job(settings: JobSettings = SETTINGS, folder: Path = FOLDER) -> Any:
    return job_of(ATTEMPT, settings, folder, 2, "1/c/p", ["-C", str(FOLDER), "run"])


def at(found: Any, path: str) -> Any:
    for key in path.split("/"):
        found = found[int(key) if key.isdigit() else key]
    return found


FIELDS = {
    "metadata/namespace": "fleet-eu-1",
    "spec/backoffLimit": 3,
    "spec/podReplacementPolicy": "Failed",
    "spec/podFailurePolicy/rules/0/action": "FailJob",
    "spec/podFailurePolicy/rules/0/onExitCodes": {"containerName": "run", "operator": "In", "values": [1, 2, 3, 4, 5]},
    "spec/podFailurePolicy/rules/1/action": "Ignore",
    "spec/podFailurePolicy/rules/1/onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    "spec/template/spec/restartPolicy": "Never",
    "spec/template/spec/automountServiceAccountToken": False,
    "spec/template/spec/terminationGracePeriodSeconds": 3600,
    "spec/template/spec/securityContext/runAsNonRoot": True,
    "spec/template/spec/securityContext/seccompProfile": {"type": "RuntimeDefault"},
    "spec/template/spec/containers/0/image": SETTINGS.image,
    "spec/template/spec/containers/0/terminationMessagePath": "/dev/termination-log",
    "spec/template/spec/containers/0/securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    },
}


@pytest.mark.parametrize("path", FIELDS)
def test_fields_of_a_job(path: str) -> None:
    """Each field on which a run's safety rests has its value."""
    assert at(job(), path) == FIELDS[path]


def test_job_has_no_deadline_and_no_queue_of_its_own() -> None:
    """A run is never ended by a clock; only a queue of fleet.yaml is in the labels."""
    assert "activeDeadlineSeconds" not in job()["spec"] | job()["spec"]["template"]["spec"]
    label = "kueue.x-k8s.io/queue-name"
    assert label not in job()["metadata"]["labels"]
    queued = job(JobSettings(SETTINGS.kubeconfig, SETTINGS.image, queue="fleet"))
    assert queued["metadata"]["labels"][label] == "fleet"


def test_job_mounts_each_chunk_and_a_folder_where_the_cluster_folder_is() -> None:
    """Chunks are in order, read-only; the cluster folder can be made at its own path; nothing is mounted twice."""
    pod = job()["spec"]["template"]["spec"]
    inputs = next(each["projected"]["sources"] for each in pod["volumes"] if each["name"] == "inputs")
    assert [(each["secret"]["name"], each["secret"]["items"][0]["path"]) for each in inputs] == [
        (f"{ATTEMPT.name}-inputs-0", "0000"),
        (f"{ATTEMPT.name}-inputs-1", "0001"),
    ]
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert "/srv/fleet/clusters" in mounts and mounts["/upgrader/inputs"]["readOnly"]
    for folder in ("/tmp/eu-1", "/home/upgrader/eu-1"):
        found = job(folder=Path(folder))["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        assert len({each["mountPath"] for each in found}) == len(found) == 5
    with pytest.raises(UsageError, match="directly below /"):
        job(folder=Path("/eu-1"))


def test_names_tell_attempts_apart_and_are_short_enough() -> None:
    """Of campaign, cluster and attempt, each other one gives another name; pods' names fit behind it."""
    others = [Attempt("c", "eu-1", 2, "n"), Attempt(ATTEMPT.campaign, "eu-2", 2, "n")]
    others += [Attempt(ATTEMPT.campaign, "eu-1", 3, "n"), Attempt("c", "x" * 63, 999, "n"), Attempt("c", "a.b", 1, "n")]
    names = {each.name for each in (ATTEMPT, *others)}
    assert len(names) == 6 and max(map(len, names)) <= 51 and not any("." in each for each in names)


@pytest.mark.parametrize("name", ["a.b", "x" * 60])
def test_name_of_which_there_is_no_namespace(name: str) -> None:
    """It is refused by name, before anything is begun."""
    assert namespace_of(SETTINGS, "eu-1") == "fleet-eu-1"
    with pytest.raises(UsageError, match=f"cluster {name} can't have the namespace"):
        namespace_of(SETTINGS, name)


def test_digest_is_of_what_a_job_does() -> None:
    """The same attempt with another image isn't the same Job."""
    assert digest_of(job()) == digest_of(job()) != ""
    assert digest_of(job(JobSettings(SETTINGS.kubeconfig, "x"))) != digest_of(job())
    assert digest_of({"metadata": {}}) == ""


def test_no_secret_is_larger_than_256_kib() -> None:
    """A full chunk, as JSON, stays below; the kubeconfig is a Secret of its own."""
    kubeconfig, *chunks = secrets_of(ATTEMPT, [bytes(CHUNK_BYTES), b"x"], b"k")
    assert max(len(json.dumps(each)) for each in chunks) < 256 * 1024
    assert base64.b64decode(kubeconfig["data"]["kubeconfig"]) == b"k"


def pod(name: str = "p", made: str = "2026-12-01T00:00:00Z", phase: str = "Running", **state: Any) -> dict[str, Any]:
    statuses = [{"name": "run", "state": state}]
    return {
        "metadata": {"name": name, "creationTimestamp": made},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def ended(code: int, message: str = "") -> dict[str, Any]:
    return pod(terminated={"exitCode": code, "message": message, "finishedAt": "2026-12-01T00:00:01Z"})


def test_end_is_the_last_words_or_the_exit_code() -> None:
    """Words that fit the exit code say all; without them a known exit code counts, and no other."""
    said = end_of(ended(4, LAST))
    assert said is not None and (said.exit_code, said.run, said.code, said.why) == (4, "r", "GateFailed", "so")
    plain = end_of(ended(3, "{"))
    assert plain is not None and (plain.exit_code, plain.run) == (3, "") and "exited with code 3" in plain.what
    assert end_of(ended(0, LAST)) is None and end_of(ended(137)) is None and end_of(pod(running={})) is None
    assert end_of({"metadata": {}, "status": {}}) is None


def test_what_a_job_waits_for() -> None:
    """No pod, an image that can't be pulled, a pod without a node, and nothing."""
    assert waits_for(None) == "has no pod yet"
    assert waits_for(pod(waiting={"reason": "ImagePullBackOff"})) == "pod p waits: ImagePullBackOff"
    assert waits_for(pod(phase="Pending")) == "pod p is pending" and waits_for(pod(running={})) == ""


def test_what_a_job_is_known_by() -> None:
    """Only a condition that is True ends it; the newest pod counts; the last line with a time is its sign of life."""
    assert not has_ended({}) and not has_ended({"status": {"conditions": [{"type": "Failed", "status": "False"}]}})
    assert not has_ended({"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}})
    assert has_ended({"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    newest = newest_pod([pod("b"), pod("a", "2026-12-01T00:00:01Z")])
    assert newest is not None and newest["metadata"]["name"] == "a" and newest_pod([]) is None
    time = last_line_time(f"{LAST}\nTraceback\n")
    assert time is not None and time.isoformat() == "2026-12-01T00:00:00+00:00" and last_line_time("x") is None
