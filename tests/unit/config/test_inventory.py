"""Inventories are read as Ansible reads them."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.waiting import stretched
from upgrader.built_in_files import playbooks_folder
from upgrader.config.ansible_facts import _CONNECTION
from upgrader.config.inventory import host_from_facts, load_cluster, load_hosts, load_names
from upgrader.config.ssh_options import resolve
from upgrader.errors import ConfigError
from upgrader.model.cluster import Host
from upgrader.model.redaction.known_secrets import KNOWN
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


def test_password_of_a_spare_machine_is_known(tmp_path: Path) -> None:
    """A task of a surge's playbook that fails on it may quote it: it is masked, as those of all machines are."""
    password, other = "hunter-of-a-spare-machine", "registrar-of-a-spare-machine"
    text = f"[controllers]\na\n[surge]\nb ansible_become_password={password} registry_password={other}\n"
    (tmp_path / "hosts").write_text(text)
    assert [host.name for host in load_hosts(tmp_path / "hosts")["surge"]] == ["b"]
    masked = KNOWN.mask(f"sudo: {password}, login: {other}")
    assert password not in masked and other not in masked


def test_password_that_is_a_template_is_known_by_its_value(tmp_path: Path) -> None:
    """sudo's password may come from another variable, whose name says nothing."""
    word = "bcdfghjklmnpqr"
    lines = ("[controllers]", "a", "[controllers:vars]", f"word={word}", "ansible_become_password={{ word }}")
    (tmp_path / "hosts").write_text("\n".join(lines) + "\n")
    assert load_hosts(tmp_path / "hosts")["controllers"][0].become_password == word
    assert word not in KNOWN.mask(f"sudo: {word}")


def test_python_of_a_machine(tmp_path: Path) -> None:
    """RHEL 8's python3 is too old for Ansible, too: programs that are sent there run with the one that it is told."""
    pythons = {
        "/usr/bin/python3.11": "/usr/bin/python3.11",
        "python3.11": "python3.11",
        "{{ base }}/bin/python": "/opt/pypy/bin/python",
        "auto_silent": "python3",
        "/usr/bin/env python3": "python3",
        "-c": "python3",
    }
    hosts = {
        f"host-{number}": {"ansible_python_interpreter": told, "base": "/opt/pypy"}
        for number, told in enumerate(pythons)
    }
    (tmp_path / "hosts.yml").write_text(json.dumps({"controllers": {"hosts": hosts}}))
    found = [host.python for host in load_hosts(tmp_path / "hosts.yml")["controllers"]]
    assert dict(zip(pythons, found, strict=True)) == pythons


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


def test_an_ini_inventory_has_to_be_called_so(tmp_path: Path) -> None:
    """Under the default name it is no YAML; the remedy gives it the name under which it is read."""
    text = "# mine\n[controllers]\na ansible_host=192.0.2.1\n"
    error = refusal(tmp_path / "hosts.yml", text)
    assert "hosts.ini" in error.remedy and "`cluster: {inventory: hosts.ini}`" in error.remedy
    (tmp_path / "hosts.ini").write_text(text)
    assert [host.name for host in load_hosts(tmp_path / "hosts.ini")["controllers"]] == ["a"]


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


def test_a_program_is_refused(tmp_path: Path) -> None:
    """An executable inventory is code that every command would run; the error says how to allow it."""
    path = tmp_path / "hosts"
    path.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\necho \'{{"controllers": ["a"]}}\'\n')
    path.chmod(0o700)
    with pytest.raises(ConfigError, match="executable") as caught:
        load_hosts(path)
    assert "cluster.dynamicInventory: true" in caught.value.remedy
    assert not (tmp_path / "ran").exists()
    assert load_hosts(path, dynamic=True)["controllers"][0].name == "a"


def test_a_program_in_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder of inventories is as safe as each of its files."""
    folder = tmp_path / "inventory"
    (folder / "group_vars").mkdir(parents=True)
    (folder / "hosts.yml").write_text("controllers: {hosts: {a: {}}}\n")
    assert load_hosts(folder)["controllers"][0].name == "a"
    (folder / "more").write_text("#!/bin/sh\n")
    (folder / "more").chmod(0o700)
    with pytest.raises(ConfigError, match="inventory/more: the inventory is executable"):
        load_hosts(folder)


@pytest.mark.parametrize(
    "text",
    [
        "plugin: amazon.aws.aws_ec2\n",
        "\ufeffplugin: amazon.aws.aws_ec2\n",
        "{plugin: amazon.aws.aws_ec2}\n",
        "--- {plugin: amazon.aws.aws_ec2}\n",
        "  plugin: amazon.aws.aws_ec2\n",
        "plugin : amazon.aws.aws_ec2\n",
        '"plug\\x69n": amazon.aws.aws_ec2\n',
        "? plugin\n: amazon.aws.aws_ec2\n",
        "!unsafe plugin: amazon.aws.aws_ec2\n",
        "x: &x {plugin: amazon.aws.aws_ec2}\n<<: [*x]\n",
        '{\n\t"plugin": "amazon.aws.aws_ec2"\n}\n',
    ],
)
def test_a_plugins_configuration_is_refused(tmp_path: Path, text: str) -> None:
    """A plugin asks a cloud or runs code: it has to be allowed as well, however its file is written."""
    error = refusal(tmp_path / "aws.yml", text)
    assert "configuration of a plugin" in error.message


@pytest.mark.parametrize("how", ["lookup('pipe', 'touch {0}/ran; echo x')", "q('pipe', 'touch {0}/ran')[0]"])
def test_lookups_are_refused(tmp_path: Path, how: str) -> None:
    """A lookup in a variable would run a program when a plan is made; allowed, it is rendered as Ansible does."""
    address = "{{ " + how.format(tmp_path) + " }}"
    text = f'controllers: {{hosts: {{a: {{ansible_host: "{address}"}}}}}}\n'
    error = refusal(tmp_path / "hosts.yml", text)
    assert "lookup 'pipe'" in error.message and "host 'a': ansible_host" in error.message
    assert "cluster.dynamicInventory" in error.remedy
    assert not (tmp_path / "ran").exists()


def test_an_ansible_cfg_beside_it_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ansible.cfg in the current folder could name plugins, which are code; playbooks don't see it either."""
    (tmp_path / "ansible.cfg").write_text("[defaults]\nremote_user = another\n")
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: {}}}\n")
    monkeypatch.chdir(tmp_path)
    assert load_hosts(tmp_path / "hosts.yml")["controllers"][0].user != "another"


def test_names_alone_need_no_variables(tmp_path: Path) -> None:
    """For a plan without credentials the groups are enough: templates stay unread."""
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: {ansible_host: '{{ nope }}'}}}\n")
    none: tuple[str, ...] = ()
    empty = dict.fromkeys(("workers", "load_balancers", "surge"), none)
    assert load_names(tmp_path / "hosts.yml") == {"controllers": ("a",), **empty}


@pytest.mark.parametrize("how", ["config", "plugins"])
def test_names_alone_run_no_code_of_the_environments_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A CI job may export the folder's ansible.cfg, whose plugins are code: a plan without credentials runs none."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/yaml.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\ninventory_plugins = {tmp_path / 'plugins'}\n")
    if how == "config":
        monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    else:
        monkeypatch.setenv("ANSIBLE_INVENTORY_PLUGINS", str(tmp_path / "plugins"))
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: {}}}\n")
    assert load_names(tmp_path / "hosts.yml")["controllers"] == ("a",)
    assert not (tmp_path / "ran").exists()


def controller(tmp_path: Path, variables: str, config: str = "") -> Host:
    """A controller whose SSH configuration is this file, as Ansible's ssh would read it."""
    (tmp_path / "ssh_config").write_text(config)
    (tmp_path / "hosts.yml").write_text(
        f"controllers: {{hosts: {{a: {{ansible_host: target, {variables}}}}}, "
        f"vars: {{ansible_ssh_common_args: '-F {tmp_path}/ssh_config'}}}}\n"
    )
    return load_hosts(tmp_path / "hosts.yml")["controllers"][0]


def by_ssh(tmp_path: Path, config: str) -> Host:
    """What OpenSSH's configuration alone makes of a host."""
    (tmp_path / "ssh_config").write_text(config)
    return resolve("hosts.yml: host 'a'", Host("a", "target"), ["-F", str(tmp_path / "ssh_config")])


CONFIG = """\
Host target
  HostName 10.0.0.7
  User admin
  Port 2222
  ProxyJump outer@192.0.2.1:2200,inner
  IdentitiesOnly yes
  IdentityFile {folder}/id_config
  HostKeyAlias kept
Host inner
  HostName 10.0.0.1
  User second
  UserKnownHostsFile {folder}/known_inner
Host behind
  ProxyCommand nc -X connect %h %p
"""


def test_opensshs_configuration_applies(tmp_path: Path) -> None:
    """Address, user, port, keys and bastions come from where ssh takes them; a bastion has options of its own."""
    (tmp_path / "id_config").touch()
    host = controller(tmp_path, "ansible_become: false", CONFIG.format(folder=tmp_path))
    outer, inner = host.jumps
    assert (host.address, host.user, host.port, host.host_key_alias) == ("10.0.0.7", "admin", 2222, "kept")
    assert (host.key_file, host.identities_only) == (tmp_path / "id_config", True)
    assert (outer.address, outer.user, outer.port) == ("192.0.2.1", "outer", 2200)
    assert (inner.address, inner.user, inner.known_hosts) == ("10.0.0.1", "second", tmp_path / "known_inner")


def test_tokens_in_names_of_files_are_opensshs(tmp_path: Path) -> None:
    """`ssh -G` prints them as they are written: the host, as found and as given, the users, the port, a plain %."""
    home = Path.home()
    names = {"%h": "10.0.0.7", "%n": "target", "%k": "kept", "%r-%p": "admin-2222", "%u": getpass.getuser(), "%%": "%"}
    for name in names.values():
        (tmp_path / f"id_{name}").touch()
    config = "Host target\n HostName 10.0.0.7\n User admin\n Port 2222\n HostKeyAlias kept\n"
    config += "".join(f" IdentityFile {tmp_path}/id_{token}\n" for token in names)
    host = by_ssh(tmp_path, f"{config} UserKnownHostsFile %d/known-%h {tmp_path}/x\n")
    assert [host.key_file, *host.more_keys] == [tmp_path / f"id_{name}" for name in names.values()]
    assert host.known_hosts == home / "known-10.0.0.7"


def test_a_known_hosts_that_is_none_is_no_file(tmp_path: Path) -> None:
    """OpenSSH asks for no key of the user's then, so ~/.ssh/known_hosts is not used: by its configuration, and by the
    inventory, of a worker, too.
    """
    host = by_ssh(tmp_path, "UserKnownHostsFile none\n")
    assert host.known_hosts == Path("/dev/null") and host.forgets_keys
    (tmp_path / "none.yml").write_text(
        "all: {vars: {ansible_ssh_common_args: -o UserKnownHostsFile=none}}\n"
        "controllers: {hosts: {a: {}}}\nworkers: {hosts: {b: {}}}\n"
    )
    groups = load_hosts(tmp_path / "none.yml")
    assert all(each.forgets_keys for each in (*groups["controllers"], *groups["workers"]))


def test_token_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """It would be another file; the message has the option and what can be written instead."""
    with pytest.raises(ConfigError, match=r"token %C of SSH option IdentityFile \(/keys/%C\)"):
        by_ssh(tmp_path, "IdentityFile /keys/%C\n")


def test_without_ssh_nothing_is_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible couldn't connect either, and `Include` or `Match` read in another way would lead elsewhere."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="the program `ssh`, which Ansible uses, was not found") as caught:
        by_ssh(tmp_path, "")
    assert caught.value.remedy == "Install the OpenSSH client."


def test_defaults_stay_defaults(tmp_path: Path) -> None:
    """Without any configuration the usual keys and the usual known_hosts are used, which needn't exist."""
    assert by_ssh(tmp_path, "") == Host("a", "target", getpass.getuser())


def test_the_inventory_wins_over_the_configuration(tmp_path: Path) -> None:
    """As with Ansible, what the inventory says comes before ~/.ssh/config; its keys are further ones."""
    (tmp_path / "id_config").touch()
    variables = f"ansible_user: me, ansible_port: 22, ansible_ssh_private_key_file: {tmp_path}/own"
    host = controller(tmp_path, variables, CONFIG.format(folder=tmp_path))
    assert (host.user, host.port, host.key_file, host.more_keys) == (
        "me", 22, tmp_path / "own", (tmp_path / "id_config",),
    )  # fmt: skip


def test_a_proxy_command_is_taken(tmp_path: Path) -> None:
    """A ProxyCommand in the arguments or in the configuration is the way to the machine."""
    host = controller(tmp_path, "ansible_ssh_extra_args: '-o ProxyCommand=\"nc %h %p\"'")
    assert (host.proxy_command, host.jumps) == ("nc %h %p", ())


def test_a_bastion_behind_a_bastion(tmp_path: Path) -> None:
    """A bastion that is itself behind one is reached through that; a loop is an error, as with ssh."""
    config = "Host first\n HostName 10.0.0.1\nHost second\n ProxyJump first\nHost target\n ProxyJump second\n"
    assert [jump.address for jump in controller(tmp_path, "x: 1", config).jumps] == ["10.0.0.1", "second"]
    for config, message in (
        ("Host *\n ProxyJump bastion\n", "jumphost loop via bastion"),
        ("Host a\n ProxyJump b\nHost b\n ProxyJump a\nHost target\n ProxyJump a\n", "ProxyJump loops"),
    ):
        with pytest.raises(ConfigError, match=message):
            by_ssh(tmp_path, config)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("StrictHostKeyChecking no", "StrictHostKeyChecking=false"),
        ("StrictHostKeyChecking accept-new", "StrictHostKeyChecking=accept-new"),
        ("AddressFamily inet6", "AddressFamily"),
        ("BindAddress 10.0.0.9", "BindAddress"),
        ("CertificateFile /x", "CertificateFile"),
        ("IdentityAgent /x", "IdentityAgent"),
        ("PKCS11Provider /x", "PKCS11Provider"),
        ("KnownHostsCommand /bin/false", "KnownHostsCommand"),
        ("RevokedHostKeys /x", "RevokedHostKeys"),
        ("VerifyHostKeyDNS yes", "VerifyHostKeyDNS"),
        ("NoHostAuthenticationForLocalhost yes", "NoHostAuthenticationForLocalhost"),
        ("Nonsense yes", "ssh refuses its options"),
    ],
)
def test_options_that_can_not_be_followed_are_named(tmp_path: Path, line: str, name: str) -> None:
    """What would lead elsewhere, or trust another machine, is refused by its name, and never ignored."""
    with pytest.raises(ConfigError, match=name) as caught:
        by_ssh(tmp_path, f"Host *\n {line}\n")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({"extra_args": "-o StrictHostKeyChecking=no"}, "StrictHostKeyChecking=no"),
        ({"ssh_args": "-oStrictHostKeyChecking=accept-new"}, "StrictHostKeyChecking=accept-new"),
        ({"common_args": "-o 'StrictHostKeyChecking off'"}, "StrictHostKeyChecking=off"),
        ({"host_key_checking": False}, "ansible_host_key_checking"),
        ({"connection": "local"}, "ansible_connection 'local'"),
        ({"password": "s3cret"}, "ansible_password is not supported"),
        ({"executable": "/x/ssh"}, "ansible_ssh_executable"),
        ({"become": True, "become_method": "doas"}, "ansible_become_method 'doas'"),
        ({"become": "yes", "become_user": "admin"}, "ansible_become_user 'admin'"),
        ({"become": True, "become_exe": "/x/sudo"}, "ansible_become_exe"),
        ({"become": True, "become_flags": "-i"}, "ansible_become_flags"),
        ({"ssh_args": '"'}, "ansible_ssh_args can't be split"),
        ({"port": "ssh"}, "ansible_port 'ssh' is not a port"),
        ({"address": "-oProxyCommand=touch /tmp/x"}, "ansible_host '-oProxyCommand=touch /tmp/x' starts with a dash"),
    ],
)
def test_variables_that_can_not_be_followed_are_named(known: dict[str, object], name: str) -> None:
    """Ansible would do something else than upgrader: each such variable is refused by its name, without its secret."""
    with pytest.raises(ConfigError, match=name) as caught:
        host_from_facts(Path("hosts.yml"), "a", known, controller=False)
    assert "s3cret" not in caught.value.message


def test_the_machine_itself_is_no_windows_worker() -> None:
    """A controller that is this machine, in an inventory that was made for Ansible alone."""
    with pytest.raises(ConfigError, match="ansible_connection 'local' is not supported") as caught:
        host_from_facts(Path("hosts.yml"), "a", {"connection": "local"}, controller=True)
    assert "Windows" not in caught.value.remedy and "the machine that upgrader runs on" in caught.value.remedy


ASK_ANSIBLE = """
import json, sys
from ansible import constants
from ansible.plugins.loader import become_loader, connection_loader, init_plugin_loader
init_plugin_loader()
connection_loader.get("ssh", class_only=True), become_loader.get("sudo", class_only=True)
print(json.dumps([
    constants.config.get_config_value(option, plugin_type=kind, plugin_name=plugin, variables=given)
    for kind, plugin, option, given in json.loads(sys.argv[1])
]))
"""
OPTIONS = {
    "address": "host",
    "user": "remote_user",
    "key_file": "private_key_file",
    "become_password": "become_pass",
}
"""Ansible's names, where they are others than ours."""


def test_of_two_variables_the_one_wins_that_ansible_obeys() -> None:
    """Else Ansible would go to another machine, or verify none (`ansible_ssh_host_key_checking: false`), unnoticed."""
    several = {fact: variables for fact, variables in _CONNECTION.items() if len(variables) > 1}
    asked = [
        (
            *(("become", "sudo") if fact.startswith("become") else ("connection", "ssh")),
            OPTIONS.get(fact, fact),
            # Only a boolean is taken for one: the first of ours is off, the others are on.
            {name: place > 0 if fact == "host_key_checking" else str(place) for place, name in enumerate(variables)},
        )
        for fact, variables in several.items()
    ]
    command = [sys.executable, "-c", ASK_ANSIBLE, json.dumps(asked)]
    obeyed = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=stretched(60)).stdout
    )
    # "0", 0 or False, as the option's type is.
    assert {fact: int(value) for fact, value in zip(several, obeyed, strict=True)} == dict.fromkeys(several, 0)


def test_become_has_no_say_where_it_is_off() -> None:
    """Ansible's defaults for a become that isn't used are no reason to refuse a host."""
    known = {"become": False, "become_method": "doas", "connection": "ssh", "host_key_checking": "yes"}
    assert not host_from_facts(Path("hosts.yml"), "a", known, controller=False).become


def test_workers_are_for_playbooks_alone_but_verified_too(tmp_path: Path) -> None:
    """Ansible logs in to workers as well: an argument that trusts any machine is refused there."""
    text = "controllers: {hosts: {a: }}\nworkers: {hosts: {b: {ansible_ssh_extra_args: -o StrictHostKeyChecking=no}}}\n"
    assert "host 'b': StrictHostKeyChecking=no" in refusal(tmp_path / "hosts.yml", text).message


def test_sudo_with_a_password(tmp_path: Path) -> None:
    """The password for sudo arrives, and is in no repr."""
    host = controller(tmp_path, "ansible_become: true, ansible_become_password: s3cret")
    assert (host.become, host.become_password) == (True, "s3cret")
    assert "s3cret" not in repr(host)


def test_the_cluster_has_all_its_machines(tmp_path: Path) -> None:
    """Settings and inventory together name the files, the context and every machine, controllers first."""
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    settings = Settings(tmp_path, KubernetesVersion(1, 36, 3), tmp_path / "kubeconfig", tmp_path / "hosts.yml", ())
    cluster = load_cluster(settings, "demo")
    assert (cluster.folder, cluster.kubeconfig, cluster.context) == (tmp_path, tmp_path / "kubeconfig", "demo")
    assert [host.name for host in cluster.hosts] == ["controller-1", "worker-1"]


_KUBESPRAY_INI = """\
[kube_control_plane]
node1 ansible_host=95.54.0.12 ip=10.3.0.1 access_ip=10.3.0.1 etcd_member_name=etcd1
node2 ansible_host=95.54.0.13 ip=10.3.0.2 access_ip=10.3.0.2

[etcd:children]
kube_control_plane

[kube_node]
node2
node4 ansible_host=95.54.0.15 ip=10.3.0.4

[k8s_cluster:children]
kube_control_plane
kube_node
"""
_KUBESPRAY_YAML = """\
all:
  hosts:
    node1: {ansible_host: 95.54.0.12, ip: 10.3.0.1, access_ip: 10.3.0.1, etcd_member_name: etcd1}
    node2: {ansible_host: 95.54.0.13, ip: 10.3.0.2, access_ip: 10.3.0.2}
    node4: {ansible_host: 95.54.0.15, ip: 10.3.0.4}
  children:
    kube_control_plane: {hosts: {node1: {}, node2: {}}}
    kube_node: {hosts: {node2: {}, node4: {}}}
    etcd: {children: {kube_control_plane: {}}}
    k8s_cluster: {children: {kube_control_plane: {}, kube_node: {}}}
"""


_KUBESPRAY_WITHOUT_PARENT = """\
[kube_control_plane]
node1 ansible_host=95.54.0.12  # ip=10.3.0.1 etcd_member_name=etcd1
node2 ansible_host=95.54.0.13  # ip=10.3.0.2 etcd_member_name=etcd2

[etcd:children]
kube_control_plane

[kube_node]
node4 ansible_host=95.54.0.15  # ip=10.3.0.4
"""
"""As in its sample by now: k8s_cluster is made when its playbooks run."""
_KUBESPRAY_VARIABLES = """\
kubeadm_certificate_key: "{{ lookup('password', credentials_dir + '/key.creds length=64') | lower }}"
etcd_deployment_type: host
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("inventory.ini", _KUBESPRAY_INI),
        ("inventory.ini", _KUBESPRAY_WITHOUT_PARENT),
        ("hosts.yaml", _KUBESPRAY_YAML),
    ],
)
def test_an_inventory_of_kubespray_is_read_as_it_is(tmp_path: Path, name: str, text: str) -> None:
    """Its groups are the controllers and the workers; a controller that is a worker, too, is a controller only.

    SSH uses `ansible_host`, as Kubespray does: `ip` and `access_ip` are what its components use among themselves. Its
    variables have lookups, which are forbidden; nothing of SSH needs them.
    """
    (tmp_path / name).write_text(text)
    (tmp_path / "group_vars" / "k8s_cluster").mkdir(parents=True)
    for group in ("all.yml", "k8s_cluster/k8s-cluster.yml"):
        (tmp_path / "group_vars" / group).write_text(_KUBESPRAY_VARIABLES)
    groups = load_hosts(tmp_path / name)
    told = {group: [(host.name, host.address) for host in hosts] for group, hosts in groups.items() if hosts}
    assert told == {
        "controllers": [("node1", "95.54.0.12"), ("node2", "95.54.0.13")],
        "workers": [("node4", "95.54.0.15")],
    }
    names = load_names(tmp_path / name)
    assert {group: list(found) for group, found in names.items() if found} == {
        "controllers": ["node1", "node2"],
        "workers": ["node4"],
    }


_OLD_KUBESPRAY_INI = """\
[all]
node1 ansible_host=95.54.0.12 ip=10.3.0.1 etcd_member_name=etcd1
node2 ansible_host=95.54.0.13
bastion ansible_host=203.0.113.9

[bastion]
bastion

[kube-master]
node1

[etcd]
node1

[kube-node]
node1
node2

[calico-rr]

[k8s-cluster:children]
kube-master
kube-node
calico-rr
"""


def test_kubesprays_old_names_need_the_new_ones_above_them(tmp_path: Path) -> None:
    """The error says how; groups of Kubespray that are empty, or are no nodes, make no difference."""
    inventory = tmp_path / "inventory.ini"
    inventory.write_text(_OLD_KUBESPRAY_INI)
    with pytest.raises(ConfigError, match="no host is in the group 'controllers'") as caught:
        load_hosts(inventory)
    assert "make `kube-master` a child of `kube_control_plane`, and `kube-node` a" in caught.value.remedy
    more = "[kube_control_plane:children]\nkube-master\n\n[kube_node:children]\nkube-node\n"
    inventory.write_text(f"{_OLD_KUBESPRAY_INI}\n{more}")
    groups = load_hosts(inventory)
    told = {group: [(host.name, host.address) for host in hosts] for group, hosts in groups.items() if hosts}
    assert told == {"controllers": [("node1", "95.54.0.12")], "workers": [("node2", "95.54.0.13")]}


def test_own_groups_win_over_kubesprays(tmp_path: Path) -> None:
    """Where an inventory has both, no host of Kubespray's groups is added, or has to be one that can be logged in to.

    An own group of workers wins also where the controllers are Kubespray's.
    """
    own, kubesprays = "controllers: {hosts: {a: {}}}\n", "kube_control_plane: {hosts: {b: {}}}\n"
    nodes = "kube_node: {hosts: {c: {ansible_connection: winrm, ansible_host: '{{ no_variable }}'}}}\n"
    (tmp_path / "hosts.yml").write_text(own + kubesprays + nodes)
    groups = load_hosts(tmp_path / "hosts.yml")
    assert {group: [host.name for host in found] for group, found in groups.items() if found} == {"controllers": ["a"]}
    (tmp_path / "hosts.yml").write_text(f"{kubesprays}{nodes}workers: {{hosts: {{w: {{}}}}}}\n")
    names = load_names(tmp_path / "hosts.yml")
    assert {group: found for group, found in names.items() if found} == {"controllers": ("b",), "workers": ("w",)}


def test_a_windows_worker_in_kubesprays_group(tmp_path: Path) -> None:
    """The error says how the group can stay as it is, and that works."""
    inventory = tmp_path / "inventory.ini"
    nodes = "[kube_control_plane]\nc1\n[kube_node]\nw1\nwin1 ansible_connection=winrm\n"
    inventory.write_text(nodes)
    with pytest.raises(ConfigError, match="host 'win1': ansible_connection 'winrm' is not supported") as caught:
        load_hosts(inventory)
    assert "a group `workers`" in caught.value.remedy
    inventory.write_text(f"{nodes}[workers]\nw1\n")
    assert [host.name for host in load_hosts(inventory)["workers"]] == ["w1"]


def test_checks_and_examples_find_kubesprays_controllers(tmp_path: Path) -> None:
    """A play without a machine passes and does nothing."""
    (tmp_path / "inventory.ini").write_text(_KUBESPRAY_INI)
    folder = playbooks_folder()
    names = [folder / "checks.yml", *(folder / "examples" / f"{each}-spare-nodes.yml" for each in ("add", "remove"))]
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "--list-hosts", "-i"]
    done = subprocess.run(
        [*command, str(tmp_path / "inventory.ini"), *map(str, names)], capture_output=True, text=True, check=True
    )
    plays = [play for play in done.stdout.split("  play #")[1:] if "surge_" not in play.splitlines()[0]]
    assert len(plays) == 4 and all("\n      node1\n" in f"{play}\n" for play in plays), done.stdout


@pytest.mark.parametrize("playbook", ["stage-node", "upgrade-node", "restore-node"])
def test_playbooks_of_nodes_find_the_machines_of_both(playbook: str) -> None:
    """A step names its nodes; the playbook must have them among its hosts, whichever inventory they are of."""
    hosts = (playbooks_folder() / f"{playbook}.yml").read_text()
    assert "default('controllers:workers:kube_control_plane:kube_node')" in hosts
