"""What root can't read without capabilities is refused before anything changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.adopt.kubeadm_pods import PKI, controller_with_modes, kubeadm_facts, kubeadm_pod, volume
from upgrader.adopt.readable_files import check_readable
from upgrader.errors import Blocked

_SSL = "/etc/ssl/etcd/ssl"
_KEY = f"{_SSL}/node-node1-key.pem"
_ROOTS = {_SSL: "41c0 0 0", _KEY: "81a0 0 0"}
"""A folder with mode 0700, and a file with mode 0640."""


def _check(files: Mapping[str, str], flag: str = "etcd-keyfile", path: str = _KEY, folder: str = _SSL) -> None:
    known = kubeadm_facts(kubeadm_pod("kube-apiserver", {flag: path}, volume("etcd-certs-0", folder)))
    check_readable(controller_with_modes(files), known.controllers, PKI)


@pytest.mark.parametrize(
    ("files", "closed"),
    [
        ({_SSL: "41c0 994 0"}, _SSL),  # Kubespray's: 0700, of the user etcd
        ({_KEY: "8180 994 0"}, _KEY),
        ({_KEY: "81a0 994 994"}, _KEY),
        ({_KEY: "8007 0 0"}, _KEY),  # the first class that fits decides
    ],
)
def test_what_is_closed_to_root_is_named(files: Mapping[str, str], closed: str) -> None:
    """The folder or the file, with its mode and its user."""
    with pytest.raises(
        Blocked, match=rf"controller-1: the chart's kube-apiserver can't read {closed} \(mode .*, user "
    ) as caught:
        _check({**_ROOTS, **files})
    assert f"chown root {closed}" in caught.value.remedy and "nothing was changed" in caught.value.message


@pytest.mark.parametrize("names", ["", ":api.example.org", ":api.example.org,*.example.org"])
def test_a_key_before_the_names_that_it_is_for(names: str) -> None:
    """`--tls-sni-cert-key` has them after a colon."""
    with pytest.raises(Blocked, match=f"can't read {_KEY} "):
        _check({**_ROOTS, _KEY: "8180 994 994"}, "tls-sni-cert-key", f"{_SSL}/node1.pem,{_KEY}{names}")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {_KEY: "81a0 994 0"},  # 0640, and the group is root's
        {_KEY: "81a4 994 994"},  # 0644
        {_SSL: "41ed 994 994"},  # 0755
        {f"{PKI}/apiserver.key": "8180 0 0", PKI: "41c0 994 994"},  # mounted by itself: its folder doesn't count
    ],
)
def test_what_root_can_read_passes(files: Mapping[str, str]) -> None:
    """By its owner, its group or everyone's mode."""
    known = kubeadm_pod("kube-apiserver", {"etcd-keyfile": _KEY}, volume("etcd-certs-0", _SSL))
    controllers = kubeadm_facts(known).controllers
    only = [
        type(each)(each.host, {"kube-apiserver": each.active["kube-apiserver"]}, each.adopted) for each in controllers
    ]
    check_readable(controller_with_modes({**_ROOTS, **files}), only, PKI)


def test_file_that_only_another_file_names() -> None:
    """A webhook's key of another user, say: kube-apiserver would end where it reads it."""
    known, key = kubeadm_facts(kubeadm_pod("kube-apiserver", {})), "/etc/kubernetes/webhook/client.key"
    hosts = controller_with_modes({key: "8180 65532 65532"})
    with pytest.raises(Blocked, match=r"kube-apiserver can't read /etc/kubernetes/webhook/client.key \(mode 0600"):
        check_readable(hosts, known.controllers, PKI, files=[key])
