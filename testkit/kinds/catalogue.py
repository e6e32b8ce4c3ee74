"""The kinds of clusters that a lab can be. A new kind is an entry of `KINDS`, and a row in bench/results/kinds.json."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

from testkit.kinds.configuration_files import configure_by_files, is_configured_by_files
from testkit.kinds.external_ca import has_no_ca_key, take_the_ca_keys_away
from testkit.kinds.external_cloud import is_initialized_by_the_cloud, use_an_external_cloud
from testkit.kinds.kms_plugin import encrypt_by_a_plugin, is_encrypted_by_the_plugin
from testkit.kinds.kube_vip import HOW_TO_GET_IT, kube_vip_keeps_the_address, leave_the_address_to
from testkit.kinds.stored_secrets import stored_secret
from testkit.kinds.without_kube_proxy import another_serves_services, give_services_to_another
from testkit.lab_cluster import LabCluster, until
from testkit.versions import COMPONENTS
from testkit.waiting import stretched
from upgrader.lab.hardening import AUDIT_LOG, ENCRYPTED_PREFIX
from upgrader.lab.keepalived import CHECK as HEALTHY
from upgrader.lab.kubespray import CERTIFICATES, ETCD_FOLDER, ETCD_USER
from upgrader.lab.kubespray_kubelet import KUBELETS_FILE
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind as ApiKind

__all__ = ["KINDS", "Given", "Kind"]

Proof = Callable[[LabCluster], None]
"""Raises AssertionError if the cluster isn't of its kind any more."""

_SECRETS = ApiKind("v1", "secrets")
_CONFIG_MAPS = ApiKind("v1", "configmaps")
_PODS = ApiKind("v1", "pods")


@dataclass(frozen=True)
class Given:
    """A program that the lab doesn't build: how to get it, and the options with which a new lab uses it."""

    name: str
    how_to_get_it: str
    install: Callable[[LabCluster, Path], None]


@dataclass(frozen=True)
class Kind:
    """`switches` are options of `upgrader lab up`; `prepare` makes what no option covers, and `program` does so if a
    program is needed; each proof must be true before the adoption, and after every column. `components`: those that
    `upgrader` upgrades.
    """

    name: str
    switches: tuple[str, ...] = ()
    prepare: Proof | None = None
    proofs: tuple[Proof, ...] = ()
    program: Given | None = None
    components: tuple[str, ...] = COMPONENTS

    @property
    def command(self) -> str:
        """The command that tests a lab of this kind from end to end."""
        given = f" --program {self.program.name}" if self.program else ""
        return f"python -m bench.kinds --kind {self.name}{given}"


def audits_to_a_file(cluster: LabCluster) -> None:
    """A request made now is in the audit log on the controller, within seconds."""
    before = _audited(cluster)
    cluster.kube.get(_SECRETS, "kinds-audited", "default")
    assert _audited(cluster) > before, f"{AUDIT_LOG} on the controller doesn't have a request that was made"


def _audited(cluster: LabCluster) -> int:
    # Events are written in batches, at most a second later.
    return int(cluster.on_controller("sh", "-c", f"sleep 2; cat {AUDIT_LOG} | grep -c kinds-audited || true"))


def encrypts_secrets(cluster: LabCluster) -> None:
    """A new Secret can be read, and etcd stores it encrypted."""
    found = stored_secret(cluster, len(ENCRYPTED_PREFIX))
    assert found == ENCRYPTED_PREFIX, f"etcd has a new Secret as {found!r}…"


_CHECK = "/usr/local/sbin/check-apiserver"
CONTAINERD = "v2.4.2"
"""One of the present versions; the lab's machines otherwise have Debian's."""


def check_script(cluster: LabCluster) -> None:
    """keepalived's files, as in kubeadm's guide; without the program, as the lab's virtual IP never moves."""
    cluster.on_controller(
        "sh",
        "-c",
        "mkdir -p /etc/keepalived; "
        f"printf 'vrrp_script check_apiserver {{\n  script \"{_CHECK}\"\n}}\n' >/etc/keepalived/keepalived.conf; "
        f"printf '#!/bin/bash\nexec 3<>/dev/tcp/localhost/6443\n' >{_CHECK}; chmod 755 {_CHECK}",
    )


def answers_the_check_script(cluster: LabCluster) -> None:
    """The check passes by which keepalived keeps the virtual IP on this controller."""
    assert cluster.on_controller("sh", "-c", f"{_CHECK} && echo healthy") == "healthy\n"


def is_in_the_other_etcd(cluster: LabCluster) -> None:
    """A new object is stored in the etcd of the other node, and the controllers run none."""
    cluster.kube.delete(_CONFIG_MAPS, "kinds", "default")
    cluster.kube.create(
        _CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kinds"}}, "default"
    )
    keys = "--cacert=/etc/etcd/ca.crt --cert=/etc/etcd/server.crt --key=/etc/etcd/server.key"
    asked = f"etcdctl --endpoints=https://127.0.0.1:2379 {keys} get --keys-only /registry/configmaps/default/kinds"
    assert "/kinds" in Lab.find(cluster.name).run("etcd-1", asked)
    assert "no etcd" in cluster.on_controller("sh", "-c", "pidof etcd || echo no etcd")


def is_laid_out_by_kubespray(cluster: LabCluster) -> None:
    """On each controller, etcd is a healthy service with its data where kubeadm has it, its certificates are closed to
    others, kubeadm's folder is a link, kube-apiserver's certificate has ::1, the kubelet reads its own file, and
    requests are audited.
    """
    lab = Lab.find(cluster.name)
    asked = (
        f"readlink /etc/kubernetes/pki; stat -c '%a %u' {ETCD_FOLDER}; systemctl is-active etcd; "
        "test -d /var/lib/etcd/member && echo data; "
        f"openssl x509 -noout -checkip ::1 -in {CERTIFICATES}/apiserver.crt | grep -o 'does match'; "
        f"tr '\\0' '\\n' < /proc/$(pidof kubelet)/cmdline | grep -o {KUBELETS_FILE}; "
        "ls /etc/kubernetes/manifests | grep etcd || true; "
        "test -s /var/log/kubernetes/audit/kube-apiserver-audit.log && echo audited"
    )
    for node in lab.placement.nodes:
        if node.role == "controller":
            found = lab.run(node.name, asked).split("\n")
            wanted = [CERTIFICATES, f"700 {ETCD_USER}", "active", "data", "does match", KUBELETS_FILE, "audited", ""]
            assert found == wanted, (node.name, found)


_AT_LOOPBACK = "https://127.0.0.1:6443"
_SERVERS = "sed -n 's/^    server: //p' /etc/kubernetes/controller-manager.conf /etc/kubernetes/scheduler.conf"


def leads_to_itself(cluster: LabCluster) -> None:
    """What Kubespray did before v2.31: each kubeconfig of a controller has the server 127.0.0.1, and is in use."""
    cluster.on_controller(
        "sh",
        "-euc",
        "cd /etc/kubernetes; "
        f"sed -i 's#^    server: https.*#    server: {_AT_LOOPBACK}#' "
        "admin.conf controller-manager.conf kubelet.conf scheduler.conf; "
        "kill $(pidof kube-controller-manager kube-scheduler); systemctl restart kubelet",
    )
    until("the components at 127.0.0.1", lambda: not cluster.unready(), timeout_seconds=240)


def leads_where_each_pod_can_go(cluster: LabCluster) -> None:
    """kube-controller-manager and kube-scheduler use 127.0.0.1 before the adoption, and the node's own address from
    then on, also with kubeadm's static pods.
    """
    own = f"https://{Lab.find(cluster.name).placement.node('controller-1').address}:6443"
    found = set(cluster.on_controller("sh", "-c", _SERVERS).split())
    adopted = cluster.on_controller("sh", "-c", "ls /etc/kubernetes/upgrader 2>/dev/null || true") != ""
    assert found == {own if adopted else _AT_LOOPBACK}, found


def has_another_host_name(cluster: LabCluster) -> None:
    """The machine's host name isn't the node's, and the API has only the node's."""
    name = cluster.on_controller("cat", "/proc/sys/kernel/hostname").strip()
    assert name not in ("", "controller-1"), name
    nodes = cluster.kube.list(ApiKind("v1", "nodes", namespaced=False))
    assert [node["metadata"]["name"] for node in nodes] == ["controller-1"]


def only_through_the_bastion(cluster: LabCluster) -> None:
    """Only the bastion answers at its SSH port; but `ssh/config` reaches every machine."""
    for node in Lab.find(cluster.name).placement.nodes:
        if node.role != "bastion":
            assert not _answers(node.ssh_address, node.ssh_port), f"{node.name} lets this machine's connections in"
    ssh = ["ssh", "-F", str(cluster.folder / "ssh" / "config"), "-o", "BatchMode=yes", "controller-1", "hostname"]
    done = subprocess.run(ssh, capture_output=True, text=True, check=True, timeout=stretched(60))
    assert done.stdout == "controller-1\n"


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def has_no_ipv4(cluster: LabCluster) -> None:
    """Every address in the API is IPv6: of nodes, pods, Services, kube-apiserver; so is the URL."""
    kube = cluster.kube
    nodes = kube.list(ApiKind("v1", "nodes", namespaced=False))
    found = [each["address"] for node in nodes for each in node["status"]["addresses"] if each["type"] == "InternalIP"]
    found += [each for item in kube.list(ApiKind("v1", "services")) for each in item["spec"].get("clusterIPs") or ()]
    found += [each["ip"] for pod in kube.list(_PODS) for each in pod["status"].get("podIPs") or ()]
    slices = kube.list(ApiKind("discovery.k8s.io/v1", "endpointslices"))
    found += [each for item in slices for end in item.get("endpoints") or () for each in end["addresses"]]
    assert found and {ip_address(each).version for each in found if each != "None"} == {6}, found
    assert "server: https://[" in (cluster.folder / "kubeconfig").read_text()


def has_debian_13(cluster: LabCluster) -> None:
    """The node reports it, with its containerd; and checks have no finding about it."""
    (node,) = cluster.kube.list(ApiKind("v1", "nodes", namespaced=False))
    info = node["status"]["nodeInfo"]
    assert info["osImage"].startswith("Debian GNU/Linux 13 "), info
    assert info["containerRuntimeVersion"].startswith("containerd://1.7."), info


def has_containerd_2(cluster: LabCluster) -> None:
    """The node reports it, and once the cluster is adopted, checks have no finding about it."""
    (node,) = cluster.kube.list(ApiKind("v1", "nodes", namespaced=False))
    runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"]
    assert runtime == f"containerd://{CONTAINERD.removeprefix('v')}", runtime
    if cluster.releases():
        assert "os-support.containerd" not in _findings(cluster)


def _findings(cluster: LabCluster) -> set[str]:
    """The ids of what `upgrader check` finds."""
    ended = cluster.upgrader("check", "-o", "json")
    assert ended.exit_code in (0, 3), ended
    return {finding["id"] for finding in json.loads(ended.stdout)["findings"]}


def has_the_virtual_ip_once(cluster: LabCluster) -> None:
    """keepalived runs on each controller, asks its kube-apiserver at localhost, and one of them has the address."""
    until("keepalived to give one controller the virtual IP", lambda: _is_given_once(cluster), timeout_seconds=60)


def _is_given_once(cluster: LabCluster) -> bool:
    lab = Lab.find(cluster.name)
    address = lab.placement.endpoint_address
    asked = f"systemctl is-active -q keepalived && {HEALTHY} && echo healthy; ip -4 -oneline address show to {address}"
    controllers = [node.name for node in lab.placement.nodes if node.role == "controller"]
    said = [lab.run(name, asked) for name in controllers]
    return all("healthy" in each for each in said) and sum(address in each for each in said) == 1


def flannel_connects_the_pods(cluster: LabCluster) -> None:
    """A node's pods have addresses of the subnet that flannel assigned to it, every node reaches every pod, and no
    route is the lab's own.
    """
    until("flannel to have started on each node", lambda: _flannels_subnets(cluster) != {}, timeout_seconds=120)
    subnets = _flannels_subnets(cluster)
    addresses = _pod_addresses(cluster)
    assert addresses, "there is no pod on the pod network: nothing is shown"
    for address, name in addresses.items():
        assert ip_address(address) in ip_network(subnets[name], strict=False), (address, name, subnets)
    # A pod that ends meanwhile doesn't answer, and is left out the next time.
    until("every node to reach every pod", lambda: _silent_pods(cluster, subnets) == [], timeout_seconds=60)
    for name in subnets:
        assert _on(cluster, name, "ls /etc/lab/routes /etc/cni/net.d/10-lab.conflist 2>/dev/null || true") == ""


def _silent_pods(cluster: LabCluster, names: Iterable[str]) -> list[str]:
    """The addresses of pods that don't answer one of the nodes."""
    asked = "; ".join(f"ping -c 1 -W 5 {each} >/dev/null || echo {each}" for each in _pod_addresses(cluster))
    return [address for name in names for address in _on(cluster, name, asked).split()]


def _flannels_subnets(cluster: LabCluster) -> dict[str, str]:
    """Node → what flannel has written of it since it was switched on; empty while one is missing."""
    asked = "if [ -e /run/flannel/subnet.env ]; then . /run/flannel/subnet.env; echo $FLANNEL_SUBNET; fi"
    nodes = [node.name for node in Lab.find(cluster.name).placement.nodes if node.kubernetes]
    found = {name: _on(cluster, name, asked).strip() for name in nodes}
    return found if all(found.values()) else {}


def _pod_addresses(cluster: LabCluster) -> dict[str, str]:
    """Address → node of each pod of kube-system that is Running in the pod network."""
    return {
        pod["status"]["podIP"]: pod["spec"]["nodeName"]
        for pod in cluster.kube.list(_PODS, "kube-system")
        if not pod["spec"].get("hostNetwork")
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and "podIP" in pod["status"]
    }


def _on(cluster: LabCluster, name: str, script: str) -> str:
    return Lab.find(cluster.name).run(name, script)


_KUBE_VIP = Given("kube-vip", HOW_TO_GET_IT, leave_the_address_to)

KINDS = (
    Kind("plain"),
    Kind("three-controllers", ("--controllers", "3")),
    Kind("hardened", ("--hardened",), proofs=(audits_to_a_file, encrypts_secrets)),
    Kind("dual-stack", ("--dual-stack",)),
    Kind("ipv6-only", ("--ipv6", "--workers", "1"), proofs=(has_no_ipv4,)),
    Kind("ipv6-only-three", ("--ipv6", "--controllers", "3"), proofs=(has_no_ipv4,)),
    Kind("keepalived", ("--vip",), check_script, (answers_the_check_script,)),
    Kind("keepalived-three", ("--vip", "--controllers", "3"), proofs=(has_the_virtual_ip_once,)),
    Kind("kube-vip", ("--vip",), proofs=(kube_vip_keeps_the_address,), program=_KUBE_VIP),
    Kind("kube-vip-three", ("--vip", "--controllers", "3"), proofs=(kube_vip_keeps_the_address,), program=_KUBE_VIP),
    Kind("external-etcd", ("--external-etcd",), proofs=(is_in_the_other_etcd,)),
    Kind("kubespray", ("--layout", "kubespray"), proofs=(is_laid_out_by_kubespray,)),
    Kind("kubespray-three", ("--layout", "kubespray", "--controllers", "3"), proofs=(is_laid_out_by_kubespray,)),
    Kind(
        "kubespray-loopback",
        ("--layout", "kubespray"),
        leads_to_itself,
        (is_laid_out_by_kubespray, leads_where_each_pod_can_go),
    ),
    Kind("host-names", ("--host-names",), proofs=(has_another_host_name,)),
    Kind("flannel", ("--flannel", "--workers", "1"), proofs=(flannel_connects_the_pods,)),
    Kind("bastion", ("--bastion",), proofs=(only_through_the_bastion,)),
    Kind("debian-13", ("--debian", "13"), proofs=(has_debian_13,)),
    Kind("containerd-2", ("--containerd", CONTAINERD), proofs=(has_containerd_2,)),
    Kind("private-registry", ("--registry",)),
    Kind("config-files", (), configure_by_files, (is_configured_by_files,)),
    Kind("kms-pod", (), encrypt_by_a_plugin, (is_encrypted_by_the_plugin,)),
    Kind("external-ca", (), take_the_ca_keys_away, (has_no_ca_key,)),
    Kind("external-cloud", (), use_an_external_cloud, (is_initialized_by_the_cloud,)),
    Kind(
        "no-kube-proxy",
        (),
        give_services_to_another,
        (another_serves_services,),
        components=tuple(name for name in COMPONENTS if name != "kube-proxy"),
    ),
)
