"""kube-vip's static pods keep the lab's virtual IP: ARP, the control plane and Services, and a Lease for each.

Its Go module is only in its repository, so its program is an argument.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from testkit.etcd_images import import_images
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.build_cache import content_hash
from upgrader.lab.lifecycle import Lab
from upgrader.lab.nspawn_machine import machine_of
from upgrader.lab.oci_archive import Image, layer_of_files
from upgrader.lab.spec import Node
from upgrader.ports import Kind as ApiKind

__all__ = ["HOW_TO_GET_IT", "kube_vip_keeps_the_address", "leave_the_address_to"]

HOW_TO_GET_IT = (
    "git clone https://github.com/kube-vip/kube-vip && cd kube-vip && CGO_ENABLED=0 go build -o kube-vip . "
    "(Go as its go.mod has it)"
)
_MANIFEST = "/etc/kubernetes/manifests/kube-vip.yaml"
_LEASE = "plndr-cp-lock"
_LEASES = ApiKind("coordination.k8s.io/v1", "leases")
_PODS = ApiKind("v1", "pods")
_STARTING_SECONDS = 60.0
"""The time for restarts of kube-vip, after its manifest appeared or its controller was switched on."""


def leave_the_address_to(cluster: LabCluster, program: Path) -> None:
    """Remove the virtual IP from the lab's interfaces and from keepalived, also at boots, and give each controller the
    static pod of `kube-vip manifest pod`.

    Raises subprocess.CalledProcessError if that fails, LabError if a controller can't be changed.
    """
    lab = Lab.find(cluster.name)
    address = lab.placement.endpoint_address
    # The flags of https://kube-vip.io/docs/installation/static/
    flags = ["--interface", "host0", "--address", address, "--controlplane", "--services", "--arp", "--leaderElection"]
    image = _image(program)
    made = [str(program), "manifest", "pod", *flags, "--image", image.name]
    pod = subprocess.run(made, check=True, capture_output=True, text=True).stdout
    names = [node.name for node in _controllers(lab)]
    import_images(cluster.name, names, [image], cluster.home)
    gone = f"sed -i 's| {address}/32||' /etc/lab/network; ip address del {address}/32 dev host0"
    if lab.placement.spec.keepalived:
        gone = "systemctl disable --quiet --now keepalived"
    for name in names:
        lab.run(name, f"set -e; {gone}\ncat >/root/kube-vip.yaml <<'END'\n{pod}END\nmv /root/kube-vip.yaml {_MANIFEST}")


def kube_vip_keeps_the_address(cluster: LabCluster) -> None:
    """The virtual IP, which clients of the API use, is on one controller only, whose kube-vip has the Lease; each
    kube-vip is Ready, and has not restarted since it was started.
    """
    lab = Lab.find(cluster.name)
    address = lab.placement.endpoint_address
    server = yaml.safe_load((cluster.folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    assert server == f"https://{address}:{lab.placement.spec.port}"
    until(
        "kube-vip to be Ready, and to keep the virtual IP where its Lease is",
        lambda: _kept(cluster, lab),
        timeout_seconds=120,
    )
    for node in _controllers(lab):
        begun = max(float(lab.run(node.name, f"stat -c %Y {_MANIFEST}")), machine_of(lab.placement, node).switched_on())
        status = _pod(cluster, node)["status"]["containerStatuses"][0]
        late = datetime.fromisoformat(status["state"]["running"]["startedAt"]).timestamp() - begun
        assert late < _STARTING_SECONDS, (
            f"kube-vip on {node.name} was started again {late:.0f} s after it began: {status}"
        )


def _kept(cluster: LabCluster, lab: Lab) -> bool:
    asked = f"ip -4 -oneline address show to {lab.placement.endpoint_address}"
    having = [node.name for node in _controllers(lab) if lab.run(node.name, asked)]
    lease = cluster.kube.get(_LEASES, _LEASE, "kube-system") or {"spec": {}}
    ready = all(_is_ready(_pod(cluster, node)) for node in _controllers(lab))
    return ready and having == [lease["spec"].get("holderIdentity")]


def _pod(cluster: LabCluster, node: Node) -> Any:
    return cluster.kube.get(_PODS, f"kube-vip-{node.name}", "kube-system") or {"status": {}}


def _is_ready(pod: Any) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def _controllers(lab: Lab) -> Sequence[Node]:
    return [node for node in lab.placement.nodes if node.role == "controller"]


def _image(program: Path) -> Image:
    """The program alone, as in its own image."""
    key = content_hash([program])
    layer = layer_of_files(f"kube-vip-{key}", {"/kube-vip": program.resolve()})
    return Image(f"upgrader.lab/kube-vip:{key}", (layer,), entrypoint=("/kube-vip",))
