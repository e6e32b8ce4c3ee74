"""The pod of a trial has the planned flags and files, and can do nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.steps.trial.kubelets import API_SERVER, CONTROLLERS, Kubelets, ended, plan
from upgrader.model.release import ReleaseSpec
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.trial.harmless import NO_ETCD, NOWHERE, SCRATCH, got_through, harmless
from upgrader.steps.trial.programs import planned_programs
from upgrader.steps.trial.reading import last_words
from upgrader.steps.trial.trial import Trial


def tried(manifest: str = API_SERVER, before: str = "") -> tuple[dict[str, Any], Kubelets]:
    """The spec of the first pod of a trial, and what else was created."""
    kube = Kubelets(lambda _: ended(0))
    Trial(kube, FakeClock(), CONTROLLERS).run(planned_programs(plan(manifest, before=before)), lambda _: None)
    return kube.pods()[0]["spec"], kube


def test_planned_program_is_started_without_its_shell() -> None:
    """The planned image, with its own arguments; those of etcd lead nowhere, and one has no file here."""
    spec, _ = tried()
    (container,) = spec["containers"]
    assert container["image"] == "r.io/kube-apiserver:v1.37.1"
    assert container["command"] == ["kube-apiserver"]
    assert container["args"] == [
        "--v=2",
        "--audit-policy-file=/audit/policy.yaml",
        f"--etcd-servers=https://{NOWHERE}",
        f"--etcd-cafile={NO_ETCD}",
        f"--cert-dir={SCRATCH}",
    ]
    assert [each["name"] for each in container["env"]] == ["HOST_IP"]


def test_pod_can_do_no_harm() -> None:
    """A network of its own, no token, no capability to change anything, no probe, no label of a Service, no second
    container.
    """
    spec, kube = tried()
    (container,) = spec["containers"]
    assert "hostNetwork" not in spec and "serviceAccountName" not in spec and "initContainers" not in spec
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": 0}
    assert container["securityContext"] == {
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},  # privileged
    }
    assert "livenessProbe" not in container
    assert "app" not in kube.pods()[0]["metadata"]["labels"]
    assert spec["tolerations"] == [{"operator": "Exists"}] and spec["activeDeadlineSeconds"] == 180


@pytest.mark.parametrize(
    ("planned", "added"),
    [
        ("{}", ["DAC_OVERRIDE"]),
        ("{capabilities: {drop: [ALL]}}", None),
        ("{capabilities: {drop: [dac_override]}}", None),
        ("{capabilities: {drop: [ALL], add: [CAP_DAC_READ_SEARCH, NET_BIND_SERVICE]}}", ["DAC_OVERRIDE"]),
        ("{capabilities: {add: [ALL]}}", ["DAC_OVERRIDE"]),
    ],
)
def test_program_may_read_what_it_will_be_able_to_read(planned: str, added: list[str] | None) -> None:
    """Where certificates are of a user `etcd`, root reads them by a capability that containers have by default."""
    spec, _ = tried(API_SERVER.replace("{privileged: true, runAsGroup: 0}", planned))
    assert spec["containers"][0]["securityContext"]["capabilities"].get("add") == added


def test_files_are_read_only_and_made_for_nobody() -> None:
    """What may have to be created on the node is left out, unless today's pods have it already, or a flag names it."""
    spec, _ = tried()
    mounts = {each["name"]: each for each in spec["containers"][0]["volumeMounts"]}
    assert mounts["pki"] == {"name": "pki", "mountPath": "/pki", "readOnly": True}
    assert mounts["upgrader-trial"] == {"name": "upgrader-trial", "mountPath": SCRATCH}
    assert set(mounts) == {"upgrader-trial", "pki", "runtime", "audit"} == {each["name"] for each in spec["volumes"]}
    today = API_SERVER.replace("v1.37.1", "v1.36.3")
    there = {each["name"]: each for each in tried(before=today)[0]["volumes"]}
    assert there["logs"] == {"name": "logs", "hostPath": {"path": "/var/log/audit", "type": "Directory"}}
    named = API_SERVER.replace("'--v=2'", "--config=/var/log/audit/c.yaml")
    assert "logs" in {each["name"] for each in tried(named)[0]["volumes"]}


def test_files_that_the_plan_brings_are_copied() -> None:
    """Only what the program's own container mounts, as it will be; both controllers' pods share the copy."""
    spec, kube = tried()
    (copy,) = [each for each in kube.created if each["kind"] == "ConfigMap"]
    assert copy["data"] == {"policy.yaml": "planned"} and copy["metadata"]["name"] != "audit"
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert volumes["audit"]["configMap"]["name"] == copy["metadata"]["name"]


@pytest.mark.parametrize("flag", ["'--token_auth_file', '/run/kube/tokens.csv'", "--token-auth-file=/run/kube/t"])
def test_flags_of_files_that_another_container_writes_are_left_out_in_any_form(flag: str) -> None:
    """Nothing writes them here: the program would refuse them."""
    spec, _ = tried(API_SERVER.replace("'--token-auth-file=/run/kube/tokens.csv'", flag))
    assert not [each for each in spec["containers"][0]["args"] if "token" in each]


def test_files_of_an_earlier_release_are_copied_too() -> None:
    """When the program is started they are there, and as they will be; those of a later release are not."""
    manifest, _, files = API_SERVER.partition("\n---\n")
    own, config = plan(manifest).steps[0], plan(files).steps[0]
    assert isinstance(config, PlannedRelease)
    config = replace(config, spec=ReleaseSpec("config", "kube-system", Path("/c")))
    for steps, copies in (((config, own), 1), ((own, config), 0)):
        kube = Kubelets(lambda _: ended(0))
        trial = Trial(kube, FakeClock(), CONTROLLERS)
        trial.run(planned_programs(replace(plan(), steps=steps)), lambda _: None)
        assert sum(each["kind"] == "ConfigMap" for each in kube.created) == copies


def test_secrets_in_the_environment_are_copied_too() -> None:
    """Wherever a container may refer to one; what the plan doesn't bring is left as it is."""
    env = "envFrom: [{secretRef: {name: mine}}, {configMapRef: {name: theirs}}]\n          livenessProbe:"
    secret = "\n---\n{kind: Secret, metadata: {name: mine, namespace: kube-system}, stringData: {a: b}}"
    spec, kube = tried(API_SERVER.replace("livenessProbe:", env) + secret)
    (copy,) = [each for each in kube.created if each["kind"] == "Secret"]
    assert copy["stringData"] == {"a": "b"}
    assert spec["containers"][0]["envFrom"] == [
        {"secretRef": {"name": copy["metadata"]["name"]}},
        {"configMapRef": {"name": "theirs"}},
    ]


def test_program_of_the_images_own_command_and_a_path() -> None:
    """Without a command the image's own starts it; with a path, that one."""
    shell = """[/run/sh, -c, 'exec "$0" "$@"', kube-apiserver]"""
    assert "command" not in tried(API_SERVER.replace(f"command: {shell}", "tty: false"))[0]["containers"][0]
    spec, _ = tried(API_SERVER.replace(shell, "[/usr/bin/kube-apiserver, --v=3]"))
    assert spec["containers"][0]["command"] == ["/usr/bin/kube-apiserver"]
    assert spec["containers"][0]["args"][0] == "--v=3"


def test_flags_that_lead_somewhere_are_changed_in_any_form() -> None:
    """`--name value` as `--name=value`, with `_` as with `-`; what isn't given isn't added."""
    assert harmless("kube-scheduler", ["--authentication_kubeconfig", "/a", "--kubeconfig=/b", "-v", "2"]) == (
        "--kubeconfig=/b",
        "-v",
        "2",
        "--authentication-kubeconfig=",
        f"--master=https://{NOWHERE}",
        f"--cert-dir={SCRATCH}",
        f"--write-config-to={SCRATCH}/config",
    )
    assert harmless("kube-proxy", []) == (f"--write-config-to={SCRATCH}/config",)


def test_only_what_runs_on_gets_through_while_it_runs() -> None:
    """kube-apiserver looks after etcd beside its start, and may name the missing file before it has read the rest."""
    assert got_through("kube-controller-manager", NOWHERE, None)
    assert not got_through("kube-apiserver", NO_ETCD, None)
    assert got_through("kube-apiserver", NO_ETCD, 1)
    assert not got_through("kube-scheduler", "", None)


def test_last_words_begin_with_the_failure() -> None:
    """Not with what was logged before; of a log without one, the end."""
    log = 'I1 a\nE1123 18:00:00 1 run.go:72] "command failed" err=<\n\tstrict decoding\n >'
    assert last_words(log) == log.partition("\n")[2]
    assert last_words("\n".join(map(str, range(99)))).splitlines()[-1] == "98"
    assert len(last_words("panic: " + "x" * 9999)) == 1500
