"""Inventories are read as Ansible reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.inventory import load_cluster, load_hosts
from upgrader.errors import ConfigError
from upgrader.model.cluster import Host
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion

INVENTORY = """\
all:
  vars:
    ansible_user: admin
    ansible_ssh_private_key_file: "{{ inventory_dir }}/ssh/id_ed25519"
    ansible_ssh_common_args: -o StrictHostKeyChecking=yes -o UserKnownHostsFile={{ inventory_dir }}/ssh/known_hosts
  children:
    controllers:
      hosts:
        controller-1: {ansible_host: 10.0.0.2}
    workers:
      hosts:
        worker-1: {ansible_port: 2222, ansible_become: "yes"}
"""


def refusal(path: Path, text: str) -> ConfigError:
    """The error that an inventory of this content gives."""
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_hosts(path)
    return caught.value


def test_templates_groups_and_defaults(tmp_path: Path) -> None:
    """Templated paths, group variables, ports and become arrive; a host without an address is reached by its name."""
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/workers.yml").write_text("ansible_user: worker\n")
    groups = load_hosts(tmp_path / "hosts.yml")
    key, known_hosts = tmp_path / "ssh/id_ed25519", tmp_path / "ssh/known_hosts"
    assert groups["controllers"] == (Host("controller-1", "10.0.0.2", "admin", 22, key, known_hosts),)
    assert groups["workers"] == (Host("worker-1", "worker-1", "worker", 2222, key, known_hosts, become=True),)
    assert groups["load_balancers"] == ()


def test_ini_inventories_work_too(tmp_path: Path) -> None:
    """Whatever format Ansible reads is fine, as Ansible reads it."""
    (tmp_path / "hosts").write_text("[controllers]\nc[1:2] ansible_host=10.0.0.9 ansible_user=u\n")
    assert [host.name for host in load_hosts(tmp_path / "hosts")["controllers"]] == ["c1", "c2"]


def test_an_inventory_without_controllers_is_refused(tmp_path: Path) -> None:
    """A misspelt group is no empty cluster: the message names the group that is missing."""
    error = refusal(tmp_path / "hosts.yml", "controlers: {hosts: {a: {}}}\n")
    assert "no host is in the group 'controllers'" in error.message


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    """A syntax error is one line with the place, not the complaints of each of Ansible's plugins."""
    error = refusal(tmp_path / "hosts.yml", "all:\n  hosts: [\n")
    assert "hosts.yml:3: is not valid YAML" in error.message


def test_an_undefined_variable_names_host_and_variable(tmp_path: Path) -> None:
    """A template that can't be filled in says for which host and which variable."""
    error = refusal(tmp_path / "hosts.yml", "controllers: {hosts: {a: {ansible_host: '{{ nope }}'}}}\n")
    assert "host 'a': ansible_host: 'nope' is undefined" in error.message


def test_a_key_relative_to_nowhere_is_refused(tmp_path: Path) -> None:
    """A relative key file would depend on where Ansible is started, so the remedy shows the right way."""
    error = refusal(tmp_path / "hosts.yml", "controllers: {hosts: {a: {ansible_ssh_private_key_file: ssh/id}}}\n")
    assert error.remedy == "Write '{{ inventory_dir }}/ssh/id'."


def test_a_missing_inventory_is_named(tmp_path: Path) -> None:
    """The message names the file that isn't there."""
    with pytest.raises(ConfigError, match=r"hosts\.yml: no such file"):
        load_hosts(tmp_path / "hosts.yml")


def test_the_cluster_has_all_its_machines(tmp_path: Path) -> None:
    """Settings and inventory together name the files, the context and every machine, controllers first."""
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    settings = Settings(tmp_path, KubernetesVersion(1, 36, 3), tmp_path / "kubeconfig", tmp_path / "hosts.yml", ())
    cluster = load_cluster(settings, "demo")
    assert (cluster.folder, cluster.kubeconfig, cluster.context) == (tmp_path, tmp_path / "kubeconfig", "demo")
    assert [host.name for host in cluster.hosts] == ["controller-1", "worker-1"]
