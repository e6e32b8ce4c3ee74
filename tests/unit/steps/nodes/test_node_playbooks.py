"""How the built-in playbooks are called, and what their failures mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.steps.nodes.fleet import NEW
from upgrader.errors import PlaybookError, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.node_settings import NodeSource
from upgrader.ports import CommandResult
from upgrader.steps.nodes.kubelet_log import KubeletLog
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.stage import StageNodesStep

SUMS = {"kubelet": "a" * 64}
FOLDER = NodeSource("folder", "/binaries/{version}", sha256={"v1.37.1": SUMS})


def playbooks(fake: FakePlaybooks, source: NodeSource = FOLDER) -> NodePlaybooks:
    """The built-in ones, faked."""
    return NodePlaybooks(fake, Path("/playbooks"), Path("/hosts.yml"), source, NEW)


def quiet(text: str) -> None:
    """Take no notes."""


def test_nodes_get_what_the_source_has_for_the_version() -> None:
    """The version replaces `{version}`, and the checksums are those of that version."""
    fake = FakePlaybooks()
    playbooks(fake).upgrade(["worker-1"])
    ((name, variables, limit, check),) = fake.ran
    assert (name, limit, check) == ("upgrade-node.yml", "worker-1", False)
    assert variables == {
        "node_kubernetes_version": "v1.37.1",
        "node_restore_folder": "/var/lib/upgrader/node-restore",
        "node_source": {"kind": "folder", "path": "/binaries/v1.37.1", "sha256": SUMS},
    }


@pytest.mark.parametrize(
    ("source", "given"),
    [
        (NodeSource("packages"), {"kind": "packages"}),
        (NodeSource("url", url="https://x/{version}"), {"kind": "url", "url": "https://x/v1.37.1", "sha256": {}}),
    ],
)
def test_other_sources(source: NodeSource, given: dict[str, object]) -> None:
    """Packages need no checksums, addresses do."""
    assert source.at(NEW) == given
    assert source.knows(NEW) == (source.kind == "packages")
    assert FOLDER.knows(NEW)


def test_staging_is_one_run_on_all_nodes() -> None:
    """All nodes of the plan at once, before anything is changed; none where no node changes."""
    fake = FakePlaybooks()
    step = StageNodesStep(playbooks(fake), ("worker-1", "worker-2"))
    step.apply(quiet)
    assert [(name, limit) for name, _, limit, _ in fake.ran] == [("stage-node.yml", "worker-1,worker-2")]
    assert step.summary() == "copy the binaries of v1.37.1 to 2 nodes"
    nothing = StageNodesStep(playbooks(fake), ())
    nothing.apply(quiet)
    assert (nothing.summary(), len(fake.ran)) == ("nothing to change", 1)


def test_more_nodes_may_take_longer() -> None:
    """Ansible works on five at once; each of them gets the time of one."""
    fake = FakePlaybooks()
    for count in (1, 5, 6, 200):
        playbooks(fake).stage([f"worker-{number}" for number in range(count)])
    assert fake.seconds == [900.0, 900.0, 1800.0, 36000.0]


def test_node_that_can_not_be_reached_ends_the_run_before_it_changes_anything() -> None:
    """The message says which, and that nothing was changed."""
    error = PlaybookError("stage-node.yml failed: worker-1: unreachable", hosts={"worker-1": "unreachable"})
    with pytest.raises(StepFailed, match=r"nothing was changed: .*worker-1: unreachable"):
        StageNodesStep(playbooks(FakePlaybooks({"stage-node.yml": error})), ("worker-1",)).apply(quiet)


def test_playbook_that_does_not_run_has_failed_on_every_node() -> None:
    """A failure without hosts, such as a syntax error, is each node's."""
    fake = FakePlaybooks({"upgrade-node.yml": PlaybookError("could not be run")})
    assert playbooks(fake).upgrade(["worker-1", "worker-2"]) == {
        "worker-1": "could not be run",
        "worker-2": "could not be run",
    }


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("I1123 fine\nE1123 first\nI1123 fine\nF1123 second\nE1123 third\n", "F1123 second | E1123 third"),
        ("started\nfine\n", "fine"),
        ("Error: unknown flag: --x\n", "Error: unknown flag: --x"),
    ],
)
def test_kubelet_log_tells_of_errors(written: str, told: str) -> None:
    """The last lines of an error, or else the last line."""
    hosts = FakeHosts()
    hosts.commands["journalctl"] = CommandResult(0, written, "")
    log = KubeletLog(hosts, {"worker-1": Host("worker-1", "10.0.0.1")})
    assert log.last_errors("worker-1") == told
    hosts.down.add("worker-1")
    assert "can't be read" in log.last_errors("worker-1")
    assert "doesn't list" in log.last_errors("worker-2")
