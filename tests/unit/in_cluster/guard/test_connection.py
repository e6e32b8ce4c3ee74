"""How guard finds the API server, and with what it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testkit.certificates import Authority
from upgrader.in_cluster.guard.guard_errors import UsageError
from upgrader.in_cluster.guard.runtime.backoff import Backoff
from upgrader.in_cluster.guard.runtime.connection import Connection, by_kubeconfig, in_cluster
from upgrader.in_cluster.guard.runtime.resource import Resource

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A ServiceAccount's folder in a pod."""
    Authority(tmp_path / "ca")
    (tmp_path / "ca.pem").rename(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("one\n")
    return tmp_path


def test_a_pod_asks_by_its_token_and_verifies(account: Path) -> None:
    """The address is the environment's; nothing but the cluster's authority is trusted."""
    connection = in_cluster(POD, account)
    assert connection.url == "https://10.0.0.1:443"
    found = connection.credentials()
    assert found.token == "one" and found.context.check_hostname
    assert len(found.context.get_ca_certs()) == 1
    assert in_cluster({**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, account).url == "https://[fd00::1]:443"
    with pytest.raises(UsageError, match="config-file"):
        in_cluster({}, account)


def test_a_token_that_is_replaced_is_read_again(account: Path) -> None:
    """After a minute, or at once where the old one was refused; the same authority keeps its connections."""
    seconds = [0.0]
    read = in_cluster(POD, account)._read
    connection = Connection("https://x", read, lambda: seconds[0])
    first = connection.credentials()
    (account / "token").write_text("two")
    assert connection.credentials() is first
    assert connection.credentials(anew=True).token == "two"
    (account / "token").write_text("three")
    seconds[0] = 61
    later = connection.credentials()
    assert later.token == "three" and later.context is first.context
    (account / "token").unlink()
    assert connection.credentials(anew=True).token == "three", "for a moment it isn't there"


def test_another_authority_is_trusted_once_its_file_says_so(account: Path) -> None:
    """Clusters replace theirs."""
    connection = in_cluster(POD, account)
    before = connection.credentials().context
    Authority(account / "other")
    (account / "other.pem").rename(account / "ca.crt")
    assert connection.credentials(anew=True).context is not before


def kubeconfig(folder: Path, cluster: dict[str, object], user: dict[str, object]) -> Path:
    """With one context."""
    path = folder / "kubeconfig"
    config = {
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_outside_a_cluster_a_kubeconfig_says_all(account: Path) -> None:
    """By token or by certificate; the URL may be another one."""
    Authority(account / "ca2").issue(account / "me", "me")
    cluster: dict[str, object] = {"certificate-authority": "ca.crt"}
    by_token = by_kubeconfig(kubeconfig(account, cluster, {"token": "t"}), "https://other.example")
    assert (by_token.url, by_token.credentials().token) == ("https://other.example", "t")
    user: dict[str, object] = {"client-certificate": "me.pem", "client-key": "me.key"}
    by_certificate = by_kubeconfig(kubeconfig(account, cluster, user))
    assert (by_certificate.url, by_certificate.credentials().token) == ("https://api.example:6443", "")


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"insecure-skip-tls-verify": True}, {}, "without insecure-skip-tls-verify"),
        ({"server": "http://x"}, {}, "must be an https:// URL"),
        ({}, {"exec": {}}, "exec, which guard doesn't support"),
    ],
)
def test_what_would_not_be_verified_is_refused(
    tmp_path: Path, cluster: dict[str, object], user: dict[str, object], message: str
) -> None:
    """And so is a way to log in that is not supported, before anything is asked."""
    with pytest.raises(UsageError, match=message):
        by_kubeconfig(kubeconfig(tmp_path, cluster, user))


def test_credentials_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A file that isn't there, a kubeconfig that isn't one, no authority at all."""
    with pytest.raises(UsageError, match=r"can't be read.*token"):
        in_cluster(POD, tmp_path).credentials()
    (tmp_path / "bad").write_text("a: [")
    with pytest.raises(UsageError, match="can't be used"):
        by_kubeconfig(tmp_path / "bad")
    with pytest.raises(UsageError, match="no CA is set"):
        by_kubeconfig(kubeconfig(tmp_path, {}, {"token": "t"})).credentials()


def test_waits_double_up_to_a_limit_and_differ() -> None:
    """Half by chance; what works resets them."""
    backoff = Backoff(1, 4, lambda: 0.5)
    assert [backoff.next_seconds() for _ in range(4)] == [0.75, 1.5, 3, 3]
    backoff.reset()
    assert backoff.next_seconds() == 0.75


def test_paths_are_those_of_the_api() -> None:
    """Core and named groups, with and without a namespace; nothing of a name gets out of its place."""
    assert Resource("v1", "pods").path() == "/api/v1/pods"
    assert (
        Resource("apps/v1", "statefulsets").path("a", "b", "status")
        == "/apis/apps/v1/namespaces/a/statefulsets/b/status"
    )
    assert Resource("v1", "nodes", namespaced=False).path("a", "b/../c") == "/api/v1/nodes/b%2F..%2Fc"
