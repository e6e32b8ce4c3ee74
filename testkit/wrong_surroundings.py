"""What wrong changes need beside them: a webhook that a controller serves, and objects that it converts."""

from __future__ import annotations

import base64
import inspect
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testkit import webhook_on_controller
from testkit.api_load import access_of
from testkit.lab_cluster import LabCluster, until
from upgrader.errors import ApiError
from upgrader.ports import Kind

__all__ = ["PKI", "converted", "converted_by_name", "dying_conversion", "self_signed", "write_file"]

PKI = "/etc/kubernetes/pki"
_NAME = "webhook.wrong.example"
"""In the controller's /etc/hosts, and nowhere else."""
_PORT = 2996
_UNIT = "wrong-webhook"
_SERVING = f"{PKI}/wrong-webhook"
_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_THINGS = Kind("wrong.example/v1", "things", namespaced=False)


def write_file(cluster: LabCluster, path: str, content: str) -> None:
    """On the controller, for root alone."""
    encoded = base64.b64encode(content.encode()).decode()
    cluster.on_controller(f"umask 077; echo {encoded} | base64 -d > {path}")


def self_signed(cluster: LabCluster, path: str, *names: str) -> str:
    """`PATH.crt` and `PATH.key` on the controller, for names such as `DNS:example.org`; returns the certificate."""
    cluster.on_controller(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {path}.key -out {path}.crt -days 30 -subj /CN=wrong "
        f"-addext subjectAltName={','.join(names)} 2>/dev/null"
    )
    return cluster.on_controller(f"cat {path}.crt")


@contextmanager
def converted(cluster: LabCluster, *, host: str = "", process: str = "") -> Iterator[None]:
    """A custom resource that is stored as v1 and read as v2, which a webhook on the controller converts.

    `host` is its address, if not the controller's own; with the newest process named `process`, it ends.
    """
    with _webhook(cluster, "convert", host=host, process=process) as client:
        cluster.kube.apply(_DEFINITIONS, _definition(client))
        try:
            thing = {"apiVersion": "wrong.example/v1", "kind": "Thing", "metadata": {"name": "one"}}
            until("the custom resource", lambda: _accepted(cluster, thing), timeout_seconds=30)
            if not host:  # a name is known to those pods only that are made after it
                until("its conversion", lambda: _readable(cluster), timeout_seconds=30)
            yield
        finally:
            cluster.kube.delete(_DEFINITIONS, "things.wrong.example")


@contextmanager
def converted_by_name(cluster: LabCluster) -> Iterator[None]:
    """The same, by a webhook whose name only the controller's /etc/hosts has."""
    with converted(cluster, host=_NAME):
        yield


@contextmanager
def dying_conversion(cluster: LabCluster) -> Iterator[None]:
    """The same, by a webhook that ends with the kube-apiserver that runs now."""
    with converted(cluster, process="kube-apiserver"):
        yield


@contextmanager
def _webhook(cluster: LabCluster, path: str, *, host: str = "", process: str = "") -> Iterator[dict[str, Any]]:
    """The webhook's `clientConfig`, while it serves."""
    address, _ = access_of(cluster.folder / "kubeconfig").address
    certificate = self_signed(cluster, _SERVING, f"IP:{address}", f"DNS:{_NAME}")
    cluster.on_controller(f"grep -q {_NAME} /etc/hosts || echo {address} {_NAME} >> /etc/hosts")
    source = inspect.getsource(webhook_on_controller)
    command = ["python3", "-c", source, _SERVING, str(_PORT), process]
    stop = f"systemctl stop {_UNIT} 2>/dev/null; systemctl reset-failed {_UNIT} 2>/dev/null"
    cluster.on_controller(f"{stop}; systemd-run --quiet --unit={_UNIT} {shlex.join(command)}")
    try:
        url = f"https://{host or address}:{_PORT}/{path}"
        yield {"url": url, "caBundle": base64.b64encode(certificate.encode()).decode()}
    finally:
        cluster.on_controller(f"{stop}; true")


def _accepted(cluster: LabCluster, thing: dict[str, Any]) -> bool:
    try:
        cluster.kube.apply(_THINGS, thing)
    except ApiError:
        return False
    return True


def _readable(cluster: LabCluster) -> bool:
    try:
        return "one" in cluster.kube.raw("/apis/wrong.example/v2/things")
    except ApiError:
        return False


def _definition(client: dict[str, Any]) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.wrong.example"},
        "spec": {
            "group": "wrong.example",
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": versions,
            "conversion": conversion,
        },
    }
