"""From which containerd to which one a node can go while its containers run."""

from __future__ import annotations

import pytest
from ansible.module_utils.containerd_versions import step_problem, step_warning, version_in

from tests.unit.playbooks.node_role import complaint, task


@pytest.mark.parametrize(
    ("installed", "wanted", "told"),
    [
        ("1.6.20~ds1", "1.7.29", ""),
        ("1.6.20~ds1", "1.6.20~ds1-1+deb12u1", ""),
        ("1.7.29", "2.0.6", ""),
        ("1.7.29", "2.1.4-1~debian.12", ""),
        ("2.0.2", "2.0.5", ""),
        ("2.0.2", "2.3.0", ""),
        ("2.1.4", "2.1.4", ""),
        ("2.1.4", "2.1.3", "2.1.3 is older than 2.1.4"),
        ("1.10.0", "1.9.0", "1.9.0 is older than 1.10.0"),
        ("1.6.20~ds1", "2.1.4", "upgrade to 1.7 first"),
        ("1.5.18", "2.1.4", "upgrade to 1.7 first"),
        ("1.7.29", "2.0.0", "take 2.0.6 or newer"),
        ("1.7.29", "2.0.5-1~debian.12", "take 2.0.6 or newer"),
        ("1.7.29", "2.0", "take 2.0.6 or newer"),
        ("", "2.1.4", "installed containerd is unknown"),
        ("2.1.4", "latest", "is not a version"),
    ],
)
def test_step_that_could_end_containers_is_refused(installed: str, wanted: str, told: str) -> None:
    """1.6 takes the containers that 2.x has started for dead, so that no way back would be left; the first 2.0 can't
    restart a container in a sandbox of 1.x; and none reads the metadata of a newer one.
    """
    problem = step_problem(installed, wanted)
    assert told in problem if told else problem == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1\n", "1.6.20~ds1"),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4", "2.1.4"),
        ("containerd: unknown flag", ""),
        ("", ""),
    ],
)
def test_version_is_read(text: str, version: str) -> None:
    """Of the distribution's, and of containerd's own programs."""
    assert version_in(text) == version


def test_role_ends_before_such_a_step() -> None:
    """With the version that is in place, and the one that is wanted, of a package as well."""
    asked = task("runtime_look", "Read which containerd runs")["containerd_info"]
    assert asked["wanted"] == "{{ node_container_runtime.version | default(omit) }}"
    found = {"program": "/usr/bin/containerd", "version": "1.6.20", "step_problem": "go to 1.7 first"}
    facts = {"node_container_runtime": {"version": "2.1.4", "source": {"kind": "packages"}}}
    told = complaint("runtime_look", "Check that containers survive this upgrade", node_containerd=found, **facts)
    assert (
        "/usr/bin/containerd can't be upgraded from 1.6.20 to 2.1.4: " in told
        and "go to 1.7 first" in told
        and "Nothing was changed" in told
    )
    fine = {**found, "step_problem": ""}
    assert complaint("runtime_look", "Check that containers survive this upgrade", node_containerd=fine, **facts) == ""


@pytest.mark.parametrize(
    ("installed", "wanted", "supported"),
    [
        ("1.7.27", "1.7.33", True),
        ("1.7.27", "2.0.10", True),
        ("1.7.27", "2.3.2", True),  # both have long-term support
        ("2.1.4", "2.2.0", True),
        ("1.7.27", "2.2.4", False),
        ("2.0.6", "2.2.0", False),
        ("", "2.2.0", True),  # what isn't known is refused elsewhere
    ],
)
def test_a_step_that_upstream_does_not_support_is_told(installed: str, wanted: str, supported: bool) -> None:
    """containerd/containerd#12727: packages go from 1.7 straight to 2.2."""
    warning = step_warning(installed, wanted)
    assert (warning == "") == supported
    assert supported or f"from {installed} to {wanted} in one step" in warning
