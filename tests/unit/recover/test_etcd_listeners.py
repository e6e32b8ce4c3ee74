"""Where a member of etcd is asked, by the flags in its manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.certificates import Authority
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import etcd_facts

BOTH = "--listen-client-urls=https://127.0.0.1:2379,https://10.0.0.2:2379"


def host(folder: Path, *flags: str) -> str:
    """A controller with kubeadm's files, whose etcd has these flags."""
    pki = folder / "etc/kubernetes/pki/etcd"
    pki.mkdir(parents=True)
    authority = Authority(folder / "ca")
    authority.issue(folder / "client", "kube-etcd-healthcheck-client")
    for name, made in {
        "ca.crt": "ca.pem",
        "healthcheck-client.crt": "client.pem",
        "healthcheck-client.key": "client.key",
    }.items():
        (pki / name).write_bytes((folder / made).read_bytes())
    manifest = folder / "etc/kubernetes/manifests/etcd.yaml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("".join(f"    - {flag}\n" for flag in flags))
    return str(folder)


@pytest.mark.parametrize(
    ("flags", "asked", "port"),
    [
        ([BOTH], ("127.0.0.1", 2379), 2379),
        ([], ("127.0.0.1", 2379), 2379),
        (["--listen-client-urls=https://[::1]:2379,https://[fd00::2]:2379"], ("::1", 2379), 2379),
        (["--listen-client-urls=https://10.0.0.2:3379"], ("10.0.0.2", 3379), 3379),
        (["--listen-client-urls=https://0.0.0.0:2379"], ("127.0.0.1", 2379), 2379),
        ([BOTH, "--listen-client-http-urls=https://127.0.0.1:2382"], ("127.0.0.1", 2382), 2379),
    ],
)
def test_member_is_asked_where_it_serves_http(
    tmp_path: Path, flags: list[str], asked: tuple[str, int], port: int
) -> None:
    """Where HTTP has listeners of its own, those of gRPC refuse it; kube-apiserver's connections are at the latter."""
    root = host(tmp_path, *flags)
    assert etcd_facts.client(root)[1:] == asked
    assert etcd_facts.client_port(root) == port


def test_what_is_not_https_is_not_asked(tmp_path: Path) -> None:
    """Nobody says who answers there."""
    root = host(tmp_path, BOTH, "--listen-client-http-urls=http://127.0.0.1:2382")
    with pytest.raises(Failed, match=r"etcd listens on http://127\.0\.0\.1:2382, which is not HTTPS"):
        etcd_facts.client(root)
    assert etcd_facts.client_port(root) == 2379
