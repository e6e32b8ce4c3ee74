"""What containerd says of its configuration, and what another one would lose."""

from __future__ import annotations

import pytest
from ansible.module_utils.containerd_config import (
    configuration_of,
    cri_problem,
    ignored_keys,
    lost,
)
from ansible.module_utils.containerd_dump import cri_off, sandbox_image, socket_in

V1 = """
root = "/var/lib/containerd"
state = "/run/containerd"

[debug]
  address = ""

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins]

  [plugins."io.containerd.grpc.v1.cri"]
    sandbox_image = "registry.k8s.io/pause:3.6"

    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/opt/cni/bin"
      conf_dir = "/etc/cni/net.d"

    [plugins."io.containerd.grpc.v1.cri".containerd]
      snapshotter = "overlayfs"

        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
            SystemdCgroup = true

  [plugins."io.containerd.snapshotter.v1.overlayfs"]
    root_path = ""
"""
V2 = """
root = '/var/lib/containerd'
state = '/run/containerd'

[grpc]
  address = '/run/containerd/containerd.sock'

[plugins]
  [plugins.'io.containerd.cri.v1.images']
    snapshotter = 'overlayfs'
    [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = 'registry.k8s.io/pause:3.10.1'

  [plugins.'io.containerd.cri.v1.runtime']
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      sandboxer = 'podsandbox'
      snapshotter = ''
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = true

    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dir = ''
      bin_dirs = ['/opt/cni/bin']
      conf_dir = '/etc/cni/net.d'

  [plugins.'io.containerd.grpc.v1.cri']
    disable_tcp_service = true

  [plugins.'io.containerd.image-verifier.v1.bindir']
    bin_dir = '/opt/containerd/image-verifier/bin'
"""
V4 = (
    V2.replace("[grpc]\n  address = '/run/containerd/containerd.sock'\n", "[debug]\n  level = ''\n")
    + """
  [plugins.'io.containerd.server.v1.debug']
    address = ''

  [plugins.'io.containerd.server.v1.grpc']
    address = '/run/containerd/containerd.sock'

  [plugins.'io.containerd.server.v1.grpc-tcp']
    address = ''

  [plugins.'io.containerd.server.v1.ttrpc']
    address = '/run/containerd/containerd.sock.ttrpc'
"""
)
"""As containerd 1.6, 2.1 and 2.3 write them, shortened."""


def test_another_major_version_of_the_same_configuration_loses_nothing() -> None:
    """Sections have other names, and mean the same."""
    assert lost(V1, V2) == [] == lost(V1, V1)
    assert socket_in(V1) == socket_in(V2) == "/run/containerd/containerd.sock" and socket_in("") == ""
    assert (sandbox_image(V1), sandbox_image(V2)) == ("registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.10.1")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("SystemdCgroup = true", "SystemdCgroup = false", "SystemdCgroup changes from true to false"),
        ("snapshotter = 'overlayfs'", "snapshotter = 'native'", "snapshotter changes from overlayfs to native"),
        ("root = '/var/lib/containerd'", "root = '/data'", "root changes from /var/lib/containerd to /data"),
        ("state = '/run/containerd'", "state = '/run/c'", "state changes from /run/containerd to /run/c"),
        ("containerd.sock'", "other.sock'", "address changes from /run/containerd/containerd.sock to"),
        ("        SystemdCgroup = true\n", "", "SystemdCgroup changes from true to false in the runtime handler runc"),
        ("conf_dir = '/etc/cni/net.d'", "conf_dir = '/etc/cni'", "conf_dir changes from /etc/cni/net.d to /etc/cni: "),
        (
            "      conf_dir = '/etc/cni/net.d'\n",
            "",
            "conf_dir changes from /etc/cni/net.d to nothing: the pods' network",
        ),
        ("['/opt/cni/bin']", "['/usr/lib/cni']", "bin_dir loses /opt/cni/bin: "),
    ],
)
def test_settings_by_which_pods_would_be_lost_are_named(old: str, new: str, told: str) -> None:
    """Such as a file without SystemdCgroup on a node whose kubelet uses systemd: the commonest mistake there is."""
    assert old in V2
    (found,) = lost(V1, V2.replace(old, new))
    assert found.startswith(told)


KATA = """
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata-qemu]
        runtime_type = 'io.containerd.kata.v2'
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata-qemu.options]
          ConfigPath = ''
"""


def test_runtime_handler_that_a_runtime_class_may_name_stays() -> None:
    """Pods with that class would never start again. Another one may come, whatever its own cgroups are."""
    (gone,) = lost(V2 + KATA, V2)
    assert gone.startswith("the runtime handler kata-qemu is removed")
    assert lost(V2, V2 + KATA) == [] == lost(V1, V2 + KATA)


def test_handlers_are_compared_one_by_one() -> None:
    """One with SystemdCgroup doesn't excuse another one without."""
    other = KATA.replace("kata-qemu", "other").replace("ConfigPath = ''", "SystemdCgroup = false")
    swapped = V2.replace("SystemdCgroup = true", "SystemdCgroup = false") + other.replace("= false", "= true")
    assert [text.partition(":")[0] for text in lost(V2 + other, swapped)] == [
        "SystemdCgroup changes from false to true in the runtime handler other",
        "SystemdCgroup changes from true to false in the runtime handler runc",
    ]


def test_sections_that_containerd_no_longer_reads_do_not_count() -> None:
    """A file of version 3 with 1.x's section for runc is a file without SystemdCgroup."""
    left = """
    [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
      SystemdCgroup = true
    [plugins.'io.containerd.grpc.v1.cri'.containerd]
      snapshotter = 'native'
    """
    (told,) = lost(V1, V2.replace("SystemdCgroup = true", "SystemdCgroup = false") + left)
    assert told.startswith("SystemdCgroup changes from true to false")
    assert lost(V1, V2 + left) == []


def test_folder_of_cni_plugins_may_get_another_beside_it() -> None:
    """As 2.1 can have several; what was in the old one is still found."""
    assert lost(V1, V2.replace("['/opt/cni/bin']", "['/usr/lib/cni', '/opt/cni/bin']")) == []
    assert lost(V1, V2.replace("bin_dir = ''\n      bin_dirs = ['/opt/cni/bin']", "bin_dir = '/opt/cni/bin'")) == []


@pytest.mark.parametrize("plugin", ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"])
@pytest.mark.parametrize("dump", [V1, V2, V4])
def test_cri_that_is_off_is_named(dump: str, plugin: str) -> None:
    """A dump of 2.x has the settings of a plugin that is off, too."""
    assert cri_off(f"disabled_plugins = []\n{dump}") == cri_off(f"disabled_plugins = ['aufs']\n{dump}") == []
    assert cri_off(f'disabled_plugins = ["aufs", "{plugin}"]\n{dump}') == [plugin]
    assert cri_off(f"disabled_plugins = ['{plugin}', 'aufs']\n{dump}") == [plugin]


def test_socket_is_found_where_the_fourth_version_of_the_configuration_has_it() -> None:
    """containerd 2.3 listens where its plugin says, and an upgrade to it moves nothing."""
    assert socket_in(V4) == socket_in(V2) == "/run/containerd/containerd.sock"
    assert lost(V2, V4) == [] == lost(V4, V4)
    (moved,) = lost(V2, V4.replace("containerd.sock'", "other.sock'"))
    assert moved.startswith("address changes from /run/containerd/containerd.sock to /run/containerd/other.sock")


def test_a_containerd_without_cri_has_no_sandboxes() -> None:
    """As the packages of Docker have it."""
    assert sandbox_image('root = "/var/lib/containerd"\ndisabled_plugins = ["cri"]\n') == ""


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ([], "/etc/containerd/config.toml"),
        (["--log-level", "info"], "/etc/containerd/config.toml"),
        (["--config", "/a.toml"], "/a.toml"),
        (["-c", "/a.toml"], "/a.toml"),
        (["--config=/a.toml", "--log-level=info"], "/a.toml"),
    ],
)
def test_configuration_file_is_that_of_the_arguments(arguments: list[str], path: str) -> None:
    """However they are written."""
    assert configuration_of(arguments) == path


@pytest.mark.parametrize(
    ("plugins", "told"),
    [
        ("TYPE ID PLATFORMS STATUS\nio.containerd.grpc.v1 cri linux/amd64 ok\n", ""),
        ("io.containerd.grpc.v1 cri - ok\nio.containerd.cri.v1 images - ok\n", ""),
        ("io.containerd.grpc.v1 cri linux/amd64 error\n", "its plugin cri is in the state error"),
        ("io.containerd.grpc.v1 tasks - ok\n", "it has no plugin cri"),
        ("", "it has no plugin cri"),
    ],
)
def test_containerd_that_runs_without_cri_does_not_serve_the_kubelet(plugins: str, told: str) -> None:
    """A wrong setting of CRI ends the plugin, and not containerd."""
    assert cri_problem(plugins) == told


def test_keys_that_containerd_ignores_are_named() -> None:
    """containerd 2.x says so, each in a line; 1.x says nothing."""
    line = 'level=warning msg="Ignoring unknown key in TOML for plugin" error="strict" key=sandbox_imag plugin=io.x\n'
    assert ignored_keys(line * 2 + line.replace("sandbox_imag", "a")) == ["a", "sandbox_imag"]
    assert ignored_keys("level=info key=b\n") == []
    assert ignored_keys(line.replace("sandbox_imag", '"registry mirrors"')) == ["registry mirrors"]


_REGISTRIES = """
    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = ""

      [plugins."io.containerd.grpc.v1.cri".registry.configs."registry.example".auth]
        username = "u"

      [plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]
        endpoint = ["https://mirror.example"]
"""


def test_registries_that_a_newer_containerd_no_longer_reads_are_named() -> None:
    """Without its mirror or its login, no new pod could pull; a version that reads them still has them in its dump."""
    assert lost(V1 + _REGISTRIES, V2) == [
        f"registry.{each} is no longer read: images are pulled by it. Move it to `config_path` first"
        for each in ("configs.registry.example", "mirrors.docker.io")
    ]
    assert lost(V1 + _REGISTRIES, V2 + _REGISTRIES.replace("grpc.v1.cri", "cri.v1.images").replace('"', "'")) == []
    assert len(lost(V1 + _REGISTRIES, V2 + _REGISTRIES)) == 2, "2.x doesn't read 1.x's section"
    folder = "\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = '/etc/containerd/certs.d"
    assert len(lost(V1 + _REGISTRIES, f"{V2}{folder}:/etc/docker/certs.d'\n")) == 2, "containerd's default has two"
    assert lost(V1 + _REGISTRIES, f"{V2}{folder}'\n") == []
    used = _REGISTRIES.replace('config_path = ""', 'config_path = "/etc/containerd/certs.d"')
    assert lost(V1 + used, V2) == [], "1.x didn't read them either"
