"""A sudo that keeps what its commands read or write: the data of a rehearsal elsewhere passes through it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.common.sudo_log import require_no_log
from upgrader.onhost.rehearsal import files_to_send, ready

PATH_SETTING = "secure_path=/usr/sbin\\:/usr/bin\\:/sbin\\:/bin"
ALL = "(root) NOPASSWD: ALL"


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a user may do, as sudo lists it for root; the file has it."""
    program, listed = tmp_path / "sudo", tmp_path / "listed"
    program.write_text(f'#!/bin/sh\n[ "$*" = "-n -l -U deploy" ] && exec /bin/cat {listed}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SUDO_USER", "deploy")
    return listed


def listed(settings: str, *rules: str, others: str = "") -> str:
    """In sudo's form."""
    return (
        f"Matching Defaults entries for deploy on build-1:\n    env_reset, mail_badpass,\n    {settings}\n\n"
        + (f"Runas and Command-specific defaults for deploy:\n    {others}\n\n" if others else "")
        + "User deploy may run the following commands on build-1:\n"
        + "".join(f"    {rule}\n" for rule in rules)
    )


@pytest.mark.parametrize(
    ("text", "logged"),
    [
        (listed(PATH_SETTING, ALL), ()),
        (listed(f"log_input, log_output, {PATH_SETTING}", ALL), ("input", "output")),
        (listed(f"{PATH_SETTING}, log_output", ALL), ("output",)),
        (listed("use_pty, log_stdin", ALL), ("input",)),
        (listed("log_input, log_output, !requiretty, !log_input, !log_output", ALL), ()),
        (listed("!log_input, !log_output, log_input", ALL), ("input",)),
        (listed(PATH_SETTING, "(root) NOPASSWD: LOG_INPUT: LOG_OUTPUT: ALL"), ("input", "output")),
        (listed("log_input, log_output", "(root) NOPASSWD: NOLOG_INPUT: NOLOG_OUTPUT: ALL"), ()),
        (listed(PATH_SETTING, "(root) LOG_OUTPUT: /usr/bin/vi", ALL), ()),
        (listed(PATH_SETTING, ALL, others="Defaults!/usr/bin/sudoreplay log_output"), ()),
        (listed("syslog=auth, log_input_of_others", ALL), ()),
        ("", ()),
    ],
)
@pytest.mark.parametrize("stream", ["input", "output"])
def test_a_sudo_that_logs_is_refused(sudo: Path, text: str, logged: tuple[str, ...], stream: str) -> None:
    """As it is set for this user, or by the rule that allows the command; the last one decides."""
    sudo.write_text(text)
    if stream not in logged:
        require_no_log(stream)
        return
    with pytest.raises(Failed, match=f"sudo logs the {stream} of deploy's commands"):
        require_no_log(stream)


def test_root_and_a_host_without_sudo_are_not_refused(sudo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sudo has started the program then, or none says anything."""
    sudo.write_text(listed("log_input", ALL))
    monkeypatch.delenv("SUDO_USER")
    require_no_log("input")
    monkeypatch.setenv("SUDO_USER", "deploy")
    (sudo.parent / "sudo").unlink()
    require_no_log("input")


@pytest.mark.parametrize("become", [True, False])
def test_a_host_whose_sudo_logs_input_gets_no_data(
    sudo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, become: bool
) -> None:
    """It is told with what else is missing there. No data passes through the sudo of a user of this machine."""
    sudo.write_text(listed("log_input", ALL))
    monkeypatch.setattr(ready, "_images", lambda: ["a"])
    asked = {"place": str(tmp_path / "place"), "units": "u", "images": ["a"], "memory": 0, "bytes": 0, "sudo": become}
    ready.main(json.dumps(asked))
    assert ("sudo logs the input" in json.loads(capsys.readouterr().out).get("failed", "")) == become


def test_a_controller_whose_sudo_logs_output_sends_no_data(
    sudo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before tar begins."""
    sudo.write_text(listed("log_output", ALL))
    (tmp_path / "data").mkdir()
    asked = {"data": str(tmp_path / "data"), "files": [], "admission": [], "sudo": True}
    files_to_send.main(json.dumps(asked))
    assert "sudo logs the output" in json.loads(capsys.readouterr().out)["failed"]
    files_to_send.main(json.dumps({**asked, "sudo": False}))
    assert "failed" not in json.loads(capsys.readouterr().out)
