"""The host that `rehearse --on` names: a machine of the inventory's group `rehearsal`, and no controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.rehearsal_hosts import rehearsal_host
from upgrader.errors import UsageError
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion

INVENTORY = """\
controllers: {hosts: {controller-1: {ansible_host: 10.0.0.2}, controller-2: {ansible_host: 10.0.0.3}}}
workers: {hosts: {worker-1: {ansible_host: 10.0.0.4}}}
rehearsal:
  hosts:
    build-1: {ansible_host: 10.0.0.9, ansible_user: admin, ansible_become: true}
    controller-2: {}
    alias: {ansible_host: 10.0.0.2}
"""


def settings_in(folder: Path) -> Settings:
    """Of a folder with that inventory."""
    return Settings(folder, KubernetesVersion(1, 36, 3), folder / "kubeconfig", folder / "hosts.yml", ())


def refusal(folder: Path, name: str, inventory: str = INVENTORY) -> UsageError:
    """The error for a name."""
    (folder / "hosts.yml").write_text(inventory)
    with pytest.raises(UsageError) as caught:
        rehearsal_host(settings_in(folder), name)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_host_of_the_group_is_logged_in_to_as_ansible_does(tmp_path: Path) -> None:
    """With its address, user and sudo."""
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    host = rehearsal_host(settings_in(tmp_path), "build-1")
    assert (host.name, host.address, host.user, host.become) == ("build-1", "10.0.0.9", "admin", True)


@pytest.mark.parametrize("name", ["no-such-host", "worker-1"])
def test_another_host_is_refused_with_the_way_to_add_it(tmp_path: Path, name: str) -> None:
    """One that the inventory doesn't have, and one of another group; the names of the group are told."""
    error = refusal(tmp_path, name)
    assert f"no host {name} is in the group 'rehearsal' of " in error.message
    assert "which has build-1, controller-2, alias" in error.message
    assert f"rehearsal: {{hosts: {{{name}: {{ansible_host: ADDRESS}}}}}}" in error.remedy


def test_an_inventory_without_the_group_is_told(tmp_path: Path) -> None:
    """Nothing else in it changes."""
    error = refusal(tmp_path, "build-1", "controllers: {hosts: {controller-1: {}}}\n")
    assert "which is missing or empty" in error.message


@pytest.mark.parametrize(("name", "controller"), [("controller-2", "controller-2"), ("alias", "controller-1")])
def test_a_controller_is_refused(tmp_path: Path, name: str, controller: str) -> None:
    """In both groups, or with another name for the same address: the data is already there."""
    error = refusal(tmp_path, name)
    assert f"this is the controller {controller}" in error.message and "omit --on" in error.remedy
