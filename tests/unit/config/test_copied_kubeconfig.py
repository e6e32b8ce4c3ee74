"""What is used of a kubeconfig: what is pinned of it, and the copy that is handed on."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from testkit.certificates import Authority
from testkit.fleet_folder import write_kubeconfig
from upgrader.config.copied_kubeconfig import UsedKubeconfig, read_used
from upgrader.config.load import load_settings
from upgrader.errors import ConfigError

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": ["a"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    (cluster / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    return cluster


def used(folder: Path, *commands: str, **user: Any) -> UsedKubeconfig:
    write_kubeconfig(folder, **user)
    return read_used(load_settings(folder, {}), {}, commands)


def user_of(found: UsedKubeconfig) -> dict[str, Any]:
    user: dict[str, Any] = json.loads(found.content)["users"][0]["user"]
    return user


def pair_of(folder: Path, name: str) -> dict[str, str]:
    """A user's certificate and key in files."""
    Authority(folder / "ca").issue(folder / name, name)
    return {"client-certificate": f"{name}.pem", "client-key": f"{name}.key"}


def test_credentials_may_change_and_nothing_else(folder: Path) -> None:
    """Another token isn't noticed; another server, a command, its arguments, or the name of a file is."""
    for name in ("token", "other"):
        (folder / name).write_text(f"{name}\n")
    before = used(folder).pinned
    assert used(folder, token="another").pinned == before
    others = [
        used(folder, server="evil"),
        used(folder, tokenFile="token"),
        used(folder, tokenFile="other"),
        used(folder, "aws", token="", exec=EXEC),
        used(folder, "aws", token="", exec={**EXEC, "args": ["b"]}),
        used(folder, "aws", token="", exec={**EXEC, "env": [{"name": "AWS_PROFILE", "value": "b"}]}),
    ]
    assert len({before, *(each.pinned for each in others)}) == 7


def test_a_missing_kubeconfig_is_to_be_named_in_its_folder(folder: Path) -> None:
    """A fleet refuses the options and variables that choose one for a single cluster: none of them is advised."""
    with pytest.raises(ConfigError, match="kubeconfig: no such file") as caught:
        read_used(load_settings(folder, {}), {}, ())
    assert "`cluster.kubeconfig` in its upgrader.yaml" in caught.value.remedy
    assert "--kubeconfig" not in caught.value.remedy and "--context" not in caught.value.remedy


def test_copy_has_the_content_of_files(folder: Path) -> None:
    """It names none: what they are replaced by later isn't read. A new content is another credential only."""
    (folder / "token").write_text("from a file\n")
    pair = pair_of(folder, "client")
    first = used(folder, tokenFile="token", **pair)
    data = {f"{key}-data": base64.b64encode((folder / name).read_bytes()).decode() for key, name in pair.items()}
    assert user_of(first) == {"token": "from a file", **data}
    (folder / "token").write_text("rotated")
    second = used(folder, tokenFile="token", **pair)
    assert second.pinned == first.pinned and user_of(second)["token"] == "rotated"


def test_copy_has_no_half_renewed_pair(folder: Path) -> None:
    """A certificate whose key isn't replaced yet is refused: the copy before it stays in use, and Helm reads it too."""
    pair = pair_of(folder, "client")
    pair_of(folder, "new")
    (folder / "client.pem").write_bytes((folder / "new.pem").read_bytes())
    with pytest.raises(ConfigError, match=r"client\.pem\) and client-key \(client\.key\) don't belong together"):
        used(folder, **pair)
    (folder / "client.key").write_bytes((folder / "new.key").read_bytes())
    used(folder, **pair)


def test_inline_data_counts_before_a_file(folder: Path) -> None:
    """As for everything else that reads a kubeconfig."""
    pair = pair_of(folder, "client")
    inline = {f"{key}-data": base64.b64encode((folder / name).read_bytes()).decode() for key, name in pair.items()}
    pair_of(folder, "other")
    both = {"client-certificate": "other.pem", "client-key": "other.key", **inline}
    assert user_of(used(folder, **both)) == {"token": user_of(used(folder))["token"], **inline}


def test_commands_are_allowed_by_name(folder: Path) -> None:
    """Only one that the campaign names is kept; one beside the kubeconfig, which its owner writes, never is."""
    assert user_of(used(folder, "aws", token="", exec=EXEC)) == {"exec": EXEC}
    for command, allowed in (("aws", ()), ("./aws", ("./aws", "aws")), (["aws"], ("aws",))):
        with pytest.raises(ConfigError, match="doesn't allow the command"):
            used(folder, *allowed, token="", exec={**EXEC, "command": command})
    with pytest.raises(ConfigError, match="doesn't allow"):
        used(folder, token="", exec="aws")


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PATH", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV"),
        *("ENV", "HOME", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_PYTHON", "CLOUDSDK_CONFIG"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "NODE_OPTIONS", "aws_profile", "AWS_PROFILE\n", "", 1, None),
    ],
)
def test_variables_of_a_command_that_may_run_other_code(folder: Path, name: object) -> None:
    """They are refused, with the file and the entry, though the command is allowed."""
    env = [{"name": "AWS_PROFILE", "value": "a"}, {"name": name, "value": "/evil"}]
    with pytest.raises(ConfigError, match=r"kubeconfig: entry 2 of `exec.env` sets") as caught:
        used(folder, "aws", token="", exec={**EXEC, "env": env})
    assert repr(name) in caught.value.message


@pytest.mark.parametrize("env", ["LD_PRELOAD=a", {"LD_PRELOAD": "a"}, [1], 1])
def test_variables_in_another_form(folder: Path, env: object) -> None:
    """What is no list of names is refused as well."""
    with pytest.raises(ConfigError, match="entry 1 of"):
        used(folder, "aws", token="", exec={**EXEC, "env": env})


def test_variables_that_kubeconfigs_of_clouds_set(folder: Path) -> None:
    """Those of EKS, AKS and GKE that say who logs in, and where, are handed on; so is none at all."""
    names = ("AWS_PROFILE", "AWS_STS_REGIONAL_ENDPOINTS", "AAD_LOGIN_METHOD", "CLOUDSDK_CORE_PROJECT")
    env = [{"name": name, "value": "a"} for name in (*names, "KUBERNETES_EXEC_INFO")]
    assert user_of(used(folder, "aws", token="", exec={**EXEC, "env": env}))["exec"]["env"] == env
    assert user_of(used(folder, "aws", token="", exec={**EXEC, "env": None}))["exec"]["env"] is None


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"tokenFile": "../secret"}, "is neither in the cluster folder nor"),
        ({"tokenFile": "link"}, "is neither in the cluster folder nor"),
        ({"tokenFile": "pipe"}, "it is a pipe"),
        ({"tokenFile": "none"}, "No such file"),
        ({"tokenFile": "circle"}, "can't be read"),
        ({"tokenFile": "a\0b"}, "can't be read"),
        ({"tokenFile": "lines"}, "its token has invalid characters"),
        ({"client-key": "lines"}, "is not in PEM format"),
        ({"auth-provider": {"name": "gcp"}}, "which upgrader doesn't support"),
        ({"username": "me"}, "which upgrader doesn't support"),
    ],
)
def test_what_is_refused(folder: Path, user: dict[str, Any], message: str) -> None:
    """No file of the machine is read and sent to a server, and nothing that isn't a plain file is waited for."""
    (folder.parent / "secret").write_text("secret")
    (folder / "link").symlink_to("../secret")
    (folder / "circle").symlink_to("circle")
    (folder / "lines").write_text("- a\n- b\n")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ConfigError, match=message):
        used(folder, **user)


@pytest.mark.parametrize("where", ["cluster/token", "cluster"])
def test_file_that_becomes_a_link_after_its_check(folder: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file nor a folder that is exchanged in that moment has a file of the machine sent to the server."""
    (folder.parent / "home").mkdir()
    (folder.parent / "home/token").write_text("secret")
    (folder / "token").write_text("own")
    write_kubeconfig(folder, tokenFile="token")
    settings, check = load_settings(folder, {}), Path.is_relative_to

    def exchange(path: Path, *others: Path) -> bool:
        inside, own = check(path, *others), folder.parent / where
        if path.name == "token" and not own.is_symlink():
            own.rename(own.with_suffix(".old"))
            own.symlink_to(folder.parent / "home" / ("token" if own.name == "token" else ""))
        return inside

    monkeypatch.setattr(Path, "is_relative_to", exchange)
    with pytest.raises(ConfigError, match="its tokenFile, token, can't be read"):
        read_used(settings, {}, ())


@pytest.mark.parametrize("kind", ["folder", "binary", "none", "empty", "text", "no user", "bytes"])
def test_kubeconfig_that_is_none(folder: Path, kind: str) -> None:
    """It is an error of the file, whatever is there."""
    kubeconfig = folder / "kubeconfig"
    contents = {"binary": b"\xff\x00", "empty": b"", "text": b"a"}
    if kind == "folder":
        kubeconfig.mkdir()
    elif kind == "no user":
        write_kubeconfig(folder)
        kubeconfig.write_text(kubeconfig.read_text().replace('"users": [', '"users": [1, {"name": "u", "user": 1}, '))
    elif kind == "bytes":
        write_kubeconfig(folder)
        kubeconfig.write_text(kubeconfig.read_text().replace('"server": ', '"server": !!binary '))
    elif kind != "none":
        kubeconfig.write_bytes(contents[kind])
    with pytest.raises(ConfigError):
        read_used(load_settings(folder, {}), {}, ())


def test_files_beside_a_kubeconfig_that_is_linked(folder: Path) -> None:
    """A link to a kubeconfig elsewhere, as `init` makes it, may name what is beside that."""
    home = folder.parent / "home"
    home.mkdir()
    (home / "token").write_text("t")
    write_kubeconfig(home, server="cluster", tokenFile=str(home / "token"))
    (folder / "kubeconfig").symlink_to(home / "kubeconfig")
    assert user_of(read_used(load_settings(folder, {}), {}, ())) == {"token": "t"}
