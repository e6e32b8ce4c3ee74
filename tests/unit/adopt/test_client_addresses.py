"""Where clients use the API, other than at the controllers' own addresses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import certificate, table
from upgrader.adopt.client_addresses import ApiPod, client_addresses, without_ipv6_loopback
from upgrader.adopt.listeners import read_listeners
from upgrader.adopt.node_addresses import node_address
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult, Kind

ONE, TWO = Host("controller-1", "198.51.100.1"), Host("controller-2", "198.51.100.2")
ADDRESS = {ONE.name: "10.0.0.1", TWO.name: "10.0.0.2"}
VIP, CLUSTER_IP, BALANCER = "10.0.0.9", "10.96.0.1", "203.0.113.5"
_PEM = "/etc/kubernetes/pki/apiserver.crt"


class Controllers:
    """Controllers on fakes, of which the first has the virtual IP."""

    def __init__(self) -> None:
        self.kube, self.hosts = FakeKube(), FakeHosts()
        self.local = {ONE.name: ["127.0.0.1/8", "10.0.0.1/24", f"{VIP}/32"], TWO.name: ["127.0.0.1/8", "10.0.0.2/24"]}
        self.listening: dict[str, list[tuple[str, int]]] = {name: [("::", 6443)] for name in ADDRESS}
        self.names = {"api.example.org": [VIP]}
        self.interface = "eth0"
        self.beside: dict[str, str] = {}
        """Host name → what is in its other manifests, and in keepalived's files."""
        self.hosts.commands.update(ip=self._ip, sh=self._sh, getent=self._getent)
        for host in (ONE, TWO):
            addresses = [
                {"type": "Hostname", "address": host.name},
                {"type": "InternalIP", "address": ADDRESS[host.name]},
            ]
            node = {"metadata": {"name": host.name}, "status": {"addresses": addresses}}
            self.kube.put(Kind("v1", "nodes", namespaced=False), node)
            self.certify(host, "10.0.0.1", "10.0.0.2", CLUSTER_IP)

    def certify(self, host: Host, *names: str) -> None:
        """Give a host a certificate for these names and addresses."""
        self.hosts.files[host.name, _PEM] = certificate(names)

    def found(self, *servers: str, **flags: str) -> tuple[str, ...]:
        """Both controllers' client addresses."""
        given = {name.replace("_", "-"): (value,) for name, value in flags.items()}
        return client_addresses(self.kube, self.hosts, [ApiPod(ONE, given), ApiPod(TWO, given)], servers)

    def _ip(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        lines = [
            f"2: {self.interface}    inet{'6' if ':' in each else ''} {each} scope global"
            for each in self.local[host.name]
        ]
        return CommandResult(0, "\n".join(lines), "")

    def _sh(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if "/proc/net/tcp" in command[2]:
            return CommandResult(0, table(self.listening[host.name]), "")
        return CommandResult(0, self.beside.get(host.name, ""), "")

    def _getent(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        found = self.names.get(command[-1])
        lines = [f"{address}  STREAM {command[-1]}" for address in found or ()]
        return CommandResult(0 if found else 2, "\n".join(lines), "")


@pytest.fixture
def controllers() -> Controllers:
    """Two controllers, one of them with the virtual IP; kubeadm's kube-apiserver listens on all addresses."""
    return Controllers()


def test_controllers_own_addresses_are_none(controllers: Controllers) -> None:
    """Where only nodes' addresses and the Service's are in the certificate, the chart needs no other."""
    assert controllers.found("10.0.0.1") == ()


def test_a_virtual_ip_of_one_controller_is_for_all(controllers: Controllers) -> None:
    """An address that is in a certificate, and on any controller, may move to the others."""
    controllers.certify(TWO, "10.0.0.2", VIP)
    assert controllers.found() == (VIP,)


def test_names_in_certificates_are_resolved_where_the_components_run(controllers: Controllers) -> None:
    """A name that leads to an address of a controller is one that clients use; one that nobody knows is not."""
    controllers.certify(ONE, "api.example.org", "kubernetes.default.svc")
    assert controllers.found() == (VIP,)


def test_every_kubeconfig_counts(controllers: Controllers) -> None:
    """The operator's, and those of the controllers' own components, even if the certificate lacks what they use."""
    kubelet = {"clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:6443"}}]}
    controllers.hosts.files[TWO.name, "/etc/kubernetes/kubelet.conf"] = yaml.safe_dump(kubelet).encode()
    assert controllers.found(VIP) == (VIP, "127.0.0.1")


def test_where_kube_apiserver_connects_to_itself_stays_its_own(controllers: Controllers) -> None:
    """Kubespray's certificates have ::1: with HAProxy there, a static pod that is restored would never get ready. Only
    who uses that very address is served there.
    """
    controllers.local = {name: [*given, "::1/128"] for name, given in controllers.local.items()}
    controllers.names["localhost"] = ["::1", "127.0.0.1"]
    for host in (ONE, TWO):
        controllers.certify(host, "localhost", "127.0.0.1", "::1")
    assert controllers.found("localhost", bind_address="::") == ("127.0.0.1",)
    kubelet = {"clusters": [{"name": "x", "cluster": {"server": "https://[::1]:6443"}}]}
    controllers.hosts.files[TWO.name, "/etc/kubernetes/kubelet.conf"] = yaml.safe_dump(kubelet).encode()
    assert controllers.found(bind_address="::") == ("127.0.0.1", "::1")


def test_a_controller_without_ipv6_is_known(controllers: Controllers) -> None:
    """Its kube-apiserver connects to itself at 127.0.0.1, if it listens on all addresses."""
    controllers.local[TWO.name].append("::1/128")
    pods = [ApiPod(ONE, {}), ApiPod(TWO, {})]
    assert without_ipv6_loopback(controllers.hosts, pods) == (ONE.name,)
    assert without_ipv6_loopback(controllers.hosts, [ApiPod(ONE, {"bind-address": ("10.0.0.1",)})]) == ()


def test_a_name_of_that_address_alone_counts_as_its_use(controllers: Controllers) -> None:
    """What asks `localhost6` tries nothing else; where only a certificate has that name, nobody is known to ask."""
    controllers.local = {name: [*given, "::1/128"] for name, given in controllers.local.items()}
    controllers.names["localhost6"] = ["::1"]
    controllers.certify(ONE, "localhost6")
    assert controllers.found() == ()
    assert controllers.found("localhost6") == ("::1",)
    assert controllers.found("0:0:0:0:0:0:0:1") == ("::1",)


def test_a_name_of_the_hosts_file_leads_where_the_file_says(controllers: Controllers) -> None:
    """glibc answers 127.0.0.1 for it where only the loopback interface has IPv6; Go's resolver, which most clients of
    the API use, doesn't.
    """
    controllers.local = {name: [*given, "::1/128"] for name, given in controllers.local.items()}
    controllers.names |= {"ip6-localhost": ["127.0.0.1"], "localhost": ["127.0.0.1"], "both": ["127.0.0.1"]}
    listed = (
        b"# fe80::1 ip6-localhost\n127.0.0.1 localhost both\n0::1 localhost IP6-localhost both # own\nno address\n\n"
    )
    for host in (ONE, TWO):
        controllers.hosts.files[host.name, "/etc/hosts"] = listed
        controllers.certify(host, "localhost", "ip6-localhost")
    assert controllers.found("localhost", "both") == ("127.0.0.1",)
    assert controllers.found("ip6-localhost") == ("127.0.0.1", "::1")


def test_localhost_leads_to_ipv6_alone_where_the_file_says_so(controllers: Controllers) -> None:
    """As in images for IPv6 alone: a kubeconfig with that name has no other address."""
    controllers.local = {name: [*given, "::1/128"] for name, given in controllers.local.items()}
    controllers.names["localhost"] = ["::1"]
    assert controllers.found("localhost") == ()
    for host in (ONE, TWO):
        controllers.hosts.files[host.name, "/etc/hosts"] = b"::1 localhost\n"
    assert controllers.found("localhost") == ("::1",)


def test_addresses_elsewhere_stay_as_they_are(controllers: Controllers) -> None:
    """A load balancer on another machine, and addresses that kube-proxy serves, need no listener here."""
    controllers.certify(ONE, BALANCER, CLUSTER_IP)
    assert controllers.found(BALANCER) == ()
    controllers.interface = "kube-ipvs0"
    controllers.local[ONE.name] = [f"{CLUSTER_IP}/32"]
    assert controllers.found() == ()


def test_debians_address_of_the_machines_own_name_counts(controllers: Controllers) -> None:
    """/etc/hosts of Debian and Ubuntu leads it to 127.0.1.1, which no interface shows, as all of 127.0.0.0/8 is local.
    kubeadm's certificates have that name, and its kubeconfigs, too, where it is the `controlPlaneEndpoint`.
    """
    controllers.names[ONE.name] = ["127.0.1.1"]
    controllers.certify(ONE, ONE.name, "10.0.0.1")
    assert controllers.found() == ("127.0.1.1",)
    assert controllers.found(bind_address="10.0.0.1") == ()
    controllers.listening[ONE.name].append(("127.0.1.1", 6443))
    controllers.listening[TWO.name].append(("127.0.1.1", 6443))
    assert controllers.found() == (), "another program has it"


def test_what_another_program_serves_stays_its_own(controllers: Controllers) -> None:
    """A load balancer on the controller that listens at the virtual IP gets its connections today, and goes on so."""
    controllers.certify(ONE, VIP)
    controllers.listening[ONE.name].append((VIP, 6443))
    assert controllers.found() == ()
    controllers.listening[ONE.name].append(("10.0.0.1", 6443))  # the chart's own, after an earlier adoption
    assert controllers.found() == (VIP,)


def test_a_server_on_one_address_serves_that_alone(controllers: Controllers) -> None:
    """`--bind-address`: whatever else is local was never served by kube-apiserver."""
    controllers.certify(ONE, VIP, "127.0.0.1")
    assert controllers.found(bind_address=VIP) == (VIP,)


def test_ipv6_addresses_count(controllers: Controllers) -> None:
    """Written in any form, they are the same address."""
    controllers.local[ONE.name].append("2001:db8:0:0::9/64")
    controllers.certify(ONE, "2001:db8::9")
    assert controllers.found() == ("2001:db8::9",)


def test_a_certificate_without_names_has_none(controllers: Controllers) -> None:
    """It isn't an error: clients verify such a server in other ways."""
    controllers.certify(ONE)
    assert controllers.found() == ()


def test_more_certificates_for_other_names_count(controllers: Controllers) -> None:
    """`--tls-sni-cert-key` gives the server further names."""
    for host in (ONE, TWO):
        controllers.hosts.files[host.name, "/sni.crt"] = certificate([VIP])
    assert controllers.found(tls_sni_cert_key="/sni.crt,/sni.key:api") == (VIP,)


def test_a_certificate_that_cannot_be_read_stops_the_adoption(controllers: Controllers) -> None:
    """What clients use would be unknown; the message names the file and its host."""
    with pytest.raises(Blocked, match=r"controller-1: .*/elsewhere.crt doesn't exist on the node") as caught:
        controllers.found(tls_cert_file="/elsewhere.crt")
    # The path of the node alone would not be in the container.
    assert caught.value.remedy.startswith("Use the same path on the node and in the static pod: mount ")
    assert "--tls-cert-file" in caught.value.remedy
    with pytest.raises(Blocked, match="controller-1: kube-apiserver's --tls-cert-file is empty"):
        controllers.found(tls_cert_file="")
    with pytest.raises(Blocked, match=r"certificate /sni\.crt doesn't exist on the node") as of_sni:
        controllers.found(tls_sni_cert_key="/sni.crt,/sni.key:api")
    assert "--tls-sni-cert-key" in of_sni.value.remedy


def test_files_that_say_nothing_are_named(controllers: Controllers) -> None:
    """A certificate that is none, and a kubeconfig that a tool has not filled in, on the controller that has it."""
    controllers.hosts.files[TWO.name, "/broken.crt"] = controllers.hosts.files[ONE.name, "/broken.crt"] = b"no PEM"
    with pytest.raises(Blocked, match=r"controller-1: kube-apiserver's certificate /broken\.crt can't be read, so the"):
        controllers.found(tls_cert_file="/broken.crt")
    controllers.hosts.files[TWO.name, "/etc/kubernetes/kubelet.conf"] = b"{{ kubeconfig }}: ["
    with pytest.raises(Blocked, match=r"controller-2: /etc/kubernetes/kubelet\.conf can't be read: it is not valid"):
        controllers.found()


def test_a_host_that_is_no_node_is_named(controllers: Controllers) -> None:
    """Its own address is not known then."""
    with pytest.raises(Blocked, match="node worker-7 has no InternalIP"):
        node_address(controllers.kube, Host("worker-7", "10.0.0.7"))


def test_only_listening_sockets_count() -> None:
    """Connections are in the same table."""
    sockets = [("10.0.0.1", 6443), ("::", 6443), ("0.0.0.0", 22), ("fd00::9", 6443)]
    hosts = FakeHosts()
    hosts.commands["sh"] = CommandResult(0, table(sockets) + "\n" + table([("10.0.0.7", 6443)], state="01"), "")
    found = read_listeners(hosts, Host("controller-1", "10.0.0.1"))
    assert found.at("10.0.0.1", 6443) and found.at("fd00:0::9", 6443)
    assert not found.at("10.0.0.7", 6443) and not found.at("10.0.0.1", 22)
    assert (found.on_all(6443), found.on_all(22), found.on_all(23)) == (1, 1, 0)


_KUBE_VIP = """
apiVersion: v1
kind: Pod
metadata: {name: kube-vip, namespace: kube-system}
spec:
  containers:
    - name: kube-vip
      args: [manager]
      env: [{name: address, value: 10.0.0.9}, {name: port, value: "6443"}, {name: vip_arp, value: "true"}]
      volumeMounts: [{name: kubeconfig, mountPath: /etc/kubernetes/admin.conf}]
  hostAliases: [{ip: 127.0.0.1, hostnames: [kubernetes]}]
  hostNetwork: true
  volumes: [{name: kubeconfig, hostPath: {path: /etc/kubernetes/admin.conf}}]
"""


@pytest.mark.parametrize("names", [["kubernetes", "kubernetes.default"], ["api.example.org"]])
def test_kube_vip_asks_its_own_controller(controllers: Controllers, names: list[str]) -> None:
    """Its static pod knows the API by a name of the certificate, and that leads to 127.0.0.1."""
    controllers.certify(ONE, *names)
    controllers.beside[ONE.name] = f"a file that is no YAML: [\n---\n{_KUBE_VIP}"
    assert controllers.found() == (("127.0.0.1",) if "kubernetes" in names else (VIP,))


_ITS_HOSTS = """
apiVersion: v1
kind: Pod
metadata: {name: kube-vip, namespace: kube-system}
spec:
  containers:
    - name: kube-vip
      volumeMounts: [{mountPath: /etc/hosts, name: names}, {mountPath: /etc/kubernetes/admin.conf, name: kubeconfig}]
  hostNetwork: true
  volumes: [{name: names, hostPath: {path: /etc/kube-vip.hosts, type: File}}, {name: kubeconfig, emptyDir: {}}]
"""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"127.0.0.1 localhost kubernetes\n", ("127.0.0.1",)),
        (b"127.0.0.1 localhost\n10.0.0.9 kubernetes # the virtual IP\n", (VIP,)),
        (b"127.0.0.1 localhost\n", ()),
        (None, ()),
    ],
    ids=["its own controller", "the virtual IP", "another name", "no such file"],
)
def test_a_hosts_file_of_a_static_pods_own_says_where_it_asks(
    controllers: Controllers, content: bytes | None, expected: tuple[str, ...]
) -> None:
    """Cluster API's templates mount one into kube-vip: the controller's own /etc/hosts doesn't have that name, and
    where nobody listens at 127.0.0.1 any more, the virtual IP would go.
    """
    controllers.certify(ONE, "kubernetes", "kubernetes.default")
    controllers.beside[ONE.name] = _ITS_HOSTS
    if content is not None:
        controllers.hosts.files[ONE.name, "/etc/kube-vip.hosts"] = content
    assert controllers.found() == expected


@pytest.mark.parametrize(("part", "expected"), [("subPath", ("127.0.0.1",)), ("subPathExpr", ())])
def test_a_hosts_file_may_be_a_part_of_a_volume(controllers: Controllers, part: str, expected: tuple[str, ...]) -> None:
    """The volume is a folder then, which can't be read as a file; a part that only the kubelet knows isn't read."""
    controllers.certify(ONE, "kubernetes", "kubernetes.default")
    controllers.beside[ONE.name] = _ITS_HOSTS.replace("name: names}, {mount", f"name: names, {part}: hosts}}, {{mount")
    controllers.hosts.files[ONE.name, "/etc/kube-vip.hosts"] = b"127.0.0.2 kubernetes\n"  # what a read would give
    controllers.hosts.files[ONE.name, "/etc/kube-vip.hosts/hosts"] = b"127.0.0.1 localhost kubernetes\n"
    assert controllers.found() == expected


@pytest.mark.parametrize(
    "line",
    [
        "curl -sfk --max-time 2 https://localhost:6443/healthz -o /dev/null || exit 1",
        "curl -sfk https://127.0.0.1:${APISERVER_DEST_PORT}/healthz",
        "timeout 1 bash -c '</dev/tcp/127.0.0.1/6443'",
        "nc -z localhost 6443",
    ],
)
def test_keepalived_asks_its_own_controller(controllers: Controllers, line: str) -> None:
    """Its check fails where nobody listens on localhost any more, and the virtual IP would go."""
    controllers.names["localhost"] = ["127.0.0.1"]
    controllers.beside[ONE.name] = line
    assert controllers.found() == ("127.0.0.1",)


@pytest.mark.parametrize("name", ["ip6-localhost", "ip6-loopback", "localhost6", "localhost6.localdomain6"])
def test_check_scripts_that_ask_at_a_name_of_ipv6s_loopback(controllers: Controllers, name: str) -> None:
    """Debian's and Red Hat's names of ::1: `localhost` in one of them isn't localhost, which is 127.0.0.1, too."""
    controllers.local = {each: [*given, "::1/128"] for each, given in controllers.local.items()}
    controllers.names |= {name: ["::1"], "localhost": ["127.0.0.1"]}
    for host in (ONE, TWO):
        controllers.hosts.files[host.name, "/etc/hosts"] = f"127.0.0.1 localhost\n::1 localhost {name}\n".encode()
    controllers.beside[ONE.name] = f"curl -sfk https://{name}:6443/healthz"
    assert controllers.found() == ("::1",)


@pytest.mark.parametrize("line", ["server one 10.0.0.1:6443 check", "curl http://localhost:8404/", "fd00::1:6443"])
def test_other_ports_and_addresses_are_nothing_to_serve(controllers: Controllers, line: str) -> None:
    """A load balancer's servers, and its own status page."""
    controllers.names["localhost"] = ["127.0.0.1"]
    controllers.beside[ONE.name] = line
    assert controllers.found() == ()


def test_a_balancer_on_localhost_stays_what_is_asked_there(controllers: Controllers) -> None:
    """Where another program listens on 127.0.0.1, it isn't kube-apiserver that keepalived asks."""
    controllers.names["localhost"] = ["127.0.0.1"]
    controllers.beside[ONE.name] = "https://localhost:6443/healthz"
    controllers.listening[ONE.name].append(("127.0.0.1", 6443))
    controllers.listening[TWO.name].append(("127.0.0.1", 6443))
    assert controllers.found() == ()


@pytest.mark.parametrize("bound", [("",), ("::", ""), (" 0.0.0.0 ",)])
def test_an_empty_bind_address_is_none(bound: tuple[str, ...]) -> None:
    """Kubernetes leaves what was there before it: by default, all addresses."""
    assert ApiPod(ONE, {"bind-address": bound}).everywhere
    assert not ApiPod(ONE, {"bind-address": ("10.0.0.1", "")}).everywhere
