"""Credentials are read as kubectl reads them, again before they end, and never without a limit."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader.config.credential_plugin import run_plugin
from upgrader.config.kubeconfig import Login, read_kubeconfig
from upgrader.config.kubeconfig_context import check_context
from upgrader.errors import ConfigError
from upgrader.model.redaction.known_secrets import KNOWN

API = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig with this user."""
    path = folder / "kubeconfig"
    content = {
        "current-context": "demo",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "demo", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def plugin(folder: Path, script: str, **keys: Any) -> dict[str, Any]:
    """An exec plugin that is a shell script beside the kubeconfig."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": API, "command": "./plugin", **keys}}


def answer(**status: Any) -> str:
    """A script that prints these credentials."""
    return f"echo '{json.dumps({'apiVersion': API, 'kind': 'ExecCredential', 'status': status})}'"


def test_a_plugins_credentials_arrive(tmp_path: Path) -> None:
    """A plugin gets its variables and the cluster, and gives a token, a certificate and when they end."""
    script = 'echo "$EXTRA $KUBERNETES_EXEC_INFO" > "$(dirname "$0")/seen"\n'
    script += answer(token="t", clientCertificateData="PEM", expirationTimestamp="2026-01-01T00:00:00Z")
    user = plugin(tmp_path, script, env=[{"name": "EXTRA", "value": "x"}], provideClusterInfo=True)
    found = read_kubeconfig(kubeconfig(tmp_path, user))
    assert found.user == {"token": "t", "client-certificate-data": "UEVN"}
    assert (found.server, found.expires) == ("https://10.0.0.1:6443", 1767225600.0)
    extra, _, info = (tmp_path / "seen").read_text().partition(" ")
    assert (extra, json.loads(info)["spec"]["cluster"]["server"]) == ("x", "https://10.0.0.1:6443/")
    assert "PEM" not in repr(found)


@pytest.mark.parametrize("inline", [False, True])
def test_a_plugin_gets_the_ca_as_kubectl_gives_it(tmp_path: Path, inline: bool) -> None:
    """What is in a file is passed as data, which comes first where a kubeconfig has both: the plugin verifies with it
    who it logs in to.
    """
    (tmp_path / "ca.crt").write_text("in a file")
    given = {"certificate-authority": "ca.crt"}
    if inline:
        given["certificate-authority-data"] = base64.b64encode(b"inline").decode()
    script = 'echo "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/seen"\n' + answer(token="t")
    read_kubeconfig(kubeconfig(tmp_path, plugin(tmp_path, script, provideClusterInfo=True), **given))
    seen = json.loads((tmp_path / "seen").read_text())["spec"]["cluster"]
    assert base64.b64decode(seen["certificate-authority-data"]) == (b"inline" if inline else b"in a file")


def test_a_plugins_missing_ca_is_named(tmp_path: Path) -> None:
    """It is the kubeconfig's fault, and not the plugin's."""
    user = plugin(tmp_path, answer(token="t"), provideClusterInfo=True)
    with pytest.raises(ConfigError, match=r"gone\.crt can't be read: No such file"):
        read_kubeconfig(kubeconfig(tmp_path, user, **{"certificate-authority": "gone.crt"}))


def test_only_the_first_document_counts(tmp_path: Path) -> None:
    """As for kubectl and Helm: what follows may be another cluster's, or anything."""
    path = kubeconfig(tmp_path, {"token": "t"})
    text = path.read_text()
    for more in ("---\ncurrent-context: other\n", "---\n- a\n"):
        path.write_text(f"---\n{text}{more}")
        assert read_kubeconfig(path).server == "https://10.0.0.1:6443"
        assert check_context(path, "") == "demo"


@pytest.mark.parametrize("source", ["plugin", "file"])
def test_credentials_from_elsewhere_are_masked(tmp_path: Path, source: str) -> None:
    """A token of a plugin or a file is in no kubeconfig, and opaque: it is masked once it was read."""
    token = f"opaque-Zq9-{source}"
    (tmp_path / "token").write_text(f"{token}\n")
    user = plugin(tmp_path, answer(token=token)) if source == "plugin" else {"tokenFile": "token"}
    assert read_kubeconfig(kubeconfig(tmp_path, user)).user["token"] == token
    assert KNOWN.mask(f"refused {token}") == "refused [masked]"


def test_a_proxys_password_is_masked(tmp_path: Path) -> None:
    """As the address has it, and as the proxy gets it; and it is in no traceback's objects."""
    found = read_kubeconfig(kubeconfig(tmp_path, {"token": "t"}, **{"proxy-url": "http://me:Pr0xy%40Pass@proxy:3128"}))
    proxy = found.proxy()
    assert proxy is not None and "Pr0xy" not in repr(found) + repr(proxy)
    text = f"Pr0xy%40Pass Pr0xy@Pass {proxy.authorization}"
    assert KNOWN.mask(text) == "[masked] [masked] Basic [masked]"


@pytest.mark.parametrize(
    ("script", "keys", "message"),
    [
        ("echo no luck >&2; exit 3", {}, "failed with exit code 3: no luck"),
        ("echo hello", {}, "did not print an ExecCredential"),
        (answer(), {}, "printed no token and no certificate"),
        ("", {"command": "no-such-plugin", "installHint": "Install it."}, "is not installed"),
        ("", {"command": "./nope"}, "can't be started: No such file"),
        ("", {"interactiveMode": "Always"}, "requires a terminal"),
        ("", {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "apiVersion must be one of"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path: Path, script: str, keys: dict[str, Any], message: str) -> None:
    """Each way in which a plugin can fail is a ConfigError with its name and a remedy."""
    with pytest.raises(ConfigError, match=message) as caught:
        read_kubeconfig(kubeconfig(tmp_path, plugin(tmp_path, script, **keys)))
    assert "credential plugin" in caught.value.message
    assert caught.value.remedy or "apiVersion" in message or "print" in message


def test_a_plugin_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """A plugin that waits for an operator is ended at its limit, even where a child keeps its output open."""
    given = plugin(tmp_path, "sleep 300 & sleep 300")["exec"]
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"'./plugin' timed out after 0 s") as caught:
        run_plugin(tmp_path / "kubeconfig", given, {}, limit_seconds=0.1)
    assert "in a terminal" in caught.value.remedy
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("key", ["auth-provider", "username", "as", "as-groups"])
def test_what_is_not_supported_is_named(tmp_path: Path, key: str) -> None:
    """Nothing of a user is ignored: other rights than expected would be a surprise in the middle of a run."""
    with pytest.raises(ConfigError, match=f"its user has '{key}'"):
        read_kubeconfig(kubeconfig(tmp_path, {"token": "t", key: "x"}))


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    """A projected token is replaced without notice: it is read again every minute, and no sooner."""
    now = [0.0]
    (tmp_path / "token").write_text("one")
    login = Login(kubeconfig(tmp_path, {"tokenFile": "token"}), "", now=lambda: now[0])
    (tmp_path / "token").write_text("two\n")
    seen = []
    for now[0] in (59.0, 61.0):
        login.keep_fresh()
        seen.append((login.current.user["token"], login.version))
    assert seen == [("one", 0), ("two", 1)]
    (tmp_path / "token").unlink()
    now[0] = 200.0
    login.keep_fresh()
    assert login.current.user["token"] == "two"


def test_a_plugin_runs_again_shortly_before_the_end(tmp_path: Path) -> None:
    """A plugin's credentials are renewed 30 s before they end, not for every request; one that fails isn't hammered."""
    now = [1767225600.0 - 100]
    count = 'echo x >> "$(dirname "$0")/runs"\n'
    user = plugin(tmp_path, count + answer(token="t", expirationTimestamp="2026-01-01T00:00:00Z"))
    login = Login(kubeconfig(tmp_path, user), "", now=lambda: now[0])
    runs = []
    for now[0] in (1767225600.0 - 31, 1767225600.0 - 29, 1767225600.0 - 28):
        login.keep_fresh()
        runs.append((tmp_path / "runs").read_text().count("x"))
    assert runs == [1, 2, 2]


def test_refused_credentials_are_renewed_once_for_all(tmp_path: Path) -> None:
    """Of many requests that meet a 401 at once, one reads the credentials again, and all of them profit."""
    (tmp_path / "token").write_text("one")
    login = Login(kubeconfig(tmp_path, {"tokenFile": "token"}), "", now=lambda: 0.0)
    assert not login.renew(0)
    (tmp_path / "token").write_text("two")
    assert login.renew(0)
    assert login.renew(0)
    assert not login.renew(1)


def test_a_plugin_whose_credentials_are_refused_is_not_hammered(tmp_path: Path) -> None:
    """It may take long, or ask its user: it runs again at most every ten seconds."""
    now = [0.0]
    user = plugin(tmp_path, 'echo x >> "$(dirname "$0")/runs"\n' + answer(token="t"))
    login = Login(kubeconfig(tmp_path, user), "", now=lambda: now[0])
    runs = []
    for now[0] in (0.0, 1.0, 9.0, 11.0):
        login.renew(0)
        runs.append((tmp_path / "runs").read_text().count("x"))
    assert runs == [2, 2, 2, 3]
