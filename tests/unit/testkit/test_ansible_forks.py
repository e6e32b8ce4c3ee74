"""An inventory that a fork reads, as unit tests have it, is read as by the program that a command starts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from upgrader.config import inventory
from upgrader.config.inventory import load_hosts, load_names
from upgrader.errors import ConfigError

HOSTS = """\
controllers: {hosts: {a: {ansible_host: "{{ inventory_dir }}", ansible_become_password: s3cret}}}
workers: {hosts: {b: {ansible_port: PORT}}}
"""


def read(by: Callable[[Path], object], path: Path) -> object:
    """What it returns, or the message with which it refuses."""
    try:
        return by(path)
    except ConfigError as error:
        return error.message, error.remedy


@pytest.mark.parametrize(("by", "port"), [(load_hosts, "2222"), (load_hosts, "'{{ nowhere }}'"), (load_names, "2222")])
def test_fork_says_what_the_program_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: Callable[[Path], object], port: str
) -> None:
    """Hosts and names, and why it can't be read."""
    path = tmp_path / "hosts.yml"
    path.write_text(HOSTS.replace("PORT", port))
    forked = read(by, path)
    monkeypatch.setattr(inventory, "subprocess", subprocess)
    assert forked == read(by, path)


def test_settings_of_a_test_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible reads them when it is imported: it is imported anew for them."""
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: }}\n")
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "other")
    assert load_hosts(tmp_path / "hosts.yml")["controllers"][0].user == "other"
    monkeypatch.delenv("ANSIBLE_REMOTE_USER")
    assert load_hosts(tmp_path / "hosts.yml")["controllers"][0].user != "other"
