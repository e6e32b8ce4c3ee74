"""Reads the certificates of a controller over SSH, as an API with an expired one doesn't answer."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from cryptography import x509

from upgrader.errors import HostError
from upgrader.model.certificate_file import CERTIFICATES_FOLDER, CertificateFile, UnreadableCertificate
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["read_certificates"]

# A line for each certificate: `certificate NAME PEM` or `forbidden NAME`; before them, `certificates-folder NAME` where
# kubeadm has another one than usual. Name and PEM are base64, as either may be anything. Keys, which kubeconfigs and
# kubelet-client-current.pem contain too, never leave the host.
_SCRIPT = r"""
one_line() { base64 | tr -d '\n'; }
certificates() {
  sed -n -e '/BEGIN .*PRIVATE KEY/,/END .*PRIVATE KEY/d' \
    -e '/^-----BEGIN CERTIFICATE-----/,/^-----END CERTIFICATE-----/p'
}
shown() { printf 'certificate %s %s\n' "$(printf %s "$1" | one_line)" "$(certificates | one_line)"; }
forbidden() { printf 'forbidden %s\n' "$(printf %s "$1" | one_line)"; }

# Where kubeadm's `certificatesDir` is another one, the manifests' flags name it, those too that were adopted.
manifests() { cat /etc/kubernetes/manifests/*.yaml /etc/kubernetes/upgrader/adopted/*.yaml 2>/dev/null; }
elsewhere() {
  manifests |
    sed -n "s|.*--[a-z-]*=\(/[^\"' ,]*\)/[^/\"' ,]*\.crt.*|\1|p" | sort -u |
    while read -r folder; do
      case "$(readlink -f "$folder")" in
        "$(readlink -f /etc/kubernetes/pki)" | "$(readlink -f /etc/kubernetes/pki/etcd)") ;;
        *) printf '%s\n' "$folder" ;;
      esac
    done
}

folder=$(manifests | sed -n "s|.*--kubelet-client-certificate=\(/[^\"' ,]*\)/apiserver-kubelet-client\.crt.*|\1|p" |
  head -n 1)
if [ -n "$folder" ] && [ "$(readlink -f "$folder")" != "$(readlink -f /etc/kubernetes/pki)" ]; then
  printf 'certificates-folder %s\n' "$(printf %s "$folder" | one_line)"
fi

more=$(elsewhere)
for folder in /etc/kubernetes /etc/kubernetes/pki /etc/kubernetes/pki/etcd /var/lib/kubelet /var/lib/kubelet/pki \
  $more; do
  [ ! -d "$folder" ] || { [ -r "$folder" ] && [ -x "$folder" ]; } || forbidden "$folder"
done
for file in /etc/kubernetes/pki/*.crt /etc/kubernetes/pki/etcd/*.crt /var/lib/kubelet/pki/kubelet-client-current.pem \
  $(for folder in $more; do ls -d "$folder"/*.crt 2>/dev/null; done); do
  [ -e "$file" ] || [ -L "$file" ] || continue
  if [ -r "$file" ]; then shown "$file" <"$file"; else forbidden "$file"; fi
done
for file in /etc/kubernetes/*.conf; do
  [ -e "$file" ] || [ -L "$file" ] || continue
  [ -r "$file" ] || { forbidden "$file"; continue; }
  # YAML and JSON, with any quotes; one of each user.
  sed '/^[[:space:]]*#/d' "$file" |
    grep -o "client-certificate-data[\"']\{0,1\} *: *[\"']\{0,1\}[^[:space:],}\"']*" |
    sed "s/.*[[:space:]:\"']//" |
    while read -r data; do
      [ -z "$data" ] || printf %s "$data" | base64 -d 2>/dev/null | shown "$file"
    done
done
"""


def read_certificates(hosts: Hosts, host: Host) -> tuple[CertificateFile | UnreadableCertificate, ...]:
    """The certificates in kubeadm's and the kubelet's folders, in those that the manifests name, and in kubeconfigs.

    Raises HostError.
    """
    return tuple(_certificates(host.name, hosts.run(host, ["sh", "-c", _SCRIPT]).stdout))


def _certificates(host: str, output: str) -> Iterator[CertificateFile | UnreadableCertificate]:
    folder = CERTIFICATES_FOLDER
    for line in output.splitlines():
        kind, *encoded = line.split(" ")
        if kind not in ("certificates-folder", "certificate", "forbidden"):
            continue  # of the user's own .bashrc
        try:
            path, pem = (base64.b64decode(word, validate=True) for word in (*encoded, "")[:2])
        except ValueError as error:
            raise HostError(f"{host}: the list of its certificates can't be read: {line[:80]!r}") from error
        name = path.decode(errors="backslashreplace")
        if kind == "certificates-folder":
            folder = name
        elif kind == "forbidden":
            yield UnreadableCertificate(
                host, name, "it doesn't exist, or the SSH user isn't allowed to read it (become: true)"
            )
        else:
            yield _parsed(host, name, pem, folder)


def _parsed(host: str, path: str, pem: bytes, folder: str) -> CertificateFile | UnreadableCertificate:
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (ValueError, x509.InvalidVersion) as error:
        return UnreadableCertificate(host, path, str(error))
    # A name or an extension that can't be read doesn't hide when the certificate ends.
    subject = _name(lambda: certificate.subject)
    issuer = _name(lambda: certificate.issuer)
    authority = _is_authority(certificate, otherwise=subject == issuer != _UNREADABLE)
    return CertificateFile(host, path, subject, issuer, begin, end, authority, folder)


_UNREADABLE = "unreadable"


def _name(read: Callable[[], x509.Name]) -> str:
    try:
        return read().rfc4514_string()
    except ValueError:
        return _UNREADABLE


def _is_authority(certificate: x509.Certificate, *, otherwise: bool) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return otherwise
