"""Reads the certificates of a controller over SSH, as an API with an expired one doesn't answer."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography import x509

from upgrader.model.certificate_file import CertificateFile, UnreadableCertificate
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["read_certificates"]

# Certificates only: kubelet-client-current.pem and kubeconfigs contain keys too, which never leave the host.
_SCRIPT = """
cd /etc/kubernetes 2>/dev/null || exit 0
for file in pki/*.crt pki/etcd/*.crt /var/lib/kubelet/pki/kubelet-client-current.pem; do
  [ -r "$file" ] || continue
  echo "file $file"
  sed -n '/BEGIN CERTIFICATE/,/END CERTIFICATE/p' "$file"
done
for file in *.conf; do
  [ -r "$file" ] && grep -q client-certificate-data: "$file" || continue
  echo "file $file"
  sed -n 's/.*client-certificate-data: *//p' "$file" | tr -d '"' | base64 -d
  echo
done
"""


def read_certificates(hosts: Hosts, host: Host) -> tuple[CertificateFile | UnreadableCertificate, ...]:
    """Those in the places where kubeadm and the kubelet keep them, in kubeconfigs too. Raises HostError."""
    output = hosts.run(host, ["sh", "-c", _SCRIPT]).stdout
    return tuple(_parsed(host.name, path, text) for path, text in _files(output))


def _parsed(host: str, path: str, text: str) -> CertificateFile | UnreadableCertificate:
    try:
        certificate = x509.load_pem_x509_certificates(text.encode())[0]
        return CertificateFile(
            host,
            path,
            certificate.subject.rfc4514_string(),
            certificate.issuer.rfc4514_string(),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
            _is_authority(certificate),
        )
    except ValueError as error:
        return UnreadableCertificate(host, path, str(error))


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        # An extension that can't be read doesn't hide when the certificate ends.
        return certificate.subject == certificate.issuer


def _files(output: str) -> Iterator[tuple[str, str]]:
    for part in output.split("file ")[1:]:
        name, _, text = part.partition("\n")
        yield name if name.startswith("/") else f"/etc/kubernetes/{name}", text
