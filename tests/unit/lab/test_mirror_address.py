"""Where a mirror may be."""

from __future__ import annotations

import pytest

from upgrader.errors import UsageError
from upgrader.lab.mirror.address import read_address


def test_urls_below_a_path() -> None:
    """Files are below the whole URL; a registry's API comes before the path, and repositories after it."""
    address = read_address("--mirror", "https://mirror.example.com:8443/k8s/")
    assert address.file("release/v1.36.3/x") == "https://mirror.example.com:8443/k8s/release/v1.36.3/x"
    assert (
        address.registry("pause", "manifests/3.10.2") == "https://mirror.example.com:8443/v2/k8s/pause/manifests/3.10.2"
    )
    assert read_address("--mirror", "https://m").registry("pause", "blobs/x") == "https://m/v2/pause/blobs/x"


@pytest.mark.parametrize("url", ["http://127.0.0.1:80", "http://[::1]:8080", "http://localhost"])
def test_no_tls_within_this_machine(url: str) -> None:
    """Nobody is between the two there."""
    assert str(read_address("--mirror", url)) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://mirror.example.com", "must use TLS"),
        ("http://10.0.0.1", "must use TLS"),
        ("http://localhost.example.com", "must use TLS"),
        ("mirror.example.com", "not of the form"),
        ("ftp://mirror.example.com", "not of the form"),
        ("file:///srv/mirror", "not of the form"),
        ("https://", "not of the form"),
        ("https://m:port", "not of the form"),
        ("https://m/?token=s3cret", "not of the form"),
        ("https://m/#part", "not of the form"),
        ("https://m/a b", "not of the form"),
    ],
)
def test_other_urls(url: str, why: str) -> None:
    """Each is refused, before anything is asked for; what a query may hide isn't repeated."""
    with pytest.raises(UsageError, match=why) as caught:
        read_address("--mirror", url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://me:s3cret@mirror.example.com", "https://s3cret@m", "https://me:s3cret@[m"])
def test_credentials(url: str) -> None:
    """A password in a URL is refused, and not repeated."""
    with pytest.raises(UsageError, match="user name or a password") as caught:
        read_address("--mirror-registry", url)
    assert "s3cret" not in f"{caught.value.message} {caught.value.remedy}"
