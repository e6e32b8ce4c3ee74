"""How the API adapter uses a kubeconfig's certificates."""

from __future__ import annotations

import base64
import ssl
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject

from testkit.certificates import Authority
from testkit.connect_proxy import connect_proxy
from testkit.fakes.clock import FakeClock
from testkit.http_server import Handler, HttpServer, http_server
from testkit.pki import CertificateAuthority
from tests.unit.adapters.conftest import write_kubeconfig
from upgrader.adapters import apiclient
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiUnavailable, ConfigError, CredentialsRefused
from upgrader.gates.availability.api_endpoint import read_endpoint
from upgrader.onhost.common.tls import context as onhost_context
from upgrader.onhost.common.tls import get

_LATER_SECONDS = 61.0
"""After that, files are read again."""


class Certificates:
    """A CA and what it has issued, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority(folder / "ca")
        self.ca = folder / "ca.pem"

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        self.authority.issue(self.folder / name, name, hosts=hosts)
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    """Of the cluster."""
    folder = tmp_path / "pki"
    folder.mkdir()
    return Certificates(folder)


@pytest.fixture
def api(certificates: Certificates) -> Iterator[HttpServer]:
    """An API server that requires a client certificate, and answers with the name in it."""

    def answer(request: Handler) -> None:
        subject = request.connection.getpeercert()["subject"]
        request.reply(200, dict(pair for part in subject for pair in part)["commonName"].encode())

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificates.issue("server", "api.example"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(certificates.ca)
    with http_server(answer, tls) as server:
        yield server


@pytest.fixture
def no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no temporary file can be made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))


def inline(path: Path) -> str:
    """A file's content as kubeconfigs have it, in several lines as some tools write them."""
    return "\n".join(textwrap.wrap(base64.b64encode(path.read_bytes()).decode(), 64))


def asked(kubeconfig: Path) -> str:
    """Whom the API server takes a client with this kubeconfig for."""
    kube = KubeAdapter(kubeconfig, clock=FakeClock())
    try:
        return kube.raw("/readyz")
    finally:
        kube.close()


def files(certificate: Path, key: Path) -> dict[str, object]:
    """A kubeconfig's user with these files."""
    return {"client-certificate": str(certificate), "client-key": str(key)}


def trusting(api: HttpServer, authority: Path, **more: str) -> dict[str, object]:
    """A kubeconfig's cluster with this CA."""
    return {"server": api.url, "certificate-authority": str(authority), **more}


def test_certificates_in_files_are_used(api: HttpServer, certificates: Certificates, tmp_path: Path) -> None:
    """The server is verified by the cluster's CA, and told who asks."""
    user = files(*certificates.issue("admin"))
    assert asked(write_kubeconfig(tmp_path, trusting(api, certificates.ca), user)) == "admin"


@pytest.mark.usefixtures("no_disk")
def test_no_key_is_ever_on_the_disk(api: HttpServer, certificates: Certificates, tmp_path: Path) -> None:
    """Inline certificates and keys need no temporary file, which would stay when the process is killed."""
    certificate, key = certificates.issue("admin")
    user: dict[str, object] = {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}
    cluster: dict[str, object] = {"server": api.url, "certificate-authority-data": inline(certificates.ca)}
    kubeconfig = write_kubeconfig(tmp_path, cluster, user)
    assert asked(kubeconfig) == "admin"
    assert read_endpoint(kubeconfig).credentials.tls.get_ca_certs() != []


def test_another_authority_is_not_trusted(api: HttpServer, certificates: Certificates, tmp_path: Path) -> None:
    """The certificate of the server must be issued by the kubeconfig's CA."""
    (tmp_path / "other.pem").write_text(CertificateAuthority.named("other").pem)
    user = files(*certificates.issue("admin"))
    with pytest.raises(ApiUnavailable, match="can't be verified"):
        asked(write_kubeconfig(tmp_path, trusting(api, tmp_path / "other.pem"), user))


def test_an_authority_that_another_has_issued_is_trusted_by_itself(tmp_path: Path) -> None:
    """Below a company's root, the cluster's CA is an intermediate one, without its root; kubectl and Helm trust it."""
    middle = Authority(tmp_path / "middle", above=Authority(tmp_path / "root"))
    middle.issue(tmp_path / "server", "server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with http_server(lambda request: request.reply(200, b"ok"), tls) as server:
        kubeconfig = write_kubeconfig(tmp_path, trusting(server, tmp_path / "middle.pem"), {"token": "t"})
        assert asked(kubeconfig) == "ok"
        own = onhost_context((tmp_path / "middle.pem").read_text())
        port = int(server.url.rpartition(":")[2])
        assert get(own, "127.0.0.1", port, "127.0.0.1", "/")[0] == 200, "from the controller itself"


def test_authorities_of_the_package_are_not_trusted(
    api: HttpServer, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some versions of the kubernetes package add the public CAs where its configuration names none."""

    class Adding(RESTClientObject):
        def __init__(self, configuration: Configuration) -> None:
            configuration.ssl_ca_cert = str(certificates.ca)
            super().__init__(configuration)

    monkeypatch.setattr(apiclient, "RESTClientObject", Adding)
    (tmp_path / "other.pem").write_text(CertificateAuthority.named("other").pem)
    user = files(*certificates.issue("admin"))
    with pytest.raises(ApiUnavailable, match="can't be verified"):
        asked(write_kubeconfig(tmp_path, trusting(api, tmp_path / "other.pem"), user))


def test_without_an_authority_this_machines_count(
    api: HttpServer, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for kubectl, and only where the kubeconfig has none: one that is empty is an error."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    user = files(*certificates.issue("admin"))
    assert asked(write_kubeconfig(tmp_path, {"server": api.url}, user)) == "admin"
    with pytest.raises(ConfigError, match="certificate-authority-data can't be used: no certificate"):
        asked(write_kubeconfig(tmp_path, {"server": api.url, "certificate-authority-data": "\n"}, user))


@pytest.mark.parametrize(("name", "trusted"), [("api.example", True), ("other.example", False)])
def test_the_server_has_the_name_that_the_kubeconfig_says(
    name: str, trusted: bool, api: HttpServer, certificates: Certificates, tmp_path: Path
) -> None:
    """`tls-server-name` is what the certificate must be valid for, in the place of the address."""
    cluster = trusting(api, certificates.ca, **{"tls-server-name": name})
    kubeconfig = write_kubeconfig(tmp_path, cluster, files(*certificates.issue("admin")))
    if trusted:
        assert asked(kubeconfig) == "admin"
    else:
        with pytest.raises(ApiUnavailable, match=r"can't be verified.*other\.example"):
            asked(kubeconfig)


def test_a_proxy_is_passed_by_the_same_certificates(
    api: HttpServer, certificates: Certificates, tmp_path: Path
) -> None:
    """Through a tunnel, the server is verified and told who asks as without."""
    with connect_proxy({"api.example": int(api.url.rpartition(":")[2])}) as proxy:
        cluster = trusting(api, certificates.ca, **{"server": "https://api.example:6443", "proxy-url": proxy.url})
        assert asked(write_kubeconfig(tmp_path, cluster, files(*certificates.issue("admin")))) == "admin"
    assert [line.split()[:2] for line in proxy.asked] == [["CONNECT", "api.example:6443"]]


def test_a_key_with_a_password_is_refused(api: HttpServer, certificates: Certificates, tmp_path: Path) -> None:
    """Nothing waits for a password to be entered."""
    certificate, key = certificates.issue("admin")
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    password = serialization.BestAvailableEncryption(b"sesame")
    form = serialization.PrivateFormat.PKCS8
    key.write_bytes(plain.private_bytes(serialization.Encoding.PEM, form, password))
    with pytest.raises(ConfigError, match=r"kubeconfig: .*the key is encrypted"):
        asked(write_kubeconfig(tmp_path, trusting(api, certificates.ca), files(certificate, key)))


class HalfRenewed:
    """A client whose certificate has been replaced, and its key not yet."""

    def __init__(self, api: HttpServer, certificates: Certificates, folder: Path) -> None:
        self.certificate, self.key = certificates.issue("admin")
        self.clock = FakeClock()
        self.kubeconfig = write_kubeconfig(folder, trusting(api, certificates.ca), files(self.certificate, self.key))
        self.kube = KubeAdapter(self.kubeconfig, clock=self.clock)
        assert self.kube.raw("/readyz") == "admin"
        new_certificate, self._new_key = certificates.issue("renewed")
        self.certificate.write_bytes(new_certificate.read_bytes())
        self.clock.sleep(_LATER_SECONDS)

    def finish(self) -> None:
        """Replace the key as well."""
        self.key.write_bytes(self._new_key.read_bytes())


@pytest.fixture
def half_renewed(api: HttpServer, certificates: Certificates, tmp_path: Path) -> Iterator[HalfRenewed]:
    """One that was in use before."""
    half = HalfRenewed(api, certificates, tmp_path)
    yield half
    half.kube.close()


def test_half_of_a_new_pair_changes_nothing(half_renewed: HalfRenewed) -> None:
    """Where a certificate is replaced before its key, the old ones are used until both are new."""
    assert half_renewed.kube.raw("/readyz") == "admin"
    half_renewed.finish()
    assert half_renewed.kube.raw("/readyz") == "renewed"


def test_half_of_a_new_pair_is_not_for_new_connections_either(half_renewed: HalfRenewed, api: HttpServer) -> None:
    """Nor does it matter to new connections, as to one instance of several."""
    assert half_renewed.kube.raw("/readyz") == "admin"
    assert half_renewed.kube.raw("/readyz", server=api.url) == "admin"


def test_half_of_a_new_pair_is_said_when_the_old_one_is_refused(half_renewed: HalfRenewed, api: HttpServer) -> None:
    """The old certificate may have expired by then; the server's answer alone would tell nothing of the new one."""
    api.answer = lambda request: request.reply(401)
    with pytest.raises(CredentialsRefused, match=r"expired, and new ones can't be read.*don't belong together"):
        half_renewed.kube.raw("/readyz")


def test_half_of_a_pair_says_so_at_the_start(half_renewed: HalfRenewed) -> None:
    """A command that begins then names both files, and that it may pass; it doesn't doubt the server."""
    with pytest.raises(ConfigError, match="don't belong together") as caught:
        asked(half_renewed.kubeconfig)
    assert all(str(path) in caught.value.message for path in (half_renewed.certificate, half_renewed.key))
    assert "only one of them has been replaced" in caught.value.message
    assert "try again in a minute" in caught.value.remedy
