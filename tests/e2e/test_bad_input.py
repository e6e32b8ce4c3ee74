"""Wrong input: one clear message, the right exit code, and nothing is changed.

Most of it is refused by `main` in this process, as a start takes longer than all that is done before a refusal.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from testkit.backups import make_keys
from testkit.command import Ended, upgrader
from testkit.lab_cluster import OLD, LabCluster
from tests.unit.steps.images.bundle.archives import image_archive
from upgrader.app.saved_plans import VALID
from upgrader.app.wiring import age_files
from upgrader.cli.main import main
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.writing import write_bundle
from upgrader.steps.plan_document import FORMAT_VERSION

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: admin, user: {}}]
contexts: [{name: admin@one, context: {cluster: one, user: admin}}]
current-context: admin@one
"""
HOSTS = "controllers: {hosts: {controller-1: {ansible_host: 192.0.2.11}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid cluster folder for a cluster that doesn't exist."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "hosts.yml").write_text(HOSTS)
    return tmp_path


@pytest.fixture(autouse=True)
def _secrets_are_forgotten() -> Iterator[None]:
    """What a command in this process has learned to mask isn't masked in what other tests print."""
    forms, pattern = set(KNOWN._forms), KNOWN._pattern
    yield
    KNOWN._forms, KNOWN._pattern = forms, pattern


def in_process(*arguments: str | Path) -> Ended:
    """What `main` exits with, and what it prints, as a process of its own would."""
    words = tuple(map(str, arguments))
    begun, out, errors = time.monotonic(), io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["upgrader", *words])
        with pytest.raises(SystemExit) as exit_:
            main()
    code = exit_.value.code
    assert isinstance(code, int)
    return Ended(words, code, out.getvalue(), errors.getvalue(), time.monotonic() - begun)


def refused(folder: Path, *arguments: str, code: int = 2, started: bool = False) -> Ended:
    """Run `upgrader run`, which must exit with this code, without a traceback and without a run folder; `started`: as a
    process of its own.
    """
    command: tuple[str | Path, ...] = ("-C", folder, "run", "--yes", *arguments)
    ended = upgrader(*command, timeout_seconds=60) if started else in_process(*command)
    assert ended.exit_code == code, ended
    assert "Traceback" not in ended.stderr, ended
    assert list((folder / "runs").glob("*/")) == []
    return ended


def test_no_settings(folder: Path) -> None:
    """A folder without upgrader.yaml is named, with a remedy."""
    (folder / "upgrader.yaml").unlink()
    assert "upgrader.yaml" in refused(folder, started=True).stderr


def test_unknown_key(folder: Path) -> None:
    """An unknown key is reported with file, line and the nearest right key."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\npolicy:\n  onFailur: stop\n")
    output = refused(folder).stderr
    assert "upgrader.yaml:3" in output
    assert "onFailur" in output
    assert "onFailure" in output


def test_not_yaml(folder: Path) -> None:
    """A file that is not YAML is reported with file and line."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\npolicy: {onFailure: [\n")
    assert "upgrader.yaml:" in refused(folder).stderr


def test_inventory_without_controllers(folder: Path) -> None:
    """An inventory without the group of controllers is reported by file and group."""
    (folder / "hosts.yml").write_text("workers: {hosts: {worker-1: {ansible_host: 192.0.2.31}}}\n")
    output = refused(folder).stderr
    assert "hosts.yml" in output
    assert "controllers" in output


def test_wrong_context(folder: Path) -> None:
    """A kubeconfig whose current context is not that of upgrader.yaml is refused before any connection."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\ncluster: {context: admin@other}\n")
    output = refused(folder).stderr
    assert "admin@other" in output
    assert "admin@one" in output


def test_not_a_version(folder: Path) -> None:
    """A target that is not a version is refused with the right format."""
    assert "v1.37.1" in refused(folder, "--to", "latest").stderr


def test_values_that_can_not_be_read(folder: Path) -> None:
    """No YAML, no text, a list, a key twice, a pipe (which would be waited for): file, and line where there is one."""
    (folder / "values").mkdir()
    values = folder / "values/kubernetes.yaml"
    for content, said in (
        (b"a: 1\n  b: [\n", "values/kubernetes.yaml:2: is not valid YAML"),
        (b"a: \xff\n", "values/kubernetes.yaml: is not UTF-8 text"),
        (b"- a\n", "values/kubernetes.yaml:1: expected `key: value` lines, not a list"),
        (b"a: 1\na: 2\n", "values/kubernetes.yaml:2: key 'a' is already on line 1"),
    ):
        values.write_bytes(content)
        assert said in refused(folder).stderr
    values.unlink()
    os.mkfifo(values)
    assert "values/kubernetes.yaml: can't be read: it is a pipe" in refused(folder, started=True).stderr


WEB = """\
kubernetesVersion: v1.37.1
pipeline:
  - {release: web, namespace: shop, chart: charts/app, values: values/web.yaml}
"""
SCHEMA = """\
{"type": "object", "additionalProperties": false, "properties":
 {"replicas": {"type": "integer"}, "image": {"type": "object", "properties": {"tag": {"type": "string"}}}}}
"""
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  tag: {{ .Values.image.tag | required "image.tag is needed" }}
"""


@pytest.fixture
def web(folder: Path) -> Path:
    """The same folder with a chart of its own, whose values have a schema."""
    (folder / "upgrader.yaml").write_text(WEB)
    (folder / "values").mkdir()
    (folder / "values/web.yaml").write_text("image:\n  tag: one\n")
    chart = folder / "charts/app"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}\n")
    (chart / "values.schema.json").write_text(SCHEMA)
    (chart / "templates/map.yaml").write_text(TEMPLATE)
    return folder


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            "values/web.yaml",
            "image:\n  tag: 3\nreplicas: lots\nimge: {}\n",
            (
                "values/web.yaml:2: 'image.tag': got number, want string",
                "values/web.yaml:3: 'replicas': got string, want integer",
                "values/web.yaml:4: additional properties 'imge' not allowed",
            ),
        ),
        ("values/web.yaml", "image: {}\n", ("charts/app/templates/map.yaml:5:", "image.tag is needed")),
        ("charts/app/templates/map.yaml", "a: 1\nb: {{ nope }}\n", ("charts/app/templates/map.yaml:2", '"nope"')),
        ("charts/app/templates/map.yaml", "a: b: c\n", ("charts/app/templates/map.yaml", "YAML")),
    ],
    ids=["schema", "required value", "template that is none", "no YAML"],
)
def test_chart_that_does_not_render(web: Path, file: str, content: str, said: tuple[str, ...]) -> None:
    """The schema's complaints have the values' file, line and key; a template's have its file and line."""
    (web / file).write_text(content)
    planned = in_process("-C", web, "plan", "--offline")
    assert planned.exit_code == 2 and "Traceback" not in planned.stderr, planned
    assert [words for words in (*said, "values/web.yaml") if words not in planned.stderr] == [], planned
    assert not (web / "runs").exists()


def test_plan_of_yesterday(folder: Path) -> None:
    """It is refused by its time alone, before any cluster is asked."""
    made = datetime.now(UTC) - timedelta(days=2)
    binding = {"tool_version": "1", "cluster_uid": "u", "current": "v1.36.3", "target": "v1.37.1"}
    content = {
        "format_version": FORMAT_VERSION,
        "created": made.isoformat(),
        "expires": (made + VALID).isoformat(),
        "salt": "0" * 64,
        "binding": {**binding, "steps": [], "releases": [], "inputs": []},
        "seal": "0" * 64,
    }
    file = folder.parent / f"{folder.name}-plan.json"
    file.write_text(json.dumps(content))
    said = refused(folder, "--plan", str(file), code=3).stderr
    assert str(file) in said and f"expired at {content['expires']}" in said and "nothing was changed" in said


def test_bundle_with_a_wrong_checksum(folder: Path) -> None:
    """One flipped bit of an image: the bundle, the line of its checksums and the image's file are named."""
    bundle = folder / "bundle.tar"
    write_bundle(bundle, KubernetesVersion(1, 37, 1), [image_archive(folder / "a.tar", "registry.example/web:2")], {})
    content = bytearray(bundle.read_bytes())
    content[content.index(b"layer")] ^= 1
    bundle.write_bytes(content)
    said = refused(folder, "--bundle", str(bundle)).stderr
    assert f"{bundle}: SHA256SUMS:2: images/web_2.tar: its SHA-256 is" in said


@pytest.mark.parametrize("command", [("backup", "verify"), ("restore", "--yes")], ids=["verify", "restore"])
def test_key_that_does_not_open_a_backup(folder: Path, command: tuple[str, ...]) -> None:
    """Another key, one with a wrong line, one that others can read: what is wrong, without the key itself."""
    keys = make_keys(folder)
    backup = folder / "a.backup"
    with backup.open("wb") as file:
        age_files().encrypt(iter([b"anything"]), (keys.recipient,), file)

    def said(identity: Path) -> str:
        ended = in_process("-C", folder, *command, backup, "--identity", identity)
        assert ended.exit_code == 2 and "Traceback" not in ended.stderr, ended
        assert "AGE-SECRET-KEY-1" not in ended.stderr.replace("AGE-SECRET-KEY-1…", "")
        return ended.stderr

    of_another = said(keys.other)
    assert str(backup) in of_another and "the identity matches no recipient" in of_another, of_another
    keys.other.write_text("# a comment\nnot a key\n")
    assert f"{keys.other}:2: this line is not an age private key" in said(keys.other)
    keys.identity.chmod(0o644)
    assert f"{keys.identity} has the private key of your backups, and other users can read it" in said(keys.identity)
    assert not (folder / "runs").exists()


def test_kubernetes_api_that_does_not_answer(folder: Path) -> None:
    """An unreachable cluster blocking the run, with its address in the message."""
    (folder / "kubeconfig").write_text(KUBECONFIG.replace("192.0.2.1:6443", "127.0.0.1:1"))
    assert "127.0.0.1" in refused(folder, code=5, started=True).stderr


@pytest.mark.parametrize("target", ["v1.35.4", "v1.38.0"], ids=["downgrade", "two minors"])
def test_versions_that_can_not_be_reached(cluster: LabCluster, target: str) -> None:
    """A downgrade and a jump of two minor versions are blocked, both versions are named, nothing changes."""
    assert_refused_untouched(cluster, "--to", target, words=[target, "v1.36.3"])


def test_unreachable_host(cluster: LabCluster) -> None:
    """A controller that SSH can't reach blocking the run, by name; nothing changes."""
    hosts = cluster.folder / "hosts.yml"
    address = cluster.on_controller("hostname", "-I").split()[0]
    hosts.write_text(hosts.read_text().replace(address, "127.0.0.1"))
    assert_refused_untouched(cluster, "--to", "v1.37.1", words=["controller-1"])


def assert_refused_untouched(cluster: LabCluster, *arguments: str, words: list[str]) -> None:
    """Assert that `run` ends with 3 (2 for a wrong command line), with all words in its message and nothing changed."""
    releases, runs = cluster.releases(), cluster.runs()
    ended = cluster.upgrader("run", "--yes", *arguments)
    assert ended.exit_code in (2, 3), ended
    output = ended.stdout + ended.stderr
    assert [word for word in words if word not in output] == [], ended
    assert cluster.releases() == releases
    assert cluster.runs() == runs


@pytest.mark.soak
def test_flag_that_kube_apiserver_does_not_know(cluster: LabCluster) -> None:
    """It is told before anything changes, with its name; nobody has to watch a new instance crash for that."""
    before = cluster.manifests()
    cluster.change_values("kube-apiserver", {"extraArgs": {"no-such-flag": "1"}})
    ended = cluster.run(OLD)
    assert ended.exit_code == 3 and "--no-such-flag" in ended.stdout + ended.stderr, ended
    assert cluster.manifests() == before
