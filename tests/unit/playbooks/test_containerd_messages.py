"""What containerd says of its configuration may have a password in it; what the role repeats hasn't."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.containerd_messages import reading_problem, without_values

from tests.unit.playbooks.node_role import task
from tests.unit.playbooks.test_containerd_trial import config, containerd, tried

__all__ = ["config"]

SECRET = "83720417"
OLDER = f"containerd: failed to unmarshal TOML: (12, 5): Can't convert {SECRET}(int64) to string"
NEWER = (
    f"containerd: failed to load TOML from /c: toml: line 12, column 5: {SECRET} into struct field config.Auth.Password"
)


@pytest.mark.parametrize("said", [OLDER, NEWER])
def test_place_of_a_mistake_is_named_and_no_value(said: str) -> None:
    """1.x repeats the value that it can't use."""
    told = reading_problem(said)
    assert "line 12, column 5" in told and "config dump" in told and SECRET not in told
    assert ("config.Auth.Password" in told) == ("struct field" in said)
    assert SECRET not in reading_problem(f"toml: {SECRET}") and "line" not in reading_problem(f"toml: {SECRET}")


@pytest.mark.parametrize("said", [OLDER, NEWER, f'level=error error="cannot parse https://u:{SECRET}@r"'])
def test_log_of_containerd_is_repeated_without_values(said: str) -> None:
    """What isn't about reading something stays, word by word."""
    assert SECRET not in without_values(said)
    other = 'level=error msg="failed to load plugin" error="failed to create CRI service: no snapshotter x"'
    assert without_values(other) == other


@pytest.mark.parametrize("in_place", [True, False])
def test_password_in_a_wrong_line_is_not_repeated(tmp_path: Path, config: Path, in_place: bool) -> None:
    """Neither of the file in place, nor of the new one; the message says where to look."""
    program = containerd(tmp_path, "containerd", refuses="in place" if in_place else "auth", says=OLDER)
    answer = tried(program, program, config, configuration=f"auth = {SECRET}\n")
    assert answer["failed"] and "line 12, column 5" in answer["msg"] and SECRET not in str(answer)


def test_kubelet_configuration_is_not_in_logs() -> None:
    """It may have a header with a token, which Ansible would write into the node's log with the module's parameters."""
    assert task("swap", "Change the kubelet's configuration")["no_log"] is True
    assert task("runtime_swap", "Change containerd's configuration")["no_log"] is True
