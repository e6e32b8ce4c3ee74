"""`upgrader check --offline`: all that a folder alone tells, although a stranger may have written every file of it."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.unit.model.test_limited_yaml import BOMB
from upgrader.cli.main import cli
from upgrader.errors import Blocked, UsageError

PIPELINE = """\
kubernetesVersion: v1.37.1
cluster: {kubeconfig: kubeconfig}
pipeline:
  - release: web
    chart: web
    values: web.yaml
  - playbook: checks.yml
    undo: undo.yml
"""
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: {{ .Values.size | quote }}}
"""
INVENTORY = "all: {children: {controllers: {hosts: {a: {ansible_host: 192.0.2.1, token: !vault x}}}}}\n"


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """A cluster folder in which nothing is wrong; it has no kubeconfig and no key."""
    folder = tmp_path / "cluster"
    (folder / "web/templates").mkdir(parents=True)
    for name, text in {
        "upgrader.yaml": PIPELINE,
        "web.yaml": "size: small\n",
        "checks.yml": "- {hosts: all, tasks: []}\n- import_playbook: undo.yml\n",
        "undo.yml": "- {hosts: all, vars: {password: !vault x}}\n",
        "hosts.yml": INVENTORY,
        "web/Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0}\n",
        "web/values.schema.json": '{"properties": {"size": {"type": "string"}}}',
        "web/templates/all.yaml": TEMPLATE,
    }.items():
        (folder / name).write_text(text)
    return folder


def test_a_missing_file_is_one_line_and_what_else_is_missing_below(tmp_path: Path) -> None:
    """The first words of a finding are its title; a list that followed in it would read as one sentence."""
    (id_, _, title), *_ = findings(tmp_path)
    assert id_ == "files.invalid" and title.endswith("upgrader.yaml: no such file")


def check(at: Path, *arguments: str) -> Result:
    """The command's result; it is either passed or blocked, and never a bug."""
    result = CliRunner().invoke(cli, ["-C", str(at), "check", "--offline", *arguments])
    assert result.exception is None or isinstance(result.exception, Blocked), result.exception
    return result


def found(at: Path, *arguments: str) -> dict[str, Any]:
    """What programs read."""
    return dict(json.loads(check(at, *arguments, "-o", "json").stdout))


def told(at: Path) -> str:
    """What people read, in one line: long names break differently on each machine."""
    return " ".join(check(at).stdout.split())


def findings(at: Path, *arguments: str) -> list[tuple[str, str, str]]:
    """Id, severity and title of each finding."""
    return [(item["id"], item["severity"], item["title"]) for item in found(at, *arguments)["findings"]]


def test_folder_in_which_nothing_is_wrong_passes(at: Path) -> None:
    """Without a kubeconfig, a key or a network it ends with 0, and says what nobody asked."""
    result = check(at)
    assert result.exit_code == 0, result.output
    assert "the folder is ready" in result.stdout and "v1.37.1  (offline)" in result.stdout
    assert "Not checked offline" in result.stdout and "more families of checks: needs the cluster" in result.stdout
    assert "webhooks" not in result.stdout  # fifty names would hide the reasons; programs get each


def test_what_needs_the_cluster_is_not_passed(at: Path) -> None:
    """Programs get a reason for each family that was not asked, and no finding that looks like an answer."""
    seen = found(at)
    assert (seen["offline"], seen["blocked"], seen["target"], seen["findings"]) == (True, False, "v1.37.1", [])
    reasons = {item["check"]: item["reason"] for item in seen["not_asked"]}
    assert {"version", "access", "hosts", "webhooks", "memory", "certificates"} <= set(reasons)
    assert reasons["access"] == "needs the cluster"
    unasked = [item["check"] for item in seen["not_asked"] if item["reason"] == reasons["access"]]
    assert len(unasked) == len(set(unasked))  # families with several checks are named once
    assert {"playbooks", "inventory", "kubeconfig"} <= set(reasons)


def test_remedy_names_only_files_that_are_there(at: Path) -> None:
    """`helm template` of a release without a file of values is shown so that it can be typed as it is."""
    (at / "upgrader.yaml").write_text(PIPELINE.replace("    values: web.yaml\n", ""))
    (at / "web/templates/all.yaml").write_text('{{ fail "no size" }}')
    (remedy,) = (item["remedy"] for item in found(at)["findings"])
    assert remedy.startswith("See: helm template web ") and "--values" not in remedy
    (at / "values").mkdir()
    (at / "values/web.yaml").write_text("size: small\n")
    (remedy,) = (item["remedy"] for item in found(at)["findings"])
    assert remedy.endswith("--values " + str(at / "values/web.yaml"))


def test_all_problems_are_reported_at_once(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema, missing files, values, playbook, inventory and chart: none hides another, each with its file and line."""
    (at / "upgrader.yaml").write_text(
        PIPELINE.replace("undo: undo.yml", "undo: gone.yml")
        + "  - {release: other, chart: nowhere, values: nothing.yaml}\n"
        + "  - {release: third, chrat: web}\n"
        + "  - {release: web2, chart: web, values: broken.yaml}\n"
        + "gates: {consecutiv: 1}\n"
    )
    (at / "broken.yaml").write_text("a: [\n")
    (at / "checks.yml").write_text("- tasks: []\n")
    (at / "hosts.yml").write_text("workers: {hosts: {b: {}}}\n")
    (at / "web.yaml").write_text("size: 5\n")
    monkeypatch.chdir(at)
    seen = findings(at)
    titles = "\n".join(title for _, _, title in seen)
    for expected in (
        "upgrader.yaml:8: there is no playbook gone.yml",
        "upgrader.yaml:9: there is no chart nowhere",
        "upgrader.yaml:9: there is no values file nothing.yaml",
        "upgrader.yaml:10: unknown key 'chrat'; did you mean 'chart'?",
        "broken.yaml:2: is not valid YAML",
        "upgrader.yaml:12: unknown key 'consecutiv'; did you mean 'consecutive'?",
        "hosts.yml: no host is in the group 'controllers'",
        "release web: web doesn't render with its values",
    ):
        assert expected in titles, titles
    assert {severity for _, severity, _ in seen} == {"error"}
    assert len(seen) == 8, titles


def test_playbook_that_is_none_is_an_error(at: Path) -> None:
    """A play without hosts, and a file that is no list, are found as YAML."""
    (at / "checks.yml").write_text("- {tasks: []}\n")
    (at / "undo.yml").write_text("hosts: all\n")
    titles = [title for _, _, title in findings(at)]
    assert "play 1 has no key 'hosts'" in titles[0] and "a playbook must be a list of plays" in titles[1]


def test_playbook_for_no_machine(at: Path) -> None:
    """As far as names alone tell: an error where it is all of the playbook, a warning where it is a play of several."""
    nobody = "- {hosts: [workers, load_balancers], tasks: []}\n"
    (at / "checks.yml").write_text(nobody)
    ((id_, severity, title),) = findings(at)
    assert (id_, severity) == ("playbooks.no-machine", "error") and "checks.yml" in title
    (at / "checks.yml").write_text(f"{nobody}- import_playbook: undo.yml\n")
    assert [item[:2] for item in findings(at)] == [("playbooks.idle-play", "warning")]
    (at / "hosts.yml").write_text(f"{INVENTORY}workers: {{hosts: {{b: {{}}}}}}\n")
    assert findings(at) == []


def test_playbooks_of_a_surge_are_read_as_those_of_the_pipeline(at: Path) -> None:
    """What would fail in the middle of a run is found before."""
    surge = "{nodes: 1, add: add.yml, remove: undo.yml}"
    nodes = f"nodes: {{source: {{kind: packages}}, pools: [{{name: workers, surge: {surge}}}]}}\n"
    (at / "upgrader.yaml").write_text(PIPELINE + nodes)
    (at / "add.yml").write_text("- {tasks: []}\n")
    (title,) = [title for _, _, title in findings(at)]
    assert title.endswith("add.yml: play 1 has no key 'hosts' or 'import_playbook'")
    (at / "add.yml").unlink()
    (title,) = [title for _, _, title in findings(at)]
    assert "upgrader.yaml:9: 'nodes.pools.surge.add' names no playbook: there is no file" in title


@pytest.mark.parametrize(
    ("inventory", "problem"),
    [
        ("controllers: {children: {masters: {}}}\nmasters: {hosts: {a: {}}}\n", None),
        ("all: {children: {controllers: {hosts: {a: }}}}\n", None),
        ("all: {children: {kube_control_plane: {hosts: {a: }}, kube_node: {hosts: {b: }}}}\n", None),
        ("controllers: {hosts: {}}\n", "no host is in the group 'controllers'"),
        ("controllers: {children: {masters: {children: {controllers: {}}}}}\n", "no host is in the group"),
        ("controllers: [a]\n", "is not a mapping"),
        ("controllers: {children: 5}\n", "is not a mapping"),
        ("- controllers\n", "expected groups of hosts"),
        ("", "expected groups of hosts"),
    ],
)
def test_controllers_of_the_inventory(at: Path, inventory: str, problem: str | None) -> None:
    """They may be in groups of their group; an inventory of another form, or without any, is an error."""
    (at / "hosts.yml").write_text(inventory)
    seen = findings(at)
    assert [id_ for id_, _, _ in seen] == ([] if problem is None else ["files.invalid"])
    assert problem is None or problem in seen[0][2]


def test_default_steps_are_not_judged_in_place_of_those_that_are_meant(at: Path) -> None:
    """A misspelt key at the top, or a pipeline that is no list, gives its own error and no errors of defaults."""
    (at / "upgrader.yaml").write_text(PIPELINE.replace("pipeline:", "pipelin:"))
    assert [id_ for id_, _, _ in findings(at)] == ["files.invalid"]
    (at / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\npipeline: 5\ncluster: {inventroy: x}\n")
    assert [title.partition(": ")[2] for _, _, title in findings(at)] == [
        "'pipeline' must be a list, not 5",
        "unknown key 'inventroy'; did you mean 'inventory'?",
    ]


def test_folder_without_a_version_is_judged_for_another(at: Path) -> None:
    """With --to the charts are rendered although the file's version is wrong; without it nobody says that they are."""
    (at / "upgrader.yaml").write_text(PIPELINE.replace("v1.37.1", "newest"))
    (at / "web.yaml").write_text("size: 5\n")
    assert [id_ for id_, _, _ in findings(at)] == ["files.invalid"]
    assert [id_ for id_, _, _ in findings(at, "--to", "v1.37.1")] == ["files.invalid", "charts.refused"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("v1.99.0", ("version.not-known", "unknown")), ("v1.20.0", ("version.too-old", "error"))],
)
def test_target_that_upgrader_does_not_support(at: Path, target: str, expected: tuple[str, str]) -> None:
    """Newer than its table of APIs is unknown, older than its charts can run is wrong: neither ends with 0."""
    assert expected in [(id_, severity) for id_, severity, _ in findings(at, "--to", target)]
    assert check(at, "--to", target).exception is not None


def test_apis_that_the_target_does_not_serve(at: Path) -> None:
    """Found in what the charts render to; the operator may skip it as with the cluster, and the reason is shown."""
    (at / "web/templates/all.yaml").write_text("apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: a}\n")
    ((id_, severity, title),) = findings(at)
    assert (id_, severity) == ("removed-apis.planned", "error") and "batch/v1beta1 CronJob" in title
    result = check(at, "--skip", id_, "--reason", "the chart chooses")
    assert result.exit_code == 0 and "the chart chooses" in result.stdout


def test_clients_in_an_audit_log(at: Path, tmp_path: Path) -> None:
    """A client of an API that the target removes blocks; a file that is no audit log is refused with its name."""
    log = tmp_path / "audit.log"
    target = {"apiGroup": "flowcontrol.apiserver.k8s.io", "apiVersion": "v1beta3", "resource": "flowschemas"}
    uri = "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas"
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "auditID": "1",
        "stage": "ResponseComplete",
        "requestURI": uri,
        "objectRef": target,
    }
    log.write_text(json.dumps({**event, "user": {"username": "jane"}, "userAgent": "old-tool/1.0"}) + "\n")
    found = findings(at, "--audit-log", str(log))
    assert [(id_, severity) for id_, severity, _ in found] == [
        ("audit-log.removed", "error"),
        ("audit-log.read", "info"),
    ]
    refused = check(at, "--audit-log", str(log))
    assert isinstance(refused.exception, Blocked) and "old-tool/1.0 (user jane)" in refused.stdout
    log.write_text("no events\n")
    wrong = CliRunner().invoke(cli, ["-C", str(at), "check", "--offline", "--audit-log", str(log)])
    assert isinstance(wrong.exception, UsageError) and str(log) in str(wrong.exception)


def test_remote_chart_is_not_fetched(at: Path) -> None:
    """Neither a chart with a URL nor one that another depends on: what they render to is unknown, with a reason."""
    (at / "upgrader.yaml").write_text(PIPELINE + "  - {release: far, chart: oci://127.0.0.1:1/x}\n")
    (at / "web/Chart.yaml").write_text(
        "{apiVersion: v2, name: web, version: 1.0.0,\n"
        " dependencies: [{name: db, version: 1.0.0, repository: 'https://127.0.0.1:1'}]}\n"
    )
    seen = findings(at)
    assert [(id_, severity) for id_, severity, _ in seen] == [
        ("charts.remote", "unknown"),
        ("charts.dependency", "unknown"),
    ]
    assert ":9: chart oci://127.0.0.1:1/x" in seen[0][2]


def test_programs_get_yaml_too(at: Path) -> None:
    """The same document, with control characters of the folder's files made harmless."""
    (at / "upgrader.yaml").write_text(PIPELINE + '"ke\\x1b]0;owned\\x07\\u202Ey": 1\n')
    shown = check(at, "-o", "yaml").stdout
    assert yaml.safe_load(shown)["blocked"] is True
    for form in ("table", "yaml", "json"):
        text = check(at, "-o", form).stdout
        assert not set(text) & {"\x1b", "\x07", "\u202e"}, form


def test_title_of_a_file_adds_no_line_of_its_own(at: Path) -> None:
    """A name with a line's end in it can't pretend to be a verdict."""
    (at / "upgrader.yaml").write_text(PIPELINE.replace("chart: web", 'chart: "x\\n\\n ✔ the folder is ready"'))
    lines = check(at).stdout.splitlines()
    assert not any(line.startswith(" ✔") for line in lines)


# --- nothing of the folder is run -----------------------------------------------------------------------------------


def program(at: Path, name: str, mark: Path) -> Path:
    """An executable that leaves a mark."""
    path = at / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {mark}\n")
    path.chmod(0o755)
    return path


def test_nothing_of_the_folder_is_run(at: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are planted wherever Ansible, kubectl and Helm look for some, by file or variable; none is started."""
    mark = tmp_path / "mark"
    evil = program(at, "evil", mark)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(evil)}}
    config = {"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
    config |= {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}
    (at / "kubeconfig").write_text(json.dumps({**config, "users": [{"name": "u", "user": user}]}))
    (at / "upgrader.yaml").write_text(PIPELINE.replace("{kubeconfig:", "{dynamicInventory: true, kubeconfig:"))
    (at / "hosts.yml").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (at / "hosts.yml").chmod(0o755)
    touched = f"open({str(mark)!r}, 'w')\n"
    for name in (
        "library",
        "inventory_plugins",
        "vars_plugins",
        "lookup_plugins",
        "callback_plugins",
        "filter_plugins",
    ):
        (at / name).mkdir()
        (at / name / "web.py").write_text(touched)
    (at / "ansible.cfg").write_text(
        f"[defaults]\nvault_password_file = {evil}\ninventory_plugins = {at}/inventory_plugins\n"
        f"callback_plugins = {at}/callback_plugins\nvars_plugins = {at}/vars_plugins\n"
    )
    (at / "sitecustomize.py").write_text(touched)
    plugin = "name: web\nversion: 1.0.0\nusage: x\ndescription: x\ncommand: $HELM_PLUGIN_DIR/run\n"
    hooks = "downloaders: [{command: run, protocols: [oci]}]\n"
    program(at, "plugins/web/run", mark)
    (at / "plugins/web/plugin.yaml").write_text(plugin + hooks)
    (at / "web/templates/all.yaml").write_text(
        TEMPLATE + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
        'data: {host: {{ getHostByName "localhost" | quote }}, found: {{ lookup "v1" "Pod" "a" "b" | quote }}}\n'
    )
    for name, value in {
        "HELM_PLUGINS": at / "plugins",
        "HELM_REGISTRY_CONFIG": at / "evil",
        "HELM_DATA_HOME": at,
        "KUBECONFIG": at / "kubeconfig",
        "UPGRADER_KUBECONFIG": at / "kubeconfig",
        "ANSIBLE_CONFIG": at / "ansible.cfg",
        "ANSIBLE_VAULT_PASSWORD_FILE": evil,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(at)
    result = check(at)
    assert result.exit_code == 0, result.output
    assert "`cluster.dynamicInventory` lets it run code" in result.stdout
    assert not mark.exists()


def test_release_that_is_an_option_of_helm_is_no_name(at: Path, tmp_path: Path) -> None:
    """`--post-renderer=…` would run a program, `--set-file=…` would read any file of the machine."""
    evil = program(at, "evil", tmp_path / "mark")
    (at / "upgrader.yaml").write_text(PIPELINE.replace("release: web", f'release: "--post-renderer={evil}"'))
    ((id_, severity, title),) = findings(at)
    assert (id_, severity) == ("files.invalid", "error") and "is not a release's name" in title
    assert not (tmp_path / "mark").exists()


def test_inventory_that_runs_code_is_an_error_without_leave(at: Path, tmp_path: Path) -> None:
    """An executable, and a plugin's configuration, as for a run; neither is started."""
    program(at, "hosts.yml", tmp_path / "mark")
    assert "executable" in findings(at)[0][2]
    (at / "hosts.yml").chmod(0o644)
    (at / "hosts.yml").write_text("plugin: amazon.aws.aws_ec2\n")
    assert "configuration of a plugin" in findings(at)[0][2]
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("name", ["hosts.yml", "checks.yml"])
def test_vault_stays_closed(at: Path, name: str) -> None:
    """A file that is encrypted as a whole is neither wrong nor right."""
    (at / name).write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    seen = found(at)
    assert seen["findings"] == []
    assert [item for item in seen["not_asked"] if name in item["reason"] and "encrypted" in item["reason"]]


def test_inventory_of_another_form_is_left_to_ansible(at: Path) -> None:
    """INI has rules that only Ansible knows: the folder passes, and the report says that nobody asked."""
    (at / "upgrader.yaml").write_text(PIPELINE.replace("{kubeconfig: kubeconfig}", "{inventory: hosts}"))
    (at / "hosts").write_text("[controllers]\na\n")
    seen = found(at)
    assert seen["findings"] == []
    assert "only Ansible can read it" in next(i["reason"] for i in seen["not_asked"] if i["check"] == "inventory")


# --- what is not opened ---------------------------------------------------------------------------------------------

FILES = ("upgrader.yaml", "web.yaml", "web", "web/templates/all.yaml", "hosts.yml", "checks.yml", "undo.yml")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("target", ["outside", "a name that is not there"])
def test_link_that_leads_out_is_not_followed(at: Path, tmp_path: Path, name: str, target: str) -> None:
    """Whatever file it takes the place of, and whatever it leads to, nothing of that is shown."""
    outside = tmp_path / "outside"
    if target == "outside":
        outside.write_text("{{ fail `a key of this machine` }}")
    path = at / name
    path.rename(tmp_path / "moved")
    path.symlink_to(outside)
    shown = told(at)
    assert "it is outside the folder" in shown and "a key of this machine" not in shown
    assert isinstance(check(at).exception, Blocked)
    assert ("files.not-opened", "unknown") in [(id_, severity) for id_, severity, _ in findings(at)]


@pytest.mark.parametrize("key", ["chart: web", "values: web.yaml", "undo: undo.yml"])
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "web/../../secret"])
def test_name_that_leads_out_is_not_opened(at: Path, tmp_path: Path, key: str, name: str) -> None:
    """Its line is told, and that whether it is right is unknown."""
    (tmp_path / "secret").write_text("a key of this machine")
    (at / "upgrader.yaml").write_text(PIPELINE.replace(key, f"{key.partition(':')[0]}: {name}"))
    ((id_, severity, title),) = findings(at)
    assert (id_, severity) == ("files.not-opened", "unknown")
    line = 1 + PIPELINE[: PIPELINE.index(key)].count("\n")
    assert f"upgrader.yaml:{line}: " in title and "it is outside the folder" in title


@pytest.mark.parametrize("name", [*FILES[:2], *FILES[3:]])
def test_pipe_is_not_read(at: Path, name: str) -> None:
    """Nobody writes into it: a command that reads it would wait for ever."""
    (at / name).unlink()
    os.mkfifo(at / name)
    assert ("files.not-opened", "unknown") in [(id_, severity) for id_, severity, _ in findings(at)]
    assert "it is not a regular file" in told(at)


def test_device_is_not_read(at: Path) -> None:
    """A link to a device leads out; reading it would never end."""
    (at / "web.yaml").unlink()
    (at / "web.yaml").symlink_to("/dev/zero")
    assert findings(at)[0][:2] == ("files.not-opened", "unknown")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("web.yaml", "size: " + "x" * 5_000_000, "more than 4194304"),
        ("web.yaml", "size: " + "[" * 100_000, "nested more than 100 levels"),
        ("web.yaml", BOMB, "with its anchors written out"),
        ("upgrader.yaml", BOMB, "with its anchors written out"),
        ("hosts.yml", BOMB, "with its anchors written out"),
        ("checks.yml", "- " * 100_000, "nested more than 100 levels"),
        ("web/values.schema.json", '{"a":' * 100_000, "values.schema.json"),
        ("web/templates/all.yaml", TEMPLATE + "{{- if false }}" + "x" * 5_000_000, "more than 4194304"),
        ("web/templates/all.yaml", TEMPLATE + "---\nkind: A\nmetadata: {name: a}\n" + BOMB, "release web"),
    ],
)
def test_ruinous_files_are_refused_in_seconds(at: Path, name: str, text: str, why: str) -> None:
    """Huge, deep, or grown by anchors: each is named, and neither memory nor time is spent on it."""
    (at / name).write_text(text)
    result = check(at)
    assert isinstance(result.exception, Blocked)
    assert why in " ".join(result.stdout.split()), result.stdout


def test_links_in_a_circle_end(at: Path) -> None:
    """A chart whose folders contain each other, and a link to itself."""
    (at / "web/charts").mkdir()
    (at / "web/charts/a").symlink_to("../templates")
    (at / "web/templates/b").symlink_to("../charts")
    (at / "web/templates/c").symlink_to("../charts")
    (at / "undo.yml").unlink()
    (at / "undo.yml").symlink_to("undo.yml")
    ids = [id_ for id_, _, _ in findings(at)]
    assert ids == ["files.not-opened", "files.not-opened"]


def test_name_that_is_no_name_is_not_opened(at: Path) -> None:
    """A NUL, or more characters than a name may have, is the file's problem and not a bug."""
    for name in ('"a\\0b"', "x" * 5000):
        (at / "upgrader.yaml").write_text(PIPELINE.replace("values: web.yaml", f"values: {name}"))
        assert [id_ for id_, _, _ in findings(at)] == ["files.not-opened"]


def test_packed_chart_is_rendered(at: Path) -> None:
    """As a folder is; one that isn't an archive is an error."""
    with tarfile.open(at / "web.tgz", "w:gz") as archive:
        archive.add(at / "web", "web")
    (at / "upgrader.yaml").write_text(PIPELINE.replace("chart: web", "chart: web.tgz"))
    assert findings(at) == []
    (at / "web.tgz").write_bytes(io.BytesIO(b"no archive").getvalue())
    assert [id_ for id_, _, _ in findings(at)] == ["charts.refused"]


def test_file_that_may_not_be_read_is_unknown(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be right: this user can't tell."""
    monkeypatch.setattr(os, "access", lambda path, mode: "web.yaml" not in str(path))
    assert findings(at)[0][:2] == ("files.not-opened", "unknown")


def test_what_can_not_be_skipped_with_the_cluster_can_not_be_offline(at: Path) -> None:
    """The folder's own problems are fixed, not skipped."""
    result = CliRunner().invoke(
        cli, ["-C", str(at), "check", "--offline", "--skip", "files.invalid", "--reason", "why not"]
    )
    assert isinstance(result.exception, UsageError)


def test_policy_of_the_folder_is_shown(at: Path) -> None:
    """A severity that the folder lowers doesn't block, and the report says what the check itself says."""
    (at / "web/templates/all.yaml").write_text("apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: a}\n")
    (at / "upgrader.yaml").write_text(PIPELINE + "checks: {severities: {removed-apis.planned: warning}}\n")
    result = check(at)
    assert result.exit_code == 0 and "set by checks.severities; the check's own is error" in result.stdout
    (item,) = found(at)["findings"]
    assert (item["severity"], item["changed_from"]) == ("warning", "error")


def test_policy_can_not_lower_its_own_refusal(at: Path) -> None:
    """A policy with an entry that isn't allowed doesn't count at all: it might make that very error harmless."""
    (at / "upgrader.yaml").write_text(PIPELINE + "checks: {severities: {files.invalid: info, xyz: info}}\n")
    assert [severity for _, severity, _ in findings(at)] == ["error", "error"]
