"""`upgrader.yaml` becomes Settings, or one message that says where and what."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.load import Overrides, load_settings
from upgrader.errors import ConfigError
from upgrader.model.availability import Limits
from upgrader.model.gate_settings import GatePolicy, WorkloadGate
from upgrader.model.settings import BUILT_IN_CHARTS, BackupSettings, PlaybookSettings, RecoverySettings, ReleaseSettings
from upgrader.model.version import KubernetesVersion

MINIMAL = "kubernetesVersion: v1.36.3\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cluster folder, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    """Write a file of the cluster folder."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def refusal(folder: Path, text: str) -> ConfigError:
    """The error that a file of this content gives."""
    write(folder, "upgrader.yaml", text)
    with pytest.raises(ConfigError) as caught:
        load_settings(folder, {})
    return caught.value


def test_one_line_is_enough(folder: Path) -> None:
    """A file that says only the version gets the default pipeline, paths and policy."""
    write(folder, "upgrader.yaml", MINIMAL)
    settings = load_settings(folder, {})
    assert settings.target == KubernetesVersion(1, 36, 3)
    assert settings.kubeconfig == folder / "kubeconfig"
    assert settings.inventory == folder / "hosts.yml"
    assert settings.on_failure == "rollback-run"
    assert [step.name for step in settings.pipeline] == list(BUILT_IN_CHARTS)
    assert all(isinstance(step, ReleaseSettings) and step.namespace == "kube-system" for step in settings.pipeline)


def test_every_key_is_read(folder: Path) -> None:
    """Every documented key reaches the settings, durations in seconds and paths absolute."""
    write(folder, "playbooks/extra.yml", "[]\n")
    write(folder, "playbooks/undo-extra.yml", "[]\n")
    write(folder, "charts/my-app/Chart.yaml", "name: my-app\n")
    write(folder, "mine.yaml", "replicas: 2\n")
    write(
        folder,
        "upgrader.yaml",
        """\
kubernetesVersion: 1.37.1
cluster: {kubeconfig: kc, context: demo, inventory: inv.yml}
helm: {timeout: 1h}
policy: {onFailure: stop, keepRuns: 3, recovery: {after: 30s}}
gates: {consecutive: 5, interval: 2s, deadline: 1m30s}
availability: {requestsPerSecond: 0}
pipeline:
  - release: my-app
    namespace: apps
    chart: ./charts/my-app
    values: mine.yaml
    gates:
      - deployment: apps/my-app
        deadline: 5m
  - playbook: playbooks/extra.yml
    undo: playbooks/undo-extra.yml
""",
    )
    settings = load_settings(folder, {})
    assert (settings.kubeconfig, settings.context, settings.inventory) == (folder / "kc", "demo", folder / "inv.yml")
    assert (settings.helm_timeout_seconds, settings.on_failure, settings.keep_runs) == (3600, "stop", 3)
    assert settings.recovery == RecoverySettings(enabled=True, after_seconds=30)
    assert settings.gates == GatePolicy(5, 2, 90)
    assert settings.availability.requests_per_second == 0
    assert settings.pipeline == (
        ReleaseSettings(
            "my-app",
            "apps",
            chart=folder / "charts/my-app",
            values={"replicas": 2},
            values_file=folder / "mine.yaml",
            gates=(WorkloadGate("deployment", "apps", "my-app", GatePolicy(5, 2, 300)),),
        ),
        PlaybookSettings("extra", folder / "playbooks/extra.yml", folder / "playbooks/undo-extra.yml"),
    )


def test_gates_of_what_guard_looks_after(folder: Path) -> None:
    """Each by its namespace and name; a group has time for all of its pods, unless the file says how long."""
    text = """\
gates: {deadline: 1m}
pipeline:
  - release: kubernetes
    gates:
      - statefulset: shop/db
      - rolloutGroup: shop/db
      - rolloutGroup: shop/cache
        deadline: 10m
      - protector: shop/web
"""
    write(folder, "upgrader.yaml", MINIMAL + text)
    (item,) = load_settings(folder, {}).pipeline
    assert item.gates == (
        WorkloadGate("statefulset", "shop", "db", GatePolicy(3, 1, 60)),
        WorkloadGate("rolloutGroup", "shop", "db", GatePolicy(3, 1, 1800)),
        WorkloadGate("rolloutGroup", "shop", "cache", GatePolicy(3, 1, 600)),
        WorkloadGate("protector", "shop", "web", GatePolicy(3, 1, 60)),
    )
    assert load_settings(folder, {}).workload_gates == item.gates


def test_flags_beat_the_environment_which_beats_the_file(folder: Path) -> None:
    """Later sources win, and a path that comes from the shell is relative to where the shell is."""
    write(folder, "cluster/upgrader.yaml", MINIMAL + "cluster: {context: file, kubeconfig: file}\n")
    environ = {"UPGRADER_CONTEXT": "environment", "UPGRADER_KUBECONFIG": "environment"}
    by_environment = load_settings(Path("cluster"), environ)
    assert (by_environment.context, by_environment.kubeconfig) == ("environment", folder / "environment")
    flags = Overrides(KubernetesVersion(1, 37, 1), Path("flag"), "flag")
    by_flag = load_settings(Path("cluster"), environ, flags)
    assert (by_flag.context, by_flag.kubeconfig, str(by_flag.target)) == (
        "flag",
        folder / "flag",
        "v1.37.1",
    )


def test_values_of_a_built_in_release(folder: Path) -> None:
    """`values/RELEASE.yaml` is read when it is there; its absence means the chart's defaults."""
    write(folder, "upgrader.yaml", MINIMAL)
    write(folder, "values/kube-apiserver.yaml", "extraArgs: {v: '4'}\n")
    values = {
        step.name: step.values for step in load_settings(folder, {}).pipeline if isinstance(step, ReleaseSettings)
    }
    assert values == {"pod-checkpointer": {}, "kube-apiserver": {"extraArgs": {"v": "4"}}, "kubernetes": {}}


def test_malformed_values_name_their_own_file(folder: Path) -> None:
    """An error in a values file points into that file, not into upgrader.yaml."""
    write(folder, "values/kubernetes.yaml", "a: 1\nb: [\n")
    assert refusal(folder, MINIMAL).message.startswith("values/kubernetes.yaml:3: is not valid YAML")


def test_values_may_have_numbers_as_keys(folder: Path) -> None:
    """Charts that map port numbers work: only upgrader.yaml's own keys are restricted."""
    write(folder, "upgrader.yaml", MINIMAL)
    write(folder, "values/kubernetes.yaml", "tcp: {8080: a/b}\n")
    step = load_settings(folder, {}).pipeline[2]
    assert isinstance(step, ReleaseSettings)
    assert step.values == {"tcp": {8080: "a/b"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kubernetsVersion: v1.36.3\n", "1: unknown key 'kubernetsVersion'; did you mean 'kubernetesVersion'?"),
        (
            MINIMAL + "kubernetes_version: v1.36.3\n",
            "2: unknown key 'kubernetes_version'; did you mean 'kubernetesVersion'?",
        ),
        (
            MINIMAL + "helm:\n  wait: 5m\n",
            "3: unknown key 'wait'; expected one of timeout",
        ),
        (MINIMAL + "pipeline:\n  - relase: x\n", "3: unknown key 'relase'; did you mean 'release'?"),
        (MINIMAL + "pipeline:\n  - playbok: x\n", "3: unknown key 'playbok'; did you mean 'playbook'?"),
        (MINIMAL + "pipeline:\n  - namespace: x\n", "3: key 'pipeline.release' is missing"),
        ("cluster: {}\n", "1: key 'kubernetesVersion' is missing"),
        (
            "kubernetesVersion: 1.36\n",
            "1: 'kubernetesVersion': '1.36' is not a Kubernetes version; write it like v1.37.1",
        ),
        (
            "kubernetesVersion: v1.38.0-rc.1\n",
            (
                "1: 'kubernetesVersion': 'v1.38.0-rc.1' is not a plain release: pre-releases and vendors' builds are "
                "not supported; write it like v1.37.1"
            ),
        ),
        (MINIMAL + "helm: {timeout: 90}\n", "2: 'helm.timeout': 90 is not a duration; write it like 90s, 5m or 1h"),
        (
            MINIMAL + "helm: {timeout: 0s}\n",
            "2: 'helm.timeout': '0s' is not a positive duration; write it like 90s, 5m or 1h",
        ),
        (MINIMAL + "helm: 5m\n", "2: 'helm' must be a mapping, not the text '5m'"),
        (MINIMAL + "gates:\n  consecutive: '3'\n", "3: 'gates.consecutive' must be a whole number, not the text '3'"),
        (MINIMAL + "pipeline: []\n", "2: 'pipeline' must not be empty"),
        (MINIMAL + "pipeline: [5]\n", "2: an item of 'pipeline' must be a mapping, not 5"),
        (
            MINIMAL + "policy:\n  onFailure: rollback\n",
            (
                "3: 'policy.onFailure' must be one of 'rollback-run', 'rollback-step' or 'stop', not 'rollback'; "
                "did you mean 'rollback-run'?"
            ),
        ),
        (MINIMAL + MINIMAL, "2: key 'kubernetesVersion' is already on line 1"),
        ("- a\n", "1: expected `key: value` lines, not a list"),
        ("a: b: c\n", "1: is not valid YAML: mapping values are not allowed in this context"),
        ("# nothing\n", "1: the file is empty"),
        (MINIMAL + "pipeline:\n  - release: mine\n", "3: release 'mine' needs a key 'chart'"),
        (MINIMAL + "pipeline:\n  - release: mine\n    chart: nope\n", "4: there is no chart nope"),
        (MINIMAL + "pipeline:\n  - release: kubernetes\n    values: x\n", "4: there is no values file x"),
        (MINIMAL + "pipeline:\n  - playbook: x.yml\n", "3: there is no playbook x.yml"),
        (MINIMAL + "pipeline:\n  - {playbook: upgrader.yaml, undo: x.yml}\n", "3: there is no playbook x.yml"),
        (
            MINIMAL + "pipeline:\n  - release: kubernetes\n  - release: kubernetes\n",
            "4: the pipeline has two steps named 'kubernetes'",
        ),
        (
            MINIMAL + "images: {parallel: 0}\n",
            (
                "2: 'images.parallel': no node would pull images; write a number of at least 1, or a percentage such "
                "as 10%"
            ),
        ),
        (MINIMAL + "pipeline:\n  - {release: images, chart: .}\n", "3: 'images' is the name of a built-in step"),
        (
            MINIMAL + "pipeline:\n  - release: kubernetes\n    gates:\n      - daemonset: dns\n",
            "5: 'pipeline.gates.daemonset': 'dns' does not name a workload; write it as NAMESPACE/NAME",
        ),
        (
            MINIMAL + "pipeline:\n  - release: kubernetes\n    gates:\n      - {daemonset: a/b, deployment: a/b}\n",
            "5: a gate needs exactly one of the keys daemonset, deployment, statefulset, rolloutGroup, protector",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(folder: Path, text: str, message: str) -> None:
    """Every kind of mistake gives `FILE:LINE: what`, with the nearest right word where there is one."""
    assert refusal(folder, text).message == f"upgrader.yaml:{message}"


def test_several_mistakes_are_listed_by_line(folder: Path) -> None:
    """Two mistakes are two lines in the file's order, so that one look repairs both."""
    message = refusal(folder, "gates: {consecutive: 0}\nhelm: {timeout: soon}\n" + MINIMAL).message
    assert [line.split(" ")[0] for line in message.splitlines()] == ["upgrader.yaml:1:", "upgrader.yaml:2:"]


def test_a_missing_file_says_where_to_find_one(folder: Path) -> None:
    """Without the file the error names it and the flag that selects a folder."""
    with pytest.raises(ConfigError) as caught:
        load_settings(folder / "nowhere", {})
    assert caught.value.message.startswith("nowhere/upgrader.yaml: no such file")
    assert "-C DIR" in caught.value.remedy
    assert caught.value.exit_code == 2


def test_an_anchor_that_holds_itself_is_refused(folder: Path) -> None:
    """A recursive document ends in an error, not in endless recursion."""
    assert "contains itself" in refusal(folder, "a: &a\n  b: *a\n").message


def test_limits_are_each_steps_own_or_everybodys(folder: Path) -> None:
    """What a step may cost the API's clients is said for all, and by a step for itself, either half of it alone."""
    write(folder, "reboot.yml", "[]\n")
    write(
        folder,
        "upgrader.yaml",
        MINIMAL
        + """\
availability: {requestsPerSecond: 20, addresses: ["https://10.0.0.2:6443"], maxFailed: 0, maxGap: 2s}
pipeline:
  - release: kube-apiserver
  - playbook: reboot.yml
    availability: {maxGap: 2m}
  - release: kubernetes
    availability: {maxFailed: 0, maxGap: 0.5s}
""",
    )
    settings = load_settings(folder, {})
    assert settings.availability.addresses == ("https://10.0.0.2:6443",)
    names = ("kube-apiserver", "reboot", "kubernetes", "unstick kubernetes")
    assert [settings.limits(name, 3) for name in names] == [
        Limits(0, 2.0),
        Limits(0, 120.0),
        Limits(0, 0.5),
        Limits(0, 2.0),
    ]


def test_everything_wrong_is_said_at_once(folder: Path) -> None:
    """Keys, files and values files of several steps: whoever repairs a folder doesn't go through it line by line."""
    write(folder, "bad.yaml", "a: [\n")
    error = refusal(
        folder,
        "kubernetesVersion: v1.36.3\n"
        "gates: {consecutiv: 1}\n"
        "pipeline:\n"
        "  - {release: kubernetes, chart: gone, values: bad.yaml}\n"
        "  - {playbook: gone.yml, undo: gone-too.yml}\n"
        "  - {release: x, chart: oci://registry/x}\n",
    )
    assert [line.partition(" ")[0] for line in error.message.splitlines()] == [
        "upgrader.yaml:2:",
        "upgrader.yaml:4:",
        "bad.yaml:2:",
        "upgrader.yaml:5:",
        "upgrader.yaml:5:",
        "upgrader.yaml:6:",
    ]
    assert "helm pull" in error.remedy


@pytest.mark.parametrize("name", ["--post-renderer=./x", "-n", "Web", "a" * 54, "a_b", "5"])
def test_name_that_helm_does_not_take_is_refused(folder: Path, name: str) -> None:
    """Helm would take some of these for options, which start programs and open files."""
    error = refusal(folder, f"{MINIMAL}pipeline: [{{release: {name}, chart: web}}]\n")
    assert "is not a release's name" in error.message and error.message.startswith("upgrader.yaml:2:")


def test_severities_of_findings(folder: Path) -> None:
    """Any may be raised; lowered may be what can be skipped."""
    severities = "{webhooks.no-backend: info, nodes.cordoned: error, releases.last-failed: warning, apis.unknown: info}"
    write(folder, "upgrader.yaml", f"{MINIMAL}checks: {{severities: {severities}}}\n")
    assert load_settings(folder, {}).severities["nodes.cordoned"] == "error"
    assert load_settings(folder, {}).severities["webhooks.no-backend"] == "info"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("webhooks.no-backnd: info", "no check has the id 'webhooks.no-backnd'; did you mean 'webhooks.no-backend'?"),
        ("xyz: info", "no check has the id 'xyz'"),
        ("hosts.unreachable: warning", "'hosts.unreachable' is error, and can't be lowered to warning"),
        ("control-plane.not-ready: warning", "'control-plane.not-ready' is error, and can't be lowered to warning"),
        ("nodes.unknown: warning", "'nodes.unknown' is unknown, and can't be lowered to warning"),
        ("releases.pending: info", "'releases.pending' is warning, and can't be lowered to info"),
        ("files.invalid: info", "'files.invalid' is error, and can't be lowered to info"),
        ("webhooks.slow: fatal", "must be one of 'error', 'warning' or 'info', not 'fatal'"),
    ],
)
def test_severities_that_are_refused(folder: Path, entry: str, message: str) -> None:
    """The error has the line of the id; what no run gets past can't be lowered, as it can't be skipped."""
    error = refusal(folder, f"{MINIMAL}checks:\n  severities:\n    apis.unavailable: error\n    {entry}\n")
    assert error.message.startswith("upgrader.yaml:5: ") and message in error.message


RECIPIENT = "age1spl2swq3ujnctvxrju6yzx2t07qgxzhycum5sg2x9c9lt2kus3vs0xszn0"


def test_backups_are_read(folder: Path) -> None:
    """Who can read them, where they are (below the cluster's folder), and how long they are kept."""
    backup = f"backup: {{recipients: [{RECIPIENT}], folder: b, keep: 3, maxAge: 720h}}\n"
    write(folder, "upgrader.yaml", MINIMAL + backup)
    assert load_settings(folder, {}).backup == BackupSettings((RECIPIENT,), folder / "b", 3, 30 * 86400.0)


@pytest.mark.parametrize(
    ("recipient", "why"),
    [
        (RECIPIENT.replace("ujn", "ujm"), "the checksum is wrong"),
        (RECIPIENT[:-1], "not an age public key"),
        ("ssh-ed25519 AAAA", "not an age public key"),
        ("AGE-SECRET-KEY-1QQQQ", "this is an age private key"),
    ],
)
def test_a_wrong_recipient_is_refused_by_its_line(folder: Path, recipient: str, why: str) -> None:
    """File, line and key; a private key that was put there by mistake is not quoted."""
    error = refusal(folder, f"{MINIMAL}backup:\n  recipients:\n    - {recipient}\n")
    assert "upgrader.yaml:4: backup.recipients" in error.message
    assert why in error.message
    assert "QQQQ" not in error.message
