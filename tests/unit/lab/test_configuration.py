"""Files that the lab writes: kubeadm's configuration, the load balancer's, CNI's and the cluster folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader.config.inventory import load_hosts
from upgrader.lab import kubespray
from upgrader.lab.bastion import bastion_files, firewall_files
from upgrader.lab.bridge import cni_config
from upgrader.lab.cluster_folder import ssh_command, write_access, write_cluster, write_values
from upgrader.lab.containerd import containerd_config
from upgrader.lab.external_etcd import client_files, etcd_files
from upgrader.lab.hardening import AUDIT_LOG, controller_files
from upgrader.lab.host_capabilities import HostCapabilities
from upgrader.lab.keepalived import CHECK, keepalived_files
from upgrader.lab.kubeadm_config import Secrets, init_config, join_config, join_registration
from upgrader.lab.kubelet_config import kubelet_configuration
from upgrader.lab.kubespray_kubelet import KUBELETS_FILE, kubelet_files
from upgrader.lab.loadbalancer import haproxy_files
from upgrader.lab.private_registry import CERTIFICATES
from upgrader.lab.spec import LabSpec, Placement

_SECRETS = Secrets("abcdef.0123456789abcdef", "00" * 32, "sha256:11")
_BOTH_POD_SUBNETS = "10.132.128.0/17,fd00:7570:84:100::/56"
_VERSIONS = {"coredns": "v1.14.2", "etcd": "3.6.8-0"}
_ADMIN_CONF = yaml.safe_dump({"clusters": [{"cluster": {"server": "https://api.x.lab:6443"}, "name": "x"}]})


def _placement(folder: Path = Path("/nowhere"), controllers: int = 3, workers: int = 1, **switches: Any) -> Placement:
    return Placement(LabSpec("x", controllers, workers, **switches), 4, folder)


def _keys(placement: Placement, folder: Path) -> Path:
    folder.mkdir()
    (folder / "id_ed25519").write_text("PRIVATE")
    (folder / "id_ed25519.pub").write_text("ssh-ed25519 LAB comment\n")
    (folder / "id_bastion").write_text("PRIVATE TOO")
    (folder / "id_bastion.pub").write_text("ssh-ed25519 OPERATOR comment\n")
    for node in placement.nodes:
        (folder / f"host_{node.name}.pub").write_text(f"ssh-ed25519 KEY-{node.name} comment\n")
    return folder


def _documents(text: str) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_kubeadm_makes_certificates_for_every_address_that_clients_use() -> None:
    """The load balancer's address, each controller's and the API's name are in the API server's certificate."""
    placement = _placement()
    names = _documents(init_config(placement, _SECRETS, _VERSIONS))["ClusterConfiguration"]["apiServer"]["certSANs"]
    controllers = [node.address for node in placement.nodes if node.role == "controller"]
    assert set(names) >= {placement.endpoint_name, placement.endpoint_address, *controllers}
    assert len(names) == len(set(names))


def test_kubeadm_lets_the_charts_take_the_port_over() -> None:
    """The static kube-apiserver shares its port, without which adoption would need an outage, and ends watches well."""
    configuration = _documents(init_config(_placement(), _SECRETS, _VERSIONS))["ClusterConfiguration"]
    flags = {flag["name"]: flag["value"] for flag in configuration["apiServer"]["extraArgs"]}
    assert flags["permit-port-sharing"] == "true"
    assert flags["shutdown-watch-termination-grace-period"] == "10s"


@pytest.mark.parametrize(("workers", "tainted"), [(0, False), (1, True)])
def test_controllers_take_workloads_only_when_there_are_no_workers(workers: int, tainted: bool) -> None:
    """Without workers the controllers' taint would leave no place for anything."""
    registration = _documents(init_config(_placement(workers=workers), _SECRETS, _VERSIONS))["InitConfiguration"]
    assert (registration["nodeRegistration"].get("taints") != []) is tainted


def test_only_controllers_join_the_control_plane_and_all_verify_the_ca() -> None:
    """A worker's configuration has no certificate key; every node pins the CA."""
    placement = _placement()
    controller = yaml.safe_load(join_config(placement, placement.node("controller-2"), _SECRETS))
    worker = yaml.safe_load(join_config(placement, placement.node("worker-1"), _SECRETS))
    assert controller["controlPlane"]["certificateKey"] == _SECRETS.certificate_key
    assert "controlPlane" not in worker
    for document in (controller, worker):
        assert document["discovery"]["bootstrapToken"]["caCertHashes"] == [_SECRETS.ca_hash]


def test_secrets_do_not_show_up_in_messages() -> None:
    """Their text form has none of them."""
    assert _SECRETS.token not in repr(_SECRETS)


def test_the_load_balancer_checks_every_controller_over_verified_tls() -> None:
    """Each controller is a server, and a check that can't verify its certificate fails."""
    placement = _placement()
    ready = _load_balancer(placement)["backend ready"]
    for node in placement.nodes:
        assert (f"server {node.name} {node.address}:6443 check" in ready) is (node.role == "controller")
    assert "verify required verifyhost kubernetes" in ready
    assert "GET uri /readyz" in ready


def test_the_load_balancer_takes_no_slow_controller_for_a_dead_one() -> None:
    """A busy one may take seconds to answer, keeps its connections, and is better than none at all."""
    placement = _placement()
    sections = _load_balancer(placement)
    assert "timeout check 5s" in sections["defaults"]
    assert "shutdown-sessions" not in "".join(sections.values())
    assert "tcp-ut" in sections["defaults"]  # a machine without power is found out by TCP
    assert "use_backend any if { nbsrv(ready) eq 0 }" in sections["frontend kube-apiserver"]
    assert sections["backend any"].count("server ") == placement.spec.controllers


@pytest.mark.parametrize(("controllers", "vip"), [(1, False), (3, False), (3, True)])
def test_the_load_balancer_before_the_workers(controllers: int, vip: bool) -> None:
    """It asks each worker's health port, repeats no request, and has a socket for the agent; without the switch there
    are no workers in it.
    """
    sections = _load_balancer(_placement(workers=2, controllers=controllers, vip=vip, ingress=True))
    ingress = sections["backend ingress"]
    for line in ("worker-1 10.132.0.31:8080 check port 10080", "worker-2 10.132.0.32:8080 check port 10080"):
        assert f"server {line}" in ingress
    assert "retries 0" in ingress and "no option redispatch" in ingress and "controller" not in ingress
    assert "stats socket /run/haproxy/admin.sock mode 660 group haproxy level admin" in sections["global"]
    assert ("backend ready" in sections) is (controllers == 3 and not vip)
    assert "backend ingress" not in _load_balancer(_placement())


def _load_balancer(placement: Placement) -> dict[str, str]:
    """Sections of HAProxy's configuration, by their first line."""
    config, _ = haproxy_files(placement, "CA")["/etc/haproxy/lab.cfg"]
    return {section.partition("\n")[0]: section for section in config.split("\n\n")}


def test_pods_get_addresses_from_the_nodes_own_pod_network() -> None:
    """The CNI configuration holds exactly the node's CIDR."""
    config = json.loads(cni_config(["10.132.129.0/24"]))
    assert config["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.132.129.0/24"}]]


def test_the_cluster_folder_has_inventory_and_strict_ssh(tmp_path: Path) -> None:
    """Nodes are in their groups; keys are private; SSH trusts the lab's own known_hosts and nothing else."""
    placement = _placement(tmp_path / "cluster")
    write_access(placement, _keys(placement, tmp_path / "keys"))
    inventory = yaml.safe_load((placement.folder / "hosts.yml").read_text())["all"]
    groups = {name: list(group["hosts"]) for name, group in inventory["children"].items()}
    assert groups == {
        "controllers": ["controller-1", "controller-2", "controller-3"],
        "workers": ["worker-1"],
        "load_balancers": ["lb-1"],
    }
    assert "StrictHostKeyChecking=yes" in inventory["vars"]["ansible_ssh_common_args"]
    assert (placement.folder / "ssh" / "id_ed25519").stat().st_mode & 0o077 == 0
    known = (placement.folder / "ssh" / "known_hosts").read_text().splitlines()
    assert known == [f"{node.address} ssh-ed25519 KEY-{node.name}" for node in placement.nodes]
    command = ssh_command(placement, placement.node("lb-1"))
    assert "StrictHostKeyChecking=yes" in command
    assert command[-1] == f"root@{placement.node('lb-1').address}"


def test_the_kubeconfig_works_from_outside_the_nodes(tmp_path: Path) -> None:
    """Its server is an address, as only nodes know the name, and nobody else may read it."""
    placement = _placement(tmp_path)
    write_cluster(placement, _ADMIN_CONF)
    kubeconfig = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == f"https://{placement.endpoint_address}:6443"
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o077 == 0


def test_what_the_user_changed_is_kept(tmp_path: Path) -> None:
    """`lab up` again writes neither upgrader.yaml nor values over those that are there."""
    placement = _placement(tmp_path)
    for _ in range(2):
        write_cluster(placement, _ADMIN_CONF)
        write_values(placement, haproxy="h:1", coredns="c:1", checkpointer=None)
        (tmp_path / "upgrader.yaml").write_text("mine")
        (tmp_path / "values" / "kube-apiserver.yaml").write_text("mine")
    write_cluster(placement, _ADMIN_CONF)
    write_values(placement, haproxy="h:2", coredns="c:2", checkpointer="p:2")
    assert (tmp_path / "upgrader.yaml").read_text() == "mine"
    assert (tmp_path / "values" / "kube-apiserver.yaml").read_text() == "mine"


def test_values_name_the_labs_images(tmp_path: Path) -> None:
    """Repository and tag of each image are apart, as charts want them."""
    write_values(_placement(tmp_path), haproxy="upgrader.lab/haproxy:2.6.12", coredns="c:1", checkpointer="a/p:0.1")
    read = {file.stem: yaml.safe_load(file.read_text()) for file in (tmp_path / "values").iterdir()}
    assert read["kube-apiserver"]["haproxy"]["image"] == {"repository": "upgrader.lab/haproxy", "tag": "2.6.12"}
    assert read["pod-checkpointer"]["image"] == {"repository": "a/p", "tag": "0.1"}


def test_the_port_is_the_same_for_nodes_clients_and_the_load_balancer(tmp_path: Path) -> None:
    """No part of a lab with another port mentions 6443."""
    placement = _placement(tmp_path, port=7443)
    documents = _documents(init_config(placement, _SECRETS, _VERSIONS))
    assert documents["InitConfiguration"]["localAPIEndpoint"]["bindPort"] == 7443
    assert documents["ClusterConfiguration"]["controlPlaneEndpoint"] == "api.x.lab:7443"
    write_cluster(placement, _ADMIN_CONF)
    texts = [
        init_config(placement, _SECRETS, _VERSIONS),
        join_config(placement, placement.node("controller-2"), _SECRETS),
        haproxy_files(placement, "CA")["/etc/haproxy/lab.cfg"][0],
        (tmp_path / "kubeconfig").read_text(),
    ]
    assert not any("6443" in text for text in texts)
    assert all("7443" in text for text in texts)


def test_a_vip_is_in_the_certificate() -> None:
    """Clients that use it verify it."""
    placement = _placement(controllers=1, vip=True)
    names = _documents(init_config(placement, _SECRETS, _VERSIONS))["ClusterConfiguration"]["apiServer"]["certSANs"]
    assert {"10.132.0.9", "10.132.0.11"} <= set(names)


def test_a_token_is_the_kubeconfigs_only_credential(tmp_path: Path) -> None:
    """The administrator's client certificate, which would be preferred, isn't in it."""
    admin = {"users": [{"name": "admin", "user": {"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}}]}
    write_cluster(_placement(tmp_path), _ADMIN_CONF + yaml.safe_dump(admin), token="TOKEN")
    kubeconfig = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert [entry["user"] for entry in kubeconfig["users"]] == [{"token": "TOKEN"}]


def test_ssh_goes_to_the_address_for_it(tmp_path: Path) -> None:
    """Inventory, known_hosts and the lab's own logins use it; nothing uses the node's address."""
    placement = _placement(tmp_path / "cluster", ssh_address=True)
    write_access(placement, _keys(placement, tmp_path / "keys"))
    for file in ("hosts.yml", "ssh/known_hosts"):
        text = (placement.folder / file).read_text()
        assert all(node.ssh_address in text and node.address not in text for node in placement.nodes)
    assert ssh_command(placement, placement.node("worker-1"))[-1] == "root@10.132.2.31"


@pytest.mark.parametrize("ssh_address", [False, True])
def test_ssh_goes_through_the_bastion(tmp_path: Path, ssh_address: bool) -> None:
    """As the product reads the folder: each controller by its address, through a bastion with another port and key, and
    both are verified.
    """
    placement = _placement(tmp_path / "cluster", bastion=True, ssh_address=ssh_address)
    write_access(placement, _keys(placement, tmp_path / "keys"))
    ssh, bastion = placement.folder / "ssh", placement.node("bastion-1")
    hosts = load_hosts(placement.folder / "hosts.yml")
    assert [host.name for host in hosts["controllers"]] == ["controller-1", "controller-2", "controller-3"]
    for host in hosts["controllers"]:
        assert (host.address, host.user, host.port) == (placement.node(host.name).ssh_address, "root", 22)
        (jump,) = host.jumps
        assert (jump.address, jump.user, jump.port) == (bastion.ssh_address, "root", 2222)
        assert (host.key_file, jump.key_file) == (ssh / "id_ed25519", ssh / "id_bastion")
        assert host.known_hosts == jump.known_hosts == ssh / "known_hosts"
        assert host.identities_only and jump.identities_only
    known = (ssh / "known_hosts").read_text()
    assert f"[{bastion.ssh_address}]:2222 ssh-ed25519 KEY-bastion-1" in known
    assert (ssh / "id_bastion").stat().st_mode & 0o077 == 0


def test_the_lab_itself_goes_through_the_bastion(tmp_path: Path) -> None:
    """With the same file as everybody; to the bastion with the lab's key, as the operator's runs no command there."""
    placement = _placement(tmp_path, bastion=True)
    to_node, to_bastion = (ssh_command(placement, placement.node(name)) for name in ("worker-1", "bastion-1"))
    assert to_node[to_node.index("-F") + 1] == str(tmp_path / "ssh" / "config")
    assert to_bastion[to_bastion.index("-F") + 1] == "none"
    assert to_bastion[to_bastion.index("-p") + 1] == "2222"
    allowed, _ = bastion_files(_keys(placement, tmp_path / "keys"))["/root/.ssh/authorized_keys"]
    lab, operator = allowed.splitlines()
    assert lab == "ssh-ed25519 LAB comment"
    assert operator == 'restrict,port-forwarding,command="/bin/false" ssh-ed25519 OPERATOR comment'


def test_no_other_machine_lets_anybody_else_in() -> None:
    """The rules of each one let the bastion's SSH address pass, and drop the rest that goes to sshd."""
    placement = _placement(bastion=True, ssh_address=True)
    ((rules, _mode),) = firewall_files(placement.node("bastion-1")).values()
    assert rules.index("ip saddr 10.132.2.2 tcp dport 22 accept") < rules.index("tcp dport 22 drop")


def test_two_ip_families_are_everywhere() -> None:
    """Services, pods, kube-proxy, each node and its pods have both, in the same order; so has the certificate."""
    placement = _placement(dual_stack=True)
    documents = _documents(init_config(placement, _SECRETS, _VERSIONS))
    networks = documents["ClusterConfiguration"]["networking"]
    assert networks == {"serviceSubnet": "10.132.16.0/20,fd00:7570:84:1::/112", "podSubnet": _BOTH_POD_SUBNETS}
    assert documents["KubeProxyConfiguration"]["clusterCIDR"] == _BOTH_POD_SUBNETS
    joined = yaml.safe_load(join_config(placement, placement.node("worker-1"), _SECRETS))
    assert joined["nodeRegistration"]["kubeletExtraArgs"][0]["value"] == "10.132.0.31,fd00:7570:84::31"
    assert "fd00:7570:84::12" in documents["ClusterConfiguration"]["apiServer"]["certSANs"]
    pods = json.loads(cni_config(["10.132.129.0/24", "fd00:7570:84:101::/64"]))["plugins"][0]["ipam"]
    assert [entry["dst"] for entry in pods["routes"]] == ["0.0.0.0/0", "::/0"]
    assert len(pods["ranges"]) == 2


def test_a_hardened_control_plane_has_its_files_on_each_controller() -> None:
    """Every file that a flag names is written, root's alone, and a volume of kubeadm's configuration mounts it."""
    placement = _placement(hardened=True)
    configuration = _documents(init_config(placement, _SECRETS, _VERSIONS))["ClusterConfiguration"]
    flags = {flag["name"]: flag["value"] for flag in configuration["apiServer"]["extraArgs"]}
    assert flags["permit-port-sharing"] == "true" and flags["audit-log-path"] == AUDIT_LOG
    files = controller_files("a2V5")
    mounted = [volume["mountPath"] for volume in configuration["apiServer"]["extraVolumes"]]
    named = [value for value in flags.values() if value.startswith("/etc/")]
    assert len(named) == 4 and set(named) < set(files)
    assert all(any(path.startswith(mount) for mount in mounted) for path in [*files, AUDIT_LOG])
    assert {mode for _, mode in files.values()} == {0o600}
    assert "a2V5" not in str(configuration)
    assert configuration["scheduler"]["extraArgs"] == [{"name": "profiling", "value": "false"}]


def test_a_plain_control_plane_has_no_volumes_of_its_own() -> None:
    """Without the switch nothing of it is there."""
    configuration = _documents(init_config(_placement(), _SECRETS, _VERSIONS))["ClusterConfiguration"]
    assert "extraVolumes" not in configuration["apiServer"] and "scheduler" not in configuration


def test_controllers_use_an_etcd_that_is_not_theirs(tmp_path: Path) -> None:
    """kubeadm gets its address and the three files of the guide; the CA's key leaves this machine for nobody."""
    placement = _placement(controllers=1, external_etcd=True)
    for name in ("etcd-ca.crt", "etcd-server.crt", "etcd-server.key", "etcd-client.crt", "etcd-client.key"):
        (tmp_path / name).write_text(name)
    external = _documents(init_config(placement, _SECRETS, _VERSIONS))["ClusterConfiguration"]["etcd"]["external"]
    files = client_files(tmp_path)
    assert external["endpoints"] == ["https://10.132.0.20:2379"]
    assert {external["caFile"], external["certFile"], external["keyFile"]} == set(files)
    assert files["/etc/kubernetes/pki/apiserver-etcd-client.key"] == ("etcd-client.key", 0o600)
    own = etcd_files(placement, tmp_path)
    config = yaml.safe_load(own["/etc/etcd/lab.yml"][0])
    assert config["client-transport-security"]["client-cert-auth"] and "10.132.0.20" in config["listen-client-urls"]
    assert own["/etc/etcd/server.key"][1] == 0o600


def test_kubesprays_layout_has_every_file_that_its_flags_name(tmp_path: Path) -> None:
    """On the second of three controllers: its own certificates for etcd, and a link at the first one's name."""
    placement = _placement(layout="kubespray")
    second = placement.node("controller-2")
    for name in (
        "etcd-ca.crt",
        *(f"{kind}-controller-2.{end}" for kind in ("member", "node") for end in ("crt", "key")),
    ):
        (tmp_path / name).write_text(name)
    configuration = _documents(init_config(placement, _SECRETS, _VERSIONS))["ClusterConfiguration"]
    files = kubespray.controller_files(placement, second, tmp_path)
    links = {
        words[1]: words[-1]
        for line in files["/etc/tmpfiles.d/kubespray.conf"][0].splitlines()
        if (words := line.split())[0] == "L"
    }
    external = configuration["etcd"]["external"]
    assert links[external["certFile"]] in files and links[external["keyFile"]] in files and external["caFile"] in files
    assert len(external["endpoints"]) == 3 and links["/etc/kubernetes/pki"] == configuration["certificatesDir"]
    etcd = yaml.safe_load(files["/etc/etcd/lab.yml"][0])
    assert etcd["name"] == "controller-2" and etcd["peer-transport-security"]["key-file"] in files
    assert etcd["data-dir"] == "/var/lib/etcd" and "::1" in configuration["apiServer"]["certSANs"]
    for section in ("apiServer", "scheduler"):
        volumes = {each["mountPath"]: each["hostPath"] for each in configuration[section]["extraVolumes"]}
        for flag in configuration[section]["extraArgs"]:
            if flag["value"].startswith("/etc/"):
                at = max((each for each in volumes if flag["value"].startswith(each)), key=len)
                assert flag["value"].replace(at, volumes[at], 1) in files, flag


def test_kubesprays_kubelet_has_all_that_kubeadm_writes_elsewhere() -> None:
    """It reads neither kubeadm's configuration nor kubeadm's flags: its own say the same, with Ansible's `False`."""
    placement = _placement(layout="kubespray", workers=0)
    registration = join_registration(placement, placement.node("controller-1")) | {"taints": [{"key": "a"}]}
    files = kubelet_files(kubelet_configuration(placement), registration)
    unit = files["/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"][0]
    flags = files["/etc/kubernetes/kubelet.env"][0]
    assert "EnvironmentFile=-/etc/kubernetes/kubelet.env" in unit and "/var/lib/kubelet" not in unit
    assert f"--config={KUBELETS_FILE}" in flags and "--node-ip=10.132.0.11" in flags
    text = files[KUBELETS_FILE][0]
    read = yaml.safe_load(text)
    assert "failCgroupV1: False\n" in text and read["registerWithTaints"] == [{"key": "a"}]
    joined = _documents(join_config(_placement(layout="kubespray"), placement.node("controller-1"), _SECRETS))
    assert joined["JoinConfiguration"]["caCertPath"] == read["authentication"]["x509"]["clientCAFile"]
    assert read["staticPodPath"] == "/etc/kubernetes/manifests" and read["clusterDNS"] == [placement.cluster_dns]


@pytest.mark.parametrize(("version", "format_version"), [("", 2), ("v2.4.2", 3)])
def test_each_containerd_gets_the_configuration_that_it_reads(version: str, format_version: int) -> None:
    """Both say the same: the sandbox's image, where CNI's programs are, the registries' CAs, and what runc may do."""
    facts = HostCapabilities(
        linux=True,
        root=True,
        may_lower_oom_score=False,
        bridge_netfilter=True,
        memory_available=0,
        disk_free=0,
        missing_packages=(),
    )
    read = tomllib.loads(containerd_config(facts, "registry.k8s.io/pause:1", version))
    assert read["version"] == format_version
    plugins = read["plugins"]
    if version:
        images, runtime = plugins["io.containerd.cri.v1.images"], plugins["io.containerd.cri.v1.runtime"]
        said = (images["pinned_images"]["sandbox"], images["registry"]["config_path"], *runtime["cni"]["bin_dirs"])
    else:
        images = runtime = plugins["io.containerd.grpc.v1.cri"]
        said = (images["sandbox_image"], images["registry"]["config_path"], runtime["cni"]["bin_dir"])
    assert said == ("registry.k8s.io/pause:1", CERTIFICATES, "/usr/lib/cni")
    assert runtime["cni"]["conf_dir"] == "/etc/cni/net.d" and runtime["restrict_oom_score_adj"] is True


def test_keepalived_prefers_the_first_controller_while_it_is_healthy() -> None:
    """Its priority is the highest, and with an unhealthy API the lowest; only root may read the password."""
    placement = _placement(vip=True)
    priorities, peers = [], []
    for name in ("controller-1", "controller-2", "controller-3"):
        files = keepalived_files(placement, placement.node(name), "s3cret")
        config, mode = files["/etc/keepalived/keepalived.conf"]
        assert mode == 0o600 and "auth_pass s3cret" in config and "10.132.0.9/32" in config
        assert "https://localhost:6443/healthz" in files[CHECK][0] and files[CHECK][1] == 0o755
        priorities += [int(line.split()[1]) for line in config.splitlines() if line.strip().startswith("priority")]
        assert "weight -2" in config
        peers.append([line.strip() for line in config.splitlines() if line.strip().startswith("10.132.0.1")])
    assert priorities == [101, 100, 100]
    assert peers[0] == ["10.132.0.12", "10.132.0.13"] and peers[2] == ["10.132.0.11", "10.132.0.12"]
