"""What runs on a node when a new CA is to sign, with a kubeadm that does as the real one, and a way back."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.pki import CertificateAuthority
from upgrader.onhost.certificates import authority, kept_files, kubelet_certificate, new_authority
from upgrader.onhost.certificates.bundles import certificates, fingerprint, in_kubeconfig, trusted_by
from upgrader.onhost.certificates.issued import issued, issuer
from upgrader.onhost.certificates.renewed_by_kubeadm import fault, files_of
from upgrader.onhost.certificates.trust_files import Places
from upgrader.onhost.common.questions import Failed

OLD, NEW = CertificateAuthority.named("kubernetes"), CertificateAuthority.named("kubernetes")
OLD_PEM, NEW_PEM = OLD.pem, NEW.pem
OLD_PRINT, NEW_PRINT = fingerprint(OLD_PEM), fingerprint(NEW_PEM)
FORM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
NAMES = ("apiserver", "apiserver-kubelet-client", "admin.conf", "scheduler.conf")


def text_of(ca: CertificateAuthority) -> str:
    """A CA's key, as PEM."""
    return ca.key.private_bytes(*FORM).decode()


def pair(ca: CertificateAuthority) -> tuple[str, str]:
    """A certificate that a CA issues, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    return ca._signed(x509.Name([]), key.public_key()), key.private_bytes(*FORM).decode()


def write(name: str, ca: CertificateAuthority, trusted: str, kubernetes: Path, pki: Path) -> None:
    """As kubeadm writes one."""
    certificate, key = pair(ca)
    first, *more = map(Path, files_of(name, str(kubernetes), str(pki)))
    first.parent.mkdir(parents=True, exist_ok=True)
    if more:
        first.write_text(key)
        more[0].write_text(certificate)
        return
    data = {
        "certificate-authority": trusted,
        "client-certificate": certificate,
        "client-key": key,
    }
    lines = [f"    {kind}-data: {base64.b64encode(text.encode()).decode()}" for kind, text in data.items()]
    first.write_text("\n".join(("kind: Config", *lines, "")))


class Controller:
    """Its folders when both CAs are trusted, with the new one kept there. kubeadm signs with the first of ca.crt."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kubernetes, self.pki, self.folder = root / "kubernetes", root / "kubernetes" / "pki", root / "kept"
        self.current = root / "kubelet" / "kubelet-client-current.pem"
        self.restarts = 0
        for name in NAMES:
            write(name, OLD, OLD_PEM + NEW_PEM, self.kubernetes, self.pki)
        write("etcd-server", CertificateAuthority.named("etcd-ca"), "", self.kubernetes, self.pki)
        (self.pki / "ca.crt").write_text(OLD_PEM + NEW_PEM)
        (self.pki / "ca.key").write_text(text_of(OLD))
        (self.pki / authority.SIGNING).write_text(OLD_PEM)
        self.current.parent.mkdir()
        dated = self.current.parent / "kubelet-client-2026.pem"
        dated.write_text("".join(pair(OLD)))
        self.current.symlink_to(dated)
        (self.kubernetes / "kubelet.conf").write_text(f"users:\n- user:\n    client-certificate: {self.current}\n")
        for path in self.files():
            path.chmod(0o640)
        self.folder.mkdir(mode=0o700)
        self.kept = str(self.folder)
        new = self.folder / "new-ca"
        new.mkdir(mode=0o700)
        (new / "ca.crt").write_text(NEW_PEM)
        (new / "ca.key").write_text(text_of(NEW))
        for name, value in (
            ("FOLDER", self.kept),
            ("KUBERNETES", str(self.kubernetes)),
            ("_NEW", str(new)),
            ("_OLD", str(self.folder / "old-ca")),
            ("_KEPT", str(self.folder / "trust")),
            ("_CLIENT", str(self.folder / "kubelet")),
        ):
            monkeypatch.setattr(authority, name, value)
        monkeypatch.setattr(authority, "run_in_namespace", lambda _: self.kubeadm)
        monkeypatch.setattr(authority, "is_late", lambda _: False)
        monkeypatch.setattr(kubelet_certificate, "restart", self.restart)
        self.places = Places(str(self.pki), str(self.kubernetes), str(root / "config.yaml"))

    def files(self) -> list[Path]:
        """Whatever may change."""
        names = [Path(path) for name in NAMES for path in files_of(name, str(self.kubernetes), str(self.pki))]
        return [*names, *(self.pki / name for name in ("ca.key", "ca.crt", authority.SIGNING)), self.current]

    def content(self) -> dict[str, tuple[bytes, int]]:
        """Of every file: what is in it, and its mode."""
        return {str(path): (path.read_bytes(), path.stat().st_mode) for path in self.files()}

    def kubeadm(self, stage: str, arguments: Sequence[str]) -> None:
        """`kubeadm certs renew NAME --cert-dir …`, with the stage as its /etc/kubernetes."""
        pki = Path(stage, "pki")
        first = certificates((pki / "ca.crt").read_text())[0]
        assert (pki / "ca.key").read_text() == text_of(NEW) and first == NEW_PEM
        asks = trusted_by((Path(stage) / "admin.conf").read_text())
        assert asks == [[OLD_PRINT, NEW_PRINT]], "it asks the API, which may still serve the old CA's certificate"
        write(arguments[2], NEW, first, Path(stage), pki)

    def restart(self) -> None:
        """The kubelet."""
        self.restarts += 1

    def sign(self, renewal: str = "one", *given: str) -> list[str]:
        """The new CA, from then on."""
        changed: list[str] = authority.sign(str(self.pki), renewal, *given)["changed"]
        return changed

    def by(self) -> dict[str, str]:
        """Which CA has issued what."""
        listed = issued(str(self.kubernetes), str(self.pki), [OLD_PEM, NEW_PEM])
        return {os.path.basename(each["path"]): each["by"] for each in listed}


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """One that trusts both CAs."""
    return Controller(tmp_path, monkeypatch)


def test_signs_and_put_back(controller: Controller) -> None:
    """The new CA is the first in ca.crt, with its key, alone in the signer's file, and has issued what the old one had;
    all trust what they trusted, other CAs' certificates stay; the way back leads to the same bytes.
    """
    before = controller.content()
    etcd = (controller.pki / "etcd" / "server.crt").read_bytes()
    assert set(controller.by().values()) == {OLD_PRINT, ""}
    changed = controller.sign()
    assert {os.path.basename(path) for path in changed} >= {"ca.key", "ca.crt", authority.SIGNING, "admin.conf"}
    assert (controller.pki / "ca.crt").read_text() == NEW_PEM + OLD_PEM
    assert (controller.pki / "ca.key").read_text() == text_of(NEW)
    assert (controller.pki / authority.SIGNING).read_text() == NEW_PEM
    by = controller.by()
    assert by.pop("kubelet-client-current.pem") == OLD_PRINT and by.pop("server.crt") == ""
    assert set(by.values()) == {NEW_PRINT}
    for name in ("admin.conf", "scheduler.conf"):
        assert trusted_by((controller.kubernetes / name).read_text()) == [[OLD_PRINT, NEW_PRINT]]
    assert (controller.pki / "etcd" / "server.crt").read_bytes() == etcd
    assert {path: mode for path, (_, mode) in controller.content().items()} == {p: m for p, (_, m) in before.items()}
    assert new_authority.pair(str(controller.folder / "old-ca")) == (OLD_PEM, text_of(OLD))
    assert (controller.folder / "old-ca" / "apiserver-kubelet-client.crt").exists(), "it shows who trusts the old CA"
    assert not (controller.folder / "stage").exists(), "it had the CA's key"
    assert controller.sign("two") == [], "a second time there is nothing to do"
    kept_files.put_back(controller.kept, "one")
    assert controller.content() == before


def test_key_from_elsewhere(controller: Controller) -> None:
    """Where another controller keeps the new CA, it is sent, and is nowhere but in its place."""
    new_authority.forget(str(controller.folder / "new-ca"))
    with pytest.raises(Failed, match="key is not on this controller"):
        controller.sign()
    assert len(controller.sign("one", NEW_PEM, text_of(NEW))) > 3
    found = [path for path in controller.folder.rglob("*") if path.is_file() and text_of(NEW) in path.read_text()]
    assert not found


@pytest.mark.parametrize("written", range(9))
def test_power_cut_between_files(controller: Controller, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old CA and its key are kept before; what doesn't fit is put back, and the next attempt completes it."""
    done, overwrite = 0, kept_files._overwrite

    def cut(path: str, data: bytes, owner: object) -> None:
        nonlocal done
        if done == written:
            Path(path).write_bytes(data[: len(data) // 2])
            raise KeyboardInterrupt
        done += 1
        overwrite(path, data, owner)

    with monkeypatch.context() as patch:
        patch.setattr(kept_files, "_overwrite", cut)
        with pytest.raises(KeyboardInterrupt):
            controller.sign()
    assert new_authority.pair(str(controller.folder / "old-ca")) == (OLD_PEM, text_of(OLD))
    kept_files.mend(controller.kept)
    files = ("ca.key", "ca.crt", authority.SIGNING)
    assert not fault([str(controller.pki / name) for name in files]), "kube-controller-manager starts with it"
    for name in NAMES:
        assert not fault(files_of(name, str(controller.kubernetes), str(controller.pki)))
    controller.sign("two")
    by = controller.by()
    assert {by[name] for name in ("apiserver.crt", "admin.conf", "scheduler.conf")} == {NEW_PRINT}
    assert authority.signs(str(controller.pki)) == NEW_PEM
    assert certificates((controller.pki / "ca.crt").read_text()) == [NEW_PEM, OLD_PEM]


def test_what_is_not_trusted_yet_does_not_sign(controller: Controller) -> None:
    """Nothing changes: a client would refuse what it issues."""
    for path in (controller.pki / "ca.crt", controller.kubernetes / "scheduler.conf"):
        text = path.read_text()
        path.write_text(OLD_PEM if path.suffix == ".crt" else in_kubeconfig(text, lambda _: OLD_PEM))
        before = controller.content()
        with pytest.raises(Failed, match="the new CA yet"):
            controller.sign()
        assert controller.content() == before
        path.write_text(text)


def test_kubelet_gets_another_and_the_one_before(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the link that the kubelet follows, whole at each moment; the node says so until it was restarted."""
    before = controller.content()
    certificate, key = pair(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(kubelet_certificate, "restart", lambda: (_ for _ in ()).throw(Failed("no systemd")))
        with pytest.raises(Failed, match="no systemd"):
            authority.kubelet(str(controller.pki), "one", certificate, key)
    assert "might not have read" in authority.look(str(controller.pki))["late"]
    authority.kubelet(str(controller.pki), "two", certificate, key)
    assert authority.look(str(controller.pki))["late"] == "" and controller.restarts == 1
    assert controller.by()["kubelet-client-current.pem"] == NEW_PRINT and controller.current.is_symlink()
    with pytest.raises(Failed, match="can't be used"):
        authority.kubelet(str(controller.pki), "three", certificate, pair(NEW)[1])
    assert authority.kubelet_back("one") == {"changed": []}, "it is another run's"
    authority.kubelet(str(controller.pki), "four", *pair(NEW))
    authority.kubelet_back("four")
    assert controller.current.read_text() == certificate + key and controller.restarts == 3
    assert before != controller.content()


def test_kubelet_without_a_file(controller: Controller) -> None:
    """It can't be told which certificate to use."""
    (controller.kubernetes / "kubelet.conf").write_text("client-certificate-data: x\n")
    with pytest.raises(Failed, match="refers to no file"):
        authority.kubelet(str(controller.pki), "one", *pair(NEW))


def test_nothing_is_left(controller: Controller) -> None:
    """Neither CA's key, nor a copy of one; the one that signs stays in its place."""
    controller.sign()
    authority.kubelet(str(controller.pki), "one", *pair(NEW))
    authority.forget(str(controller.pki))
    assert sorted(path.name for path in controller.folder.iterdir()) == ["lock"]
    assert not (controller.pki / authority.SIGNING).exists() and authority.signs(str(controller.pki)) == NEW_PEM


def test_client_for_a_kubelet(tmp_path: Path) -> None:
    """kubeadm issues it, with the CA that is kept, and prints it; nothing of it stays on the disk."""
    folder = tmp_path / "new-ca"
    folder.mkdir()
    (folder / "ca.crt").write_text(NEW_PEM)
    (folder / "ca.key").write_text(text_of(NEW))
    certificate, key = pair(NEW)
    printed = {"certificate": certificate, "key": key}

    def kubeadm(*words: str) -> str:
        if words[0] == "version":
            return "v1.36.3\n"
        assert words[:3] == ("kubeconfig", "user", "--config")
        assert words[4:] == ("--org", "system:nodes", "--client-name", "system:node:worker-1")
        assert f'"certificatesDir": "{folder}"' in Path(words[3]).read_text()
        return "".join(
            f"    client-{kind}-data: {base64.b64encode(text.encode()).decode()}\n" for kind, text in printed.items()
        )

    settings = '{"encryptionAlgorithm": "ECDSA-P256"}'
    got = new_authority.issue(str(folder), settings, "system:node:worker-1", "system:nodes", kubeadm)
    assert got == (certificate, key)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["ca.crt", "ca.key", "new-ca"]
    printed.clear()
    with pytest.raises(Failed, match="printed no certificate"):
        new_authority.issue(str(folder), settings, "system:node:worker-1", "system:nodes", kubeadm)


def test_who_issued_it() -> None:
    """By the CA's key, as both have one name; another CA's are nobody's, and what is no certificate, too."""
    assert issuer(OLD.issue("x"), [NEW_PEM, OLD_PEM]) == OLD_PRINT
    assert issuer(NEW.issue("x"), [NEW_PEM, OLD_PEM]) == NEW_PRINT
    assert issuer(CertificateAuthority.named("kubernetes").issue("x"), [NEW_PEM, OLD_PEM]) == ""
    assert issuer("none", [NEW_PEM]) == ""


def test_who_issued_it_where_cas_have_no_identifier() -> None:
    """kubeadm's CAs of before v1.19 have none, and neither has what they issue: etcd's CA is told by its name."""
    cluster, etcd, mine, new = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
    old = plain("kubernetes", "kubernetes", cluster, cluster)
    known = [NEW_PEM, old]
    assert issuer(plain("kubernetes", "kube-apiserver", cluster, mine), known) == fingerprint(old)
    assert issuer(plain("etcd-ca", "etcd-server", etcd, mine), known) == ""
    assert issuer(plain("front-proxy-ca", "front-proxy-client", new, mine), known) == ""
    assert issuer(NEW.issue("x"), known) == NEW_PRINT


def plain(issuer: str, subject: str, key: ec.EllipticCurvePrivateKey, own: ec.EllipticCurvePrivateKey) -> str:
    """A certificate without extensions, as PEM."""
    by, of = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (issuer, subject))
    builder = x509.CertificateBuilder(by, of, own.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime(2019, 1, 1, tzinfo=UTC)).not_valid_after(
        datetime(2029, 1, 1, tzinfo=UTC)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
