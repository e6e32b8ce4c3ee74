"""What the test pod runs: `wait` until it is told to end, and `check`, its readiness probe.

The source is sent as an argument of `python3 -c`: only the standard library, and whatever Python 3 the image has.
"""

import http.client
import os
import signal
import socket
import ssl
import sys
from pathlib import Path

NAME = "kubernetes.default.svc"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TIMEOUT_SECONDS = 3.0

NO_ADDRESS = "the cluster's DNS does not resolve"
OTHER_ADDRESS = "the cluster's DNS resolves"
NOT_TRUSTED = "a client that uses this name does not trust the API's certificate"
NOT_KNOWN = "rejects this pod's token with HTTP 401"


def wait() -> None:
    """Until SIGTERM, which would otherwise not end the first process of a container."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    signal.sigwait(ends)


def check(environment: dict[str, str], account: str) -> str:
    """Why this pod can't use the API as any other pod does; "" when it can."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], int(environment["KUBERNETES_SERVICE_PORT"])
    try:
        found = {item[4][0] for item in socket.getaddrinfo(NAME, port, type=socket.SOCK_STREAM)}
    except OSError as error:
        return f"{NO_ADDRESS} {NAME}: {error}"
    if host not in found:
        return f"{OTHER_ADDRESS} {NAME} to {', '.join(sorted(map(str, found)))} instead of {host}"
    try:
        status = get(host, port, account)
    except OSError as error:
        return f"the API is unreachable at its ClusterIP {host}:{port}: {error}"
    if status != 200:
        return f"the API at {host}:{port} rejects this pod's token with HTTP {status}"
    return untrusted(host, port, account)


def untrusted(host: str, port: int, account: str) -> str:
    """Why the API's certificate is not trusted by name; "" when it is, or when it has never been for this name.

    Which certificate is shown depends on the name that a client asks for; by its address, the API's own is.
    """
    trust = _trust(account)
    try:
        if NAME in shown(host, port, trust, host):
            shown(host, port, trust, NAME)
    except ssl.SSLCertVerificationError as error:
        return f"{NAME}: {NOT_TRUSTED} (kube-apiserver's tls-sni-cert-key): {error.verify_message}"
    except OSError as error:
        return f"the API is unreachable at its ClusterIP {host}:{port}: {error}"
    return ""


def shown(host: str, port: int, trust: ssl.SSLContext, name: str) -> set[str]:
    """The names in the certificate that is shown to who asks for this name. Raises SSLCertVerificationError."""
    connection = socket.create_connection((host, port), TIMEOUT_SECONDS)
    with connection, trust.wrap_socket(connection, server_hostname=name) as asked:
        return {str(entry[1]) for entry in (asked.getpeercert() or {}).get("subjectAltName", ())}


def get(host: str, port: int, account: str) -> int:
    """The status of a request for /api."""
    trust = _trust(account)
    token = Path(account, "token").read_text().strip()
    connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=trust)
    try:
        connection.request("GET", "/api", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def _trust(account: str) -> ssl.SSLContext:
    """Trusts the cluster's CA by itself, as clients in Go do: also one that a company's root has issued."""
    trust = ssl.create_default_context(cafile=f"{account}/ca.crt")
    trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return trust


def main(command: str) -> str | int:
    """What the process exits with; to `sys.exit`, any text is a failure, even an empty one."""
    if command == "wait":
        wait()
        return 0
    return check(dict(os.environ), ACCOUNT) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
