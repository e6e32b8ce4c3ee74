"""What `upgrader versions` offers, and what each version takes."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from testkit.fakes.kube import FakeKube
from upgrader.app import versions_on_offer
from upgrader.app.versions_on_offer import Here, ask, offered_versions, read_versions, where_we_are
from upgrader.cli.main import cli
from upgrader.errors import ApiError, ApiUnavailable, ConfigError
from upgrader.model.support_ends import support_ends
from upgrader.model.upgrade_path import newest_patches
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind

NODES = Kind("v1", "nodes", namespaced=False)


def v(text: str) -> KubernetesVersion:
    """A version."""
    return KubernetesVersion.parse(text)


KNOWN = tuple(map(v, ("v1.34.1", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.1")))


def test_each_minor_from_here() -> None:
    """The newest patch of each minor, a patch of the present one too, with the runs on the way; nothing goes back."""
    offered = offered_versions(Here(v("v1.34.1"), "--from", {}), KNOWN)
    assert [(str(each.version), len(each.hops)) for each in offered] == [
        ("v1.34.4", 1),
        ("v1.35.4", 1),
        ("v1.36.3", 2),
        ("v1.37.1", 3),
    ]
    assert [str(hop) for hop in offered[-1].hops] == ["v1.35.4", "v1.36.3", "v1.37.1"]
    assert offered_versions(Here(v("v1.37.1"), "--from", {}), KNOWN) == ()


def test_kubelets_that_would_be_too_old() -> None:
    """Three minors behind is the limit, and the nodes beyond it are named."""
    here = Here(v("v1.34.4"), "cluster", {"w2": v("v1.33.1"), "w1": v("v1.34.4")})
    old = {str(each.version): each.old_kubelets for each in offered_versions(here, KNOWN)}
    assert old == {"v1.35.4": (), "v1.36.3": (), "v1.37.1": ("w2",)}


def test_minor_that_is_on_no_list() -> None:
    """A way that can't be named is not invented; a minor that this upgrader doesn't know is said to be so."""
    (far,) = offered_versions(Here(v("v1.37.1"), "--from", {}), [v("v1.99.0")])
    assert far.hops == () and not far.known and far.supported_until is None


def test_cluster_is_asked() -> None:
    """Its version, each kubelet's, and what it emulates."""
    kube = FakeKube()
    answer = {"gitVersion": "v1.37.1", "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "36"}
    kube.raw_answers["/version"] = json.dumps(answer)
    kube.put(NODES, {"metadata": {"name": "c1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}})
    here = ask(kube)
    assert (here.version, here.kubelets, here.emulated) == (v("v1.37.1"), {"c1": v("v1.36.3")}, (1, 36))
    kube.raw_answers["/version"] = json.dumps({**answer, "emulationMinor": "37"})
    assert ask(kube).emulated is None, "its own minor is no emulation"


def test_nodes_without_a_version_and_answers_of_others() -> None:
    """A node that has just been registered, or KWOK's, hides no version; a proxy's page is an error of the API's."""
    kube = FakeKube()
    kube.raw_answers["/version"] = json.dumps({"gitVersion": "v1.37.1"})
    kube.put(NODES, {"metadata": {"name": "new"}, "status": {}})
    kube.put(NODES, {"metadata": {"name": "kwok"}, "status": {"nodeInfo": {"kubeletVersion": "kwok-v0.6.0"}}})
    assert ask(kube).kubelets == {}
    kube.raw_answers["/version"] = "<html>please log in</html>"
    with pytest.raises(ApiError, match="version can't be read"):
        ask(kube)


def test_cluster_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's version, and why."""

    def away(*_arguments: object) -> None:
        raise ApiUnavailable("no route to host")

    monkeypatch.setattr(versions_on_offer, "open_kube", away)
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.35.4\n")
    here = where_we_are(tmp_path, None)
    assert (here.version, here.source, here.problem) == (v("v1.35.4"), "upgrader.yaml", "no route to host")


def test_file_of_a_registry(tmp_path: Path) -> None:
    """Tags that are no release are left out; a file without any is an error of its own."""
    file = tmp_path / "tags"
    file.write_text("v1.36.3\nv1.37.1\nlatest\nv1.38.0-rc.1\nsha256-aa.sig\n")
    assert read_versions(file) == (v("v1.36.3"), v("v1.37.1"))
    file.write_text("latest\n")
    with pytest.raises(ConfigError, match="no version"):
        read_versions(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError):
        read_versions(file)


def test_table_of_ends_is_dated() -> None:
    """Each minor ends after the one before, and none that is older than the newest known patches is missing."""
    table = support_ends()
    ends = [day for _, day in sorted(table.ends.items())]
    assert ends == sorted(ends) and table.made > date(2026, 1, 1)
    assert set(table.ends) >= {minor for minor in newest_patches() if minor < max(table.ends)}


def test_command(tmp_path: Path) -> None:
    """As a table and for scripts; neither needs a folder where the version is given."""
    run = ["-C", str(tmp_path), "versions", "--from", "v1.35.4"]
    table = CliRunner().invoke(cli, run)
    assert table.exit_code == 0 and "v1.35.4 as given" in table.output and "PATCHES UNTIL" in table.output
    described = json.loads(CliRunner().invoke(cli, [*run, "-o", "json"]).output)
    assert described["current"] == "v1.35.4" and described["versions"][0]["hops"]
    assert "supported_until:" in CliRunner().invoke(cli, [*run, "-o", "yaml"]).output


def test_command_says_what_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubelets to be upgraded, an emulation to be ended, and a cluster that didn't answer."""
    old = {f"w{number}": v("v1.30.0") for number in range(5)}
    here = Here(v("v1.35.4"), "cluster", old, (1, 34), "late answers")
    monkeypatch.setattr("upgrader.app.versions_on_offer.where_we_are", lambda *_arguments: here)
    output = CliRunner().invoke(cli, ["-C", str(tmp_path), "versions"], env={"COLUMNS": "200"}).output
    assert "emulating 1.34" in output and "upgrader finalize" in output and "late answers" in output
    assert "upgrade the kubelets of w0, w1, w2 and 2 more" in output


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("v1.25.0", "no more patches"),
        ("v1.36.3", "patches until 2027-06-28"),
        ("v1.99.0", "the end of its patches was not known on "),
    ],
)
def test_how_long_the_version_here_is_supported(tmp_path: Path, version: str, told: str) -> None:
    """What the table doesn't have is said in words: of an old minor that its time is over, of a new one since when."""
    output = CliRunner().invoke(cli, ["-C", str(tmp_path), "versions", "--from", version]).output
    assert f"{version} as given; {told}" in output and "unknown" not in output
