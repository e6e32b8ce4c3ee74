"""What wrong changes need in the cluster: webhooks on a controller, objects that need them, and busy clients."""

from __future__ import annotations

import base64
import http.client
import inspect
import json
import secrets
import shlex
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from testkit import webhook_on_controller
from testkit.api_load import Access, access_of
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.errors import ApiError
from upgrader.ports import Kind

__all__ = [
    "LOGINS",
    "LOGIN_FLAG",
    "OTHER_LOGINS",
    "PKI",
    "busy_writers",
    "converted",
    "converted_by_name",
    "dying_aggregated",
    "dying_conversion",
    "logged_in_by_token",
    "self_signed",
    "webhook_kubeconfig",
    "write_file",
    "written",
]

PKI = "/etc/kubernetes/pki"
LOGIN_FLAG = "authentication-token-webhook-config-file"
LOGINS, OTHER_LOGINS = f"{PKI}/logins.yaml", f"{PKI}/other-logins.yaml"
"""Its values: the latter's webhook accepts another token."""
_NAME = "webhook.wrong.example"
"""Only in the controller's /etc/hosts."""
_PORT = 2996
_UNIT = "wrong-webhook"
_SERVING = f"{PKI}/wrong-webhook"
_NAMESPACE = "wrong-load"
_SLOW_SECONDS = 2.0
_WRITERS = 24
_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_ACCOUNTS = Kind("v1", "serviceaccounts")
_ROLES = Kind("rbac.authorization.k8s.io/v1", "rolebindings")
_SECRETS = Kind("v1", "secrets")
_CONFIG_MAPS = Kind("v1", "configmaps")
_SERVICES = Kind("v1", "services")
_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
_API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
_AGGREGATED = "v1.aggregated.wrong.example"
_BACKEND, _IN = "wrong-aggregated", "default"
"""The Service of the aggregated API, and its namespace."""
_THINGS = Kind("wrong.example/v1", "things", namespaced=False)


def write_file(cluster: LabCluster, path: str, content: str) -> None:
    """On the controller, readable by root only."""
    encoded = base64.b64encode(content.encode()).decode()
    cluster.on_controller(f"umask 077; echo {encoded} | base64 -d > {path}")


def self_signed(cluster: LabCluster, path: str, *names: str) -> str:
    """`PATH.crt` and `PATH.key` on the controller, for names such as `DNS:example.org`; returns the certificate."""
    cluster.on_controller(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {path}.key -out {path}.crt -days 30 -subj /CN=wrong "
        f"-addext subjectAltName={','.join(names)} 2>/dev/null"
    )
    return cluster.on_controller(f"cat {path}.crt")


def webhook_kubeconfig(server: str, authority: str = "") -> str:
    """What kube-apiserver's flags and configurations want to know of a webhook; `authority` is its CA in base64."""
    trusted = {"certificate-authority-data": authority} if authority else {}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "webhook", "cluster": {"server": server, **trusted}}],
            "users": [{"name": "apiserver", "user": {}}],
            "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": "apiserver"}}],
            "current-context": "webhook",
        }
    )


@contextmanager
def converted(cluster: LabCluster, *, host: str = "", process: str = "") -> Iterator[None]:
    """A custom resource that is stored as v1 and read as v2, which a webhook on the controller converts.

    `host` is its address, if not the controller's own; it ends with the newest process named `process`.
    """
    with _webhook(cluster, "convert", host=host, process=process) as client:
        cluster.kube.apply(_DEFINITIONS, _definition(client))
        try:
            thing = {"apiVersion": "wrong.example/v1", "kind": "Thing", "metadata": {"name": "one"}}
            until("the custom resource", lambda: _accepted(cluster, thing), timeout_seconds=30)
            if not host:  # only pods that are created afterwards resolve a name
                until("its conversion", lambda: _readable(cluster), timeout_seconds=30)
            yield
        finally:
            cluster.kube.delete(_DEFINITIONS, "things.wrong.example")


@contextmanager
def converted_by_name(cluster: LabCluster) -> Iterator[None]:
    """The same, with a webhook whose name only the controller's /etc/hosts has."""
    with converted(cluster, host=_NAME):
        yield


@contextmanager
def dying_conversion(cluster: LabCluster) -> Iterator[None]:
    """The same, with a webhook that ends with the present kube-apiserver."""
    with converted(cluster, process="kube-apiserver"):
        yield


@contextmanager
def logged_in_by_token(cluster: LabCluster) -> Iterator[None]:
    """The cluster's kubeconfig has a token in place of its certificate, which the webhook of LOGINS accepts."""
    tokens = {LOGINS: secrets.token_hex(16), OTHER_LOGINS: secrets.token_hex(16)}
    with ExitStack() as present:
        client = present.enter_context(_webhook(cluster, "login"))
        for path, token in tokens.items():
            write_file(cluster, path, webhook_kubeconfig(f"{client['url']}/{token}", client["caBundle"]))
        cluster.change_values("kube-apiserver", {"extraArgs": {LOGIN_FLAG: LOGINS}})
        ended = cluster.run(OLD)
        assert ended.exit_code == 0, ended
        kubeconfig = cluster.folder / "kubeconfig"
        present.callback(kubeconfig.write_text, by_certificate := kubeconfig.read_text())
        content = yaml.safe_load(by_certificate)
        for each in content["users"]:
            each["user"] = {"token": tokens[LOGINS]}
        kubeconfig.write_text(yaml.safe_dump(content))
        yield


@contextmanager
def dying_aggregated(cluster: LabCluster) -> Iterator[None]:
    """An aggregated API that the controller serves, and that ends with the present kube-apiserver."""
    address, _ = access_of(cluster.folder / "kubeconfig").address
    kube, name = cluster.kube, {"name": _BACKEND}
    with _webhook(cluster, "", process="kube-apiserver") as client:
        port = {"port": 443, "targetPort": _PORT, "protocol": "TCP"}
        kube.apply(_SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": {"ports": [port]}}, _IN)
        kube.apply(_SLICES, _endpoints(address), _IN)
        kube.apply(_API_SERVICES, _aggregated(client["caBundle"]))
        try:
            until("the aggregated API", lambda: _available(cluster), timeout_seconds=60)
            yield
        finally:
            kube.delete(_API_SERVICES, _AGGREGATED)
            kube.delete(_SERVICES, _BACKEND, _IN)
            kube.delete(_SLICES, _BACKEND, _IN)


@contextmanager
def busy_writers(cluster: LabCluster) -> Iterator[None]:
    """A ServiceAccount's clients that write all the time, and whose writes a webhook admits after seconds.

    This keeps a request's seat for long: if each request is answered at once, no other one waits.
    """
    kube = cluster.kube
    with _webhook(cluster, "admit", seconds=_SLOW_SECONDS) as client:
        kube.apply(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "writer"}}
        kube.apply(_ACCOUNTS, account, _NAMESPACE)
        kube.apply(_ROLES, _may_edit(), _NAMESPACE)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bound"}}
        bound = kube.apply(_SECRETS, secret, _NAMESPACE)
        token = kube.request_token("writer", _NAMESPACE, seconds=7200, bound_to=bound)
        kube.apply(_WEBHOOKS, _slow_webhook(client))
        access, stop = _access(cluster, token), threading.Event()
        threads = [threading.Thread(target=_write, args=[access, number, stop]) for number in range(_WRITERS)]
        for thread in threads:
            thread.start()
        try:
            until("the writers' first updates", lambda: _all_update(cluster), timeout_seconds=60)
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            kube.delete(_WEBHOOKS, _UNIT)
            kube.delete(_NAMESPACES, _NAMESPACE)


@contextmanager
def _webhook(
    cluster: LabCluster, path: str, *, host: str = "", seconds: float = 0.0, process: str = ""
) -> Iterator[dict[str, Any]]:
    """The webhook's `clientConfig`, while it serves."""
    address, _ = access_of(cluster.folder / "kubeconfig").address
    certificate = self_signed(cluster, _SERVING, f"IP:{address}", f"DNS:{_NAME}", f"DNS:{_BACKEND}.{_IN}.svc")
    cluster.on_controller(f"grep -q {_NAME} /etc/hosts || echo {address} {_NAME} >> /etc/hosts")
    source = inspect.getsource(webhook_on_controller)
    command = ["python3", "-c", source, _SERVING, str(_PORT), str(seconds), process]
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


def _endpoints(address: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": _BACKEND, "labels": {"kubernetes.io/service-name": _BACKEND}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": _PORT, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


def _aggregated(bundle: str) -> dict[str, Any]:
    version, _, group = _AGGREGATED.partition(".")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _AGGREGATED},
        "spec": {
            "group": group,
            "version": version,
            "service": {"namespace": _IN, "name": _BACKEND},
            "caBundle": bundle,
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
        },
    }


def _available(cluster: LabCluster) -> bool:
    found = cluster.kube.get(_API_SERVICES, _AGGREGATED) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(item["type"] == "Available" and item["status"] == "True" for item in conditions)


def _slow_webhook(client: dict[str, Any]) -> dict[str, Any]:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}]
    webhook = {
        "name": "slow.wrong.example",
        "clientConfig": client,
        "rules": rules,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": _NAMESPACE}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _UNIT},
        "webhooks": [webhook],
    }


def _may_edit() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "writer", "namespace": _NAMESPACE}],
    }


def _access(cluster: LabCluster, token: str) -> Access:
    """Without the operator's certificate, which would be used instead of the token."""
    document = yaml.safe_load((cluster.folder / "kubeconfig").read_text())
    document["users"] = [{"name": entry["name"], "user": {"token": token}} for entry in document["users"]]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(document, file)
        file.flush()
        return access_of(Path(file.name))


def written(number: int, turn: int) -> tuple[str, str]:
    """The path and the body of a writer's PATCH. Without a name in it, an object isn't created, and no write waits."""
    name = f"writer-{number}"
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"turn": str(turn)}}
    path = f"/api/v1/namespaces/{_NAMESPACE}/configmaps/{name}?fieldManager=writer&force=true"
    return path, json.dumps(manifest)


def _all_update(cluster: LabCluster) -> bool:
    """Whether each writer has updated its object, and so waited for the webhook."""
    found = cluster.kube.list(_CONFIG_MAPS, _NAMESPACE)
    return sum(int((item.get("data") or {}).get("turn", 0)) > 1 for item in found) >= _WRITERS


def _write(access: Access, number: int, stop: threading.Event) -> None:
    """Update a ConfigMap again and again, each time on a connection of its own."""
    turn = 0
    while not stop.wait(0.1):
        turn += 1
        path, body = written(number, turn)
        connection = access.connect(60.0)
        try:
            headers = {**access.headers, "Content-Type": "application/apply-patch+yaml"}
            connection.request("PATCH", path, body, headers)
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            stop.wait(1.0)
        finally:
            connection.close()
