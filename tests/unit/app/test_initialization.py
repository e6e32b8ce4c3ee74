"""The folder that `upgrader init` writes."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from testkit.fakes.kube import FakeKube
from upgrader.app.initialization import Login, ProposedFolder, propose_folder
from upgrader.config.inventory import load_hosts
from upgrader.config.load import load_settings
from upgrader.errors import ApiError, Blocked, HostUnreachable
from upgrader.model.host_key import HostKey
from upgrader.model.redaction.printable import printable
from upgrader.ports import Kind

NODES, PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
CONFIG_MAPS, DEPLOYMENTS = Kind("v1", "configmaps"), Kind("apps/v1", "deployments")
KEY = HostKey("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAICPTvoqpG2nFYSTdaDrAU/9cucyxDEHOi/6wZIuRBvt1")
FINGERPRINT = "SHA256:Q4I88wXwIG/wA7ddS72lsdpEHQDUheyE+tSWuYGQOr4"
"""What `ssh-keygen -lf` says of it."""


class Machines:
    """Controllers that show this key, but for those that can't be reached."""

    def __init__(self, *silent: str) -> None:
        self.silent = silent

    def read(self, address: str) -> HostKey:
        if address in self.silent:
            raise HostUnreachable(f"{address}: no route to host")
        return KEY


def node(name: str, address: str, **labels: str) -> dict[str, Any]:
    """As its kubelet registers it."""
    status = {
        "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}],
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
    }
    return {"metadata": {"name": name, "labels": labels}, "status": status}


@pytest.fixture
def kube() -> FakeKube:
    """A kubeadm cluster with two controllers and a worker."""
    kube = FakeKube()
    kube.raw_answers["/version"] = json.dumps({"gitVersion": "v1.36.3", "major": "1", "minor": "36"})
    role = {"node-role.kubernetes.io/control-plane": ""}
    kube.put(NODES, node("c2", "10.0.0.2", **role))
    kube.put(NODES, node("c1", "10.0.0.1", **role))
    kube.put(NODES, node("w1", "fd00::9"))
    mirror = {"kubernetes.io/config.mirror": "x"}
    metadata = {"name": "kube-apiserver-c1", "labels": {"component": "kube-apiserver"}, "annotations": mirror}
    kube.put(PODS, {"metadata": metadata, "spec": {}, "status": {}}, "kube-system")
    kube.put(CONFIG_MAPS, {"metadata": {"name": "kubeadm-config"}}, "kube-system")
    return kube


def proposed(
    folder: Path,
    kube: FakeKube,
    machines: Machines | None = None,
    context: str = "admin@prod",
    login: Login | None = None,
) -> ProposedFolder:
    """Of a kubeconfig beside the folder."""
    kubeconfig = folder.parent / "config"
    kubeconfig.write_text("kind: Config\n")
    return propose_folder(
        folder, kube, machines or Machines(), login or Login(), kubeconfig=kubeconfig, context=context
    )


def test_fingerprint_is_the_one_that_ssh_keygen_shows() -> None:
    """A person compares the two."""
    assert KEY.fingerprint == FINGERPRINT


def test_written_folder_is_read_as_the_cluster(tmp_path: Path, kube: FakeKube) -> None:
    """Version, context, machines with their addresses, host keys, kubeconfig: all that other commands need."""
    folder = tmp_path / "clusters" / "prod"
    folder.parent.mkdir()
    found = proposed(folder, kube, login=Login("ops", tmp_path / "key"))
    assert found.cluster.kind == "kubeadm"
    found.write(trust=True)
    settings = load_settings(folder, {})
    assert (str(settings.target), settings.context) == ("v1.36.3", "admin@prod")
    assert settings.kubeconfig.resolve() == folder.parent / "config"
    hosts = load_hosts(settings.inventory)
    assert [(host.name, host.address, host.user) for host in hosts["controllers"]] == [
        ("c1", "10.0.0.1", "ops"),
        ("c2", "10.0.0.2", "ops"),
    ]
    assert [(host.name, host.address) for host in hosts["workers"]] == [("w1", "fd00::9")]
    assert hosts["controllers"][0].known_hosts == folder / "ssh" / "known_hosts"
    assert (folder / "ssh" / "known_hosts").read_text() == KEY.line("10.0.0.1") + KEY.line("10.0.0.2")
    assert stat.S_IMODE((folder / "ssh").stat().st_mode) == 0o700


def test_nothing_is_trusted_that_nobody_has_compared(tmp_path: Path, kube: FakeKube) -> None:
    """Without a yes to the fingerprints, ssh's own known_hosts decides, as for everything else."""
    folder = tmp_path / "prod"
    proposed(folder, kube).write(trust=False)
    assert not (folder / "ssh").exists()
    assert "ansible_ssh_common_args" not in (folder / "hosts.yml").read_text()


def test_machine_that_ssh_knows_by_another_name(tmp_path: Path, kube: FakeKube) -> None:
    """Its key is written under the name that OpenSSH will look for: an alias, or an address with a port."""

    class Elsewhere(Machines):
        def read(self, address: str) -> HostKey:
            return replace(KEY, known_as=f"[{address}]:2222")

    proposed(tmp_path / "prod", kube, Elsewhere()).write(trust=True)
    lines = (tmp_path / "prod" / "ssh" / "known_hosts").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["[10.0.0.1]:2222", "[10.0.0.2]:2222"]


def test_api_that_is_somebody_elses(tmp_path: Path, kube: FakeKube) -> None:
    """A login page in front of the API is an error that says so, and nothing is written."""
    kube.raw_answers["/version"] = "<html>please log in</html>"
    with pytest.raises(ApiError, match="version can't be read"):
        proposed(tmp_path / "prod", kube)
    assert not (tmp_path / "prod").exists()


def test_controller_that_can_not_be_asked(tmp_path: Path, kube: FakeKube) -> None:
    """Behind a bastion, say: the others' keys are written, and it is named."""
    found = proposed(tmp_path / "prod", kube, Machines("10.0.0.2"))
    assert list(found.silent) == ["c2"] and "no route" in found.silent["c2"]
    found.write(trust=True)
    assert (tmp_path / "prod" / "ssh" / "known_hosts").read_text() == KEY.line("10.0.0.1")


def test_what_is_there_stays(tmp_path: Path, kube: FakeKube) -> None:
    """A second time adds what is missing, and replaces nothing."""
    folder = tmp_path / "prod"
    folder.mkdir()
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.2\n")
    (folder / "kubeconfig").write_text("mine")
    found = proposed(folder, kube)
    assert found.kept == (folder / "upgrader.yaml",)
    found.write(trust=True)
    assert (folder / "upgrader.yaml").read_text() == "kubernetesVersion: v1.36.2\n"
    assert (folder / "kubeconfig").read_text() == "mine"
    again = proposed(folder, kube)
    assert not again.files(trust=True) and not again.links_kubeconfig


@pytest.mark.parametrize(
    "context", ["it's: {a} # b", 'a"b\\c', "{{ lookup('pipe', 'id') }}", "&x *y\nkubernetesVersion: v9.9.9"]
)
def test_odd_names_are_text(tmp_path: Path, kube: FakeKube, context: str) -> None:
    """What a kubeconfig calls a context neither breaks the file nor adds a key to it."""
    proposed(tmp_path / "prod", kube, context=context).write(trust=True)
    content = yaml.safe_load((tmp_path / "prod" / "upgrader.yaml").read_text())
    assert content == {"kubernetesVersion": "v1.36.3", "cluster": {"context": printable(context)}}


def test_editors_know_the_file(tmp_path: Path, kube: FakeKube) -> None:
    """The first line names the schema beside it, which accepts the file and refuses a misspelt key."""
    folder = tmp_path / "prod"
    proposed(folder, kube).write(trust=True)
    first = (folder / "upgrader.yaml").read_text().partition("\n")[0]
    schema = json.loads((folder / first.partition("$schema=")[2]).read_text())
    content = yaml.safe_load((folder / "upgrader.yaml").read_text())
    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError, match="deadlin"):
        jsonschema.validate({**content, "gates": {"deadlin": "5m"}}, schema)


def test_releases_of_the_charts(tmp_path: Path, kube: FakeKube) -> None:
    """What was adopted on another machine is known as such."""
    metadata = {"name": "kube-apiserver", "annotations": {"meta.helm.sh/release-name": "kube-apiserver"}}
    kube.put(DEPLOYMENTS, {"metadata": metadata}, "kube-system")
    assert proposed(tmp_path / "prod", kube).cluster.kind == "self-hosted"


def test_control_plane_of_another_making(tmp_path: Path, kube: FakeKube) -> None:
    """Of static pods that kubeadm didn't write nobody knows how to adopt them: refused, and nothing is written."""
    kube.delete(CONFIG_MAPS, "kubeadm-config", "kube-system")
    with pytest.raises(Blocked, match=r"kube-apiserver-c1.* without kubeadm's ConfigMap"):
        proposed(tmp_path / "prod", kube)
    kube.delete(PODS, "kube-apiserver-c1", "kube-system")
    with pytest.raises(Blocked, match="no static pod of kube-apiserver"):
        proposed(tmp_path / "prod", kube)
    assert not (tmp_path / "prod").exists()


def test_managed_control_plane(tmp_path: Path, kube: FakeKube) -> None:
    """A cloud's cluster has no controllers: said at once, not by a check an hour later."""
    for name in ("c1", "c2"):
        kube.delete(NODES, name)
    with pytest.raises(Blocked, match="no node has the label") as caught:
        proposed(tmp_path / "prod", kube)
    assert "provider" in caught.value.remedy


@pytest.mark.parametrize(
    "address",
    [
        "-oProxyCommand=touch /tmp/pwned",
        "{{ lookup('pipe', 'touch /tmp/pwned') }}",
        "fe80::1%{{ lookup('pipe','x') }}",
        "evil.example",
        "10.0.0.9 evil",
        "",
    ],
)
def test_a_nodes_own_word_for_its_address_runs_nothing(tmp_path: Path, kube: FakeKube, address: str) -> None:
    """A kubelet writes it, and no API server looks at it: root on a worker would have Ansible, or ssh, run programs."""
    kube.put(NODES, node("w1", address))
    proposed(tmp_path, kube).write(trust=True)
    (worker,) = load_hosts(tmp_path / "hosts.yml")["workers"]
    assert (worker.name, worker.address) == ("w1", "w1")
