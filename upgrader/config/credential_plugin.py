"""Runs the credential plugin that a kubeconfig names (`exec`), within a time limit and without a terminal."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError

__all__ = ["PLUGIN_SECONDS", "run_plugin"]

PLUGIN_SECONDS = 30.0
"""A plugin that takes longer most likely waits for input."""

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


def run_plugin(
    kubeconfig: Path, plugin: Mapping[str, Any], cluster: Mapping[str, Any], *, limit_seconds: float = PLUGIN_SECONDS
) -> tuple[dict[str, str], float | None]:
    """A user's keys (`token`, `client-certificate-data`, `client-key-data`), and when they end (seconds since 1970).

    Raises ConfigError.
    """
    name = str(plugin.get("command") or "")
    where = f"{shown(kubeconfig)}: credential plugin '{name}'"
    if plugin.get("apiVersion") not in _VERSIONS:
        raise ConfigError(f"{where}: apiVersion must be one of {', '.join(_VERSIONS)}")
    remedy = (
        "Log in with the plugin in a terminal, then try again; or use a token or a client certificate in this "
        "kubeconfig."
    )
    if plugin.get("interactiveMode") == "Always":
        raise ConfigError(
            f"{where} requires a terminal (interactiveMode: Always), and a run has none",
            remedy="Set `interactiveMode` to IfAvailable or Never in the kubeconfig, if the plugin needs no input; "
            "or use a token or a client certificate.",
        )
    command, environment = _command(kubeconfig, where, plugin), _environment(where, plugin, cluster)
    status, output, complaint = _run(where, command, environment, limit_seconds, remedy)
    if status:
        # Only stderr: what a plugin prints on stdout may hold credentials.
        raise ConfigError(
            f"{where} failed with exit code {status}: {complaint or 'it printed no error'}", remedy=remedy
        )
    return _credentials(where, output, str(plugin["apiVersion"]))


def _command(kubeconfig: Path, where: str, plugin: Mapping[str, Any]) -> list[str]:
    """A command with a slash is relative to the kubeconfig's folder; any other is searched on PATH."""
    name = str(plugin.get("command") or "")
    found = str(kubeconfig.absolute().parent / name) if "/" in name else shutil.which(name)
    if not name or not found:
        hint = str(
            plugin.get("installHint") or "Install it, or use a token or a client certificate in this kubeconfig."
        )
        raise ConfigError(f"{where} is not installed", remedy=hint.strip())
    return [found, *(str(argument) for argument in plugin.get("args") or ())]


def _environment(where: str, plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        keys = ("server", "tls-server-name", "certificate-authority-data", "proxy-url")
        spec["cluster"] = {key: cluster[key] for key in keys if cluster.get(key)}
        if (file := cluster.get("certificate-authority")) and "certificate-authority-data" not in spec["cluster"]:
            spec["cluster"]["certificate-authority-data"] = _encoded(where, Path(file))
        for extension in cluster.get("extensions") or ():
            if extension.get("name") == "client.authentication.k8s.io/exec":
                spec["cluster"]["config"] = extension.get("extension")
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
    more = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or ()}
    return {**os.environ, **more, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _encoded(where: str, file: Path) -> str:
    """A plugin isn't told of files: as kubectl does, it gets what is in them."""
    try:
        return base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        raise ConfigError(
            f"{where} gets the cluster's CA, and {shown(file)} can't be read: {error.strerror}",
            remedy="Put the file there, or change `certificate-authority` in the kubeconfig.",
        ) from error


def _run(
    where: str, command: list[str], environment: dict[str, str], limit_seconds: float, remedy: str
) -> tuple[int, bytes, str]:
    """Exit status, stdout, stderr. Into files without names: a pipe that a child of it keeps open would never end."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaint:
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaint,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{where} can't be started: {error.strerror}", remedy=remedy) from error
        try:
            status = process.wait(limit_seconds)
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{where} timed out after {limit_seconds:.0f} s", remedy=remedy) from error
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
        output.seek(0)
        complaint.seek(0)
        return status, output.read(), complaint.read().decode(errors="replace").strip()[-500:]


def _credentials(where: str, output: bytes, version: str) -> tuple[dict[str, str], float | None]:
    try:
        answer = json.loads(output)
        status = answer["status"]
        if answer.get("apiVersion") != version or not isinstance(status, dict):
            raise ValueError
        found = {"token": str(status["token"])} if status.get("token") else {}
        for key, name in (("client-certificate-data", "clientCertificateData"), ("client-key-data", "clientKeyData")):
            if status.get(name):
                found[key] = base64.b64encode(str(status[name]).encode()).decode()
        end = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(str(end).replace("Z", "+00:00")).timestamp() if end else None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{where} did not print an ExecCredential of {version}") from None
    if not found:
        raise ConfigError(f"{where} printed no token and no certificate")
    return found, expires
