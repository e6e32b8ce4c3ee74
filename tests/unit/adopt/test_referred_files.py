"""Configuration that is kept among the certificates, where kubeadm's static pod needs no volume for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_cluster import facts
from tests.unit.adopt.kubeadm_pods import FLAGS, PKI, controller_with_modes, kubeadm_facts, kubeadm_pod, volume
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import KubeadmFacts, StaticPod
from upgrader.adopt.readable_files import check_readable
from upgrader.adopt.referred_files import SingleFiles, mounted_by_file, referred_to, single_files, with_single_files
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.model.cluster import Host
from upgrader.model.release import ReleaseSpec
from upgrader.ports import CommandResult

_ADMISSION = f"{PKI}/admission.yaml"
_FILES = {
    _ADMISSION: "plugins:\n- {name: ImagePolicyWebhook, path: image-policy.yaml}\n- {name: X, path: /etc/other.yaml}\n",
    f"{PKI}/image-policy.yaml": f"imagePolicy: {{kubeConfigFile: {PKI}/policy/webhook.conf, allowTTL: 50}}\n",
    f"{PKI}/policy/webhook.conf": "clusters: [{cluster: {server: 'https://x', certificate-authority: ca.pem}}]\n",
    f"{PKI}/policy/ca.pem": "-----BEGIN CERTIFICATE-----\n",
    f"{PKI}/ca.key": "-----BEGIN RSA PRIVATE KEY-----\n",
    f"{PKI}/audit.yaml": "rules: [{level: None, users: [../ca.key, missing.yaml, a word]}]\n",
}
_FOUND = (f"{PKI}/image-policy.yaml", f"{PKI}/policy/ca.pem", f"{PKI}/policy/webhook.conf")


@pytest.fixture
def hosts() -> FakeHosts:
    """A controller with these files."""
    found = controller_with_modes({})
    found.files.update({("controller-1", path): text.encode() for path, text in _FILES.items()})
    return found


def _single_files(hosts: FakeHosts, known: KubeadmFacts) -> SingleFiles:
    return single_files(hosts, known.controllers, PKI, referred_to(hosts, known.controllers))


def test_what_a_file_names_is_followed(hosts: FakeHosts) -> None:
    """From the flag's file to a kubeconfig and its CA, by absolute and by relative paths; and nothing else is."""
    api = kubeadm_pod(
        "kube-apiserver", {"admission-control-config-file": _ADMISSION, "audit-policy-file": f"{PKI}/audit.yaml"}
    )
    assert _single_files(hosts, kubeadm_facts(api)) == SingleFiles((), {path: path for path in _FOUND})


_KEY, _TOKEN, _CLIENT = "c2VjcmV0LWtleS1vZi1BRVMtMzItYnl0ZXMtbG9uZyE=", "31ada4fd-adec-460c-809a", "LS0tLS1CRUdJTiBS"
_WITH_SECRETS = {
    "encryption-provider-config": (
        f"{PKI}/encryption.yaml",
        f"kind: EncryptionConfiguration\nresources: [{{providers: [{{aescbc: {{keys: [{{secret: {_KEY}}}]}}}}]}}]\n",
    ),
    "token-auth-file": (f"{PKI}/tokens.csv", f"{_TOKEN},admin,1\n"),
    "authentication-token-webhook-config-file": (
        f"{PKI}/webhook.conf",
        f"users: [{{user: {{token: {_TOKEN}, client-key-data: {_CLIENT}, client-key: webhook.key}}}}]\n",
    ),
}


def test_secrets_of_files_are_no_arguments() -> None:
    """Keys and tokens might be names of files, too: everybody on the controller can read a command's arguments, and
    sudo logs them. A text whose field says that it's a secret isn't looked for at all.
    """
    hosts, asked = controller_with_modes({}), list[str]()
    hosts.files |= {("controller-1", path): text.encode() for path, text in _WITH_SECRETS.values()}
    hosts.files["controller-1", f"{PKI}/webhook.key"] = b"-----BEGIN X"
    look = hosts.commands["sh"]

    def noted(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        asked.append(stdin.decode())
        return look(host, command, stdin) if callable(look) else look

    hosts.commands["sh"] = noted
    api = kubeadm_pod("kube-apiserver", {flag: path for flag, (path, _) in _WITH_SECRETS.items()})
    found = _single_files(hosts, kubeadm_facts(api))
    words = " ".join(word for _, command in hosts.ran for word in command)
    assert [secret for secret in (_KEY, _TOKEN, _CLIENT) if secret in words] == []
    assert [secret for secret in (_KEY, f"{_TOKEN}\n", _CLIENT) if secret in "".join(asked)] == []
    assert f"{PKI}/webhook.key" in found.files


def test_a_plain_control_plane_refers_to_none(hosts: FakeHosts) -> None:
    """Certificates and keys name no files; an adopted controller has no static pod to ask."""
    assert _single_files(hosts, kubeadm_facts()) == SingleFiles((), {})
    adopted = tuple(replace(each, active={}) for each in kubeadm_facts().controllers)
    assert _single_files(hosts, replace(kubeadm_facts(), controllers=adopted)) == SingleFiles((), {})


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def test_they_are_mounted_one_by_one(helm: HelmAdapter) -> None:
    """Beside them are the keys of the cluster's CAs, which kube-apiserver doesn't get."""
    api = kubeadm_pod("kube-apiserver", {"admission-control-config-file": _ADMISSION})
    known = replace(kubeadm_facts(api), single_files={path: path for path in _FOUND})
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values["kube-apiserver"]
    assert [mount["mountPath"] for mount in values["extraVolumeMounts"]] == list(_FOUND)
    assert [volume["hostPath"]["path"] for volume in values["extraVolumes"]] == list(_FOUND)


def test_volumes_of_the_users_own_must_have_them(helm: HelmAdapter) -> None:
    """Those take the place of the derived ones: without the files, kube-apiserver would not start."""
    api = kubeadm_pod("kube-apiserver", {"admission-control-config-file": _ADMISSION})
    known = replace(kubeadm_facts(api), single_files={path: path for path in _FOUND})
    own = {"name": "own", "hostPath": {"path": f"{PKI}/policy"}}, {"name": "own", "mountPath": f"{PKI}/policy"}
    values = {"kube-apiserver": {"extraVolumes": [own[0]], "extraVolumeMounts": [own[1]]}}
    with pytest.raises(Blocked, match=f"the chart's pod would lack: {PKI}/image-policy.yaml$"):
        derive_values(known, ("10.0.0.1",), values, helm, charts_folder())


_ETCD = "/etc/ssl/etcd/ssl"
_ETCD_FLAGS = {
    "etcd-cafile": f"{_ETCD}/ca.pem",
    "etcd-certfile": f"{_ETCD}/node-node1.pem",
    "etcd-keyfile": f"{_ETCD}/node-node1-key.pem",
}
_CONTROLS = "/etc/kubernetes/admission-controls"
_ADMISSION_FLAGS = {"admission-control-config-file": "/etc/kubernetes/admission-controls.yaml"}
_ADMISSION_FILES = {
    f"{_CONTROLS}/admission-controls.yaml": "plugins: [{path: /etc/kubernetes/eventratelimit.yaml}]",
    f"{_CONTROLS}/eventratelimit.yaml": "limits: []",
}


def _of_kubespray(mode: str, files: Mapping[str, str], *, log: str = "-") -> tuple[FakeHosts, StaticPod]:
    """A controller of Kubespray with its hardening guide: etcd's folder has this mode."""
    hosts = controller_with_modes({_ETCD: mode})
    etcd = dict.fromkeys(_ETCD_FLAGS.values(), "-----BEGIN X")
    hosts.files.update({("controller-1", path): text.encode() for path, text in {**etcd, **files}.items()})
    admission = volume("admission-control-configs", _CONTROLS, at="/etc/kubernetes", writable=True)
    flags = {**_ETCD_FLAGS, **_ADMISSION_FLAGS, "audit-log-path": log}
    return hosts, kubeadm_pod("kube-apiserver", flags, volume("etcd-certs-0", _ETCD), admission, pki=_SSL)


_SSL = "/etc/kubernetes/ssl"


def _taken_over(helm: HelmAdapter, hosts: FakeHosts, pod: StaticPod) -> dict[str, str]:
    """Path in the chart's container → path on the controller."""
    known = kubeadm_facts(pod, pki=_SSL)
    known = with_single_files(hosts, known, _SSL)
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values["kube-apiserver"]
    spec = ReleaseSpec("kube-apiserver", "kube-system", charts_folder() / "kube-apiserver", values)
    rendered = helm.render(spec, offline=True)
    (main,) = (each for each in pod_spec(rendered, "kube-apiserver")["containers"] if each["name"] == "kube-apiserver")
    paths = {
        each["name"]: each.get("hostPath", {}).get("path") for each in pod_spec(rendered, "kube-apiserver")["volumes"]
    }
    return {each["mountPath"]: paths[each["name"]] for each in main["volumeMounts"]}


def test_kubesprays_closed_folder_and_hardening_guide_are_mounted_by_file(helm: HelmAdapter) -> None:
    """etcd's folder is closed to root (0700, of the user etcd), and another one is mounted above the certificates: the
    chart mounts what is needed of both, and neither the folders nor etcd's CA key.
    """
    mounts = _taken_over(helm, *_of_kubespray("41c0 994 0", _ADMISSION_FILES))
    expected = {path: path for path in _ETCD_FLAGS.values()} | {
        "/etc/kubernetes/admission-controls.yaml": f"{_CONTROLS}/admission-controls.yaml",
        "/etc/kubernetes/eventratelimit.yaml": f"{_CONTROLS}/eventratelimit.yaml",
        f"{_SSL}/apiserver.key": f"{_SSL}/apiserver.key",
    }
    assert mounts.items() >= expected.items()
    assert not {_ETCD, "/etc/kubernetes", _SSL} & mounts.keys()


def test_an_open_folder_is_mounted_as_a_whole(helm: HelmAdapter) -> None:
    """With `etcd_owner: root`, etcd's certificates may be replaced while kube-apiserver runs."""
    mounts = _taken_over(helm, *_of_kubespray("41c0 0 0", _ADMISSION_FILES))
    assert mounts[_ETCD] == _ETCD and not set(_ETCD_FLAGS.values()) & mounts.keys()


@pytest.mark.parametrize(("files", "log"), [({}, "-"), (_ADMISSION_FILES, "/etc/kubernetes/audit.log")])
def test_a_folder_that_hides_certificates_and_has_more_than_files_is_refused(
    helm: HelmAdapter, files: Mapping[str, str], log: str
) -> None:
    """A file that a flag names doesn't exist, or the audit log is written there."""
    with pytest.raises(Blocked, match=r"at /etc/kubernetes.*which would hide the certificates"):
        _taken_over(helm, *_of_kubespray("41c0 994 0", files, log=log))


@pytest.mark.parametrize(("path", "closed"), [(f"{_ETCD}/ca.pem", False), (_ETCD, True)])
def test_a_folder_must_be_open_only_where_the_release_mounts_it(path: str, closed: bool) -> None:
    """A controller that joins: if the release has only files of a closed folder, its mode doesn't matter there."""
    hosts, pod = _of_kubespray("41c0 994 0", _ADMISSION_FILES)
    known = kubeadm_facts(pod, pki=_SSL)
    container = {"name": "kube-apiserver", "volumeMounts": [{"name": "etcd", "mountPath": path}]}
    template = {"spec": {"containers": [container]}}
    release = {"kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": {"template": template}}
    folders = mounted_by_file(known.controllers, [yaml.safe_dump(release)])
    with pytest.raises(Blocked, match=_ETCD) if closed else nullcontext():
        check_readable(hosts, known.controllers, _SSL, folders)


def _three(*changes: Mapping[str, str | None], closed: str = "") -> tuple[FakeHosts, KubeadmFacts]:
    """Three controllers of Kubespray, whose etcd folder is closed on the one of that name; each with these files beside
    what all of them have, or without them.
    """
    hosts = controller_with_modes({_ETCD: "41c0 994 0"}, closed)
    for number, change in enumerate(changes, 1):
        every: dict[str, str | None] = {**dict.fromkeys(_ETCD_FLAGS.values(), "-----BEGIN X"), **_FILES, **change}
        hosts.files.update({(f"controller-{number}", path): text.encode() for path, text in every.items() if text})
    flags = {**_ETCD_FLAGS, "admission-control-config-file": _ADMISSION}
    api = kubeadm_pod("kube-apiserver", flags, volume("etcd-certs-0", _ETCD))
    return hosts, facts(*({name: kubeadm_pod(name) for name in FLAGS} | {"kube-apiserver": api} for _ in changes))


def test_a_folder_that_is_closed_on_one_controller_is_mounted_by_file_on_all() -> None:
    """One release serves all of them, whichever is the first."""
    hosts, known = _three({}, {}, {}, closed="controller-2")
    found = with_single_files(hosts, known, PKI)
    assert found.by_file == (_ETCD,) and found.single_files.keys() >= set(_ETCD_FLAGS.values())


_CA = f"{_ETCD}/ca.pem"
_WEBHOOK = f"{PKI}/policy/webhook.conf"
_OWN = {_ADMISSION: "plugins: [{path: own.yaml}]", f"{PKI}/own.yaml": "{}"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            [{}, {_CA: None}, {}],
            f"controller-2 has no file {_CA}, which a flag of kube-apiserver names, but controller-1",
        ),
        (
            [{_CA: None}, {}, {}],
            f"controller-1 has no file {_CA}, which a flag of kube-apiserver names, but controller-2",
        ),
        (
            [{}, {}, {_WEBHOOK: None}],
            rf"controller-3 has no file {_WEBHOOK}, which {PKI}/image-policy.yaml \(imagePolicy.kubeConfigFile\) names",
        ),
        ([{}, {}, _OWN], rf"controller-1 has no file {PKI}/own.yaml, which {_ADMISSION} \(plugins\[0\].path\) names"),
    ],
)
def test_a_file_that_only_some_controllers_have_is_refused(changes: list[Mapping[str, str | None]], words: str) -> None:
    """The chart's pod would wait for it in vain on the others: one of them is named, with what names the file."""
    hosts, known = _three(*changes, closed="controller-3")
    with pytest.raises(Blocked, match=words) as caught:
        with_single_files(hosts, known, PKI)
    assert "nothing was changed" in caught.value.message and "Create it on controller-" in caught.value.remedy


_FOLDER, _SOCKET = "41ed 0 0", "c1ed 0 0"


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [
        (f"{PKI}/tokens/", f"{PKI}/tokens", _FOLDER),
        ("./tokens", f"{PKI}/tokens", _FOLDER),
        ("./s", f"{PKI}/s", _SOCKET),
    ],
)
def test_a_file_that_names_a_folder_is_refused_with_the_field(text: str, path: str, kind: str) -> None:
    """The chart could only mount a file of the certificates' folder: file and field are named, and a way out."""
    hosts = controller_with_modes({path: kind})
    hosts.files["controller-1", _ADMISSION] = f"plugins: [{{name: X}}, {{name: Y, path: {text}}}]".encode()
    api = kubeadm_pod("kube-apiserver", {"admission-control-config-file": _ADMISSION})
    what = "a socket" if kind == _SOCKET else "a folder"
    words = rf"controller-1: {_ADMISSION} \(plugins\[1\].path\) names {path}, which is {what}: "
    with pytest.raises(Blocked, match=words) as caught:
        _single_files(hosts, kubeadm_facts(api))
    assert "nothing was changed" in caught.value.message and "Correct the path" in caught.value.remedy


def test_a_word_that_is_also_a_folders_name_is_no_path() -> None:
    """kubeadm's own folder `etcd` is there: an audit policy may have a namespace of that name."""
    hosts, policy = controller_with_modes({f"{PKI}/etcd": _FOLDER}), f"{PKI}/audit.yaml"
    hosts.files["controller-1", policy] = b"rules: [{level: None, namespaces: [etcd, .]}]"
    api = kubeadm_pod("kube-apiserver", {"audit-policy-file": policy})
    assert _single_files(hosts, kubeadm_facts(api)) == SingleFiles((), {})


def test_a_date_that_no_calendar_has_ends_nothing() -> None:
    """YAML makes dates of what looks like one; such a file names no other."""
    hosts, policy = controller_with_modes({}), f"{PKI}/audit.yaml"
    hosts.files["controller-1", policy] = b"rules: [{level: None, since: 2024-13-45}]"
    api = kubeadm_pod("kube-apiserver", {"audit-policy-file": policy})
    assert _single_files(hosts, kubeadm_facts(api)) == SingleFiles((), {})


def test_a_flag_that_names_a_folder_is_refused() -> None:
    """Among the certificates, of which the chart mounts files."""
    hosts = controller_with_modes({f"{PKI}/own": _FOLDER})
    api = kubeadm_pod("kube-apiserver", {"cert-dir": f"{PKI}/own"})
    with pytest.raises(Blocked, match=f"controller-1: kube-apiserver's flag --cert-dir names {PKI}/own, which is a f"):
        _single_files(hosts, kubeadm_facts(api))


def test_each_file_is_read_once(hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of it: each read is a login's round trip, on each controller."""
    reads: list[str] = []
    read = hosts.read

    def noted(host: Host, path: str) -> bytes | None:
        reads.append(path)
        return read(host, path)

    monkeypatch.setattr(hosts, "read", noted)
    api = kubeadm_pod("kube-apiserver", {"admission-control-config-file": _ADMISSION})
    with_single_files(hosts, kubeadm_facts(api), PKI)
    assert _ADMISSION in reads and len(reads) == len(set(reads))


def test_flags_that_differ_are_refused_first() -> None:
    """Certificates of each controller's own name aren't files that others lack."""
    hosts, known = _three({}, {})
    first, second = known.controllers
    api = kubeadm_pod("kube-apiserver", {"etcd-certfile": f"{_ETCD}/node-node2.pem"})
    known = replace(known, controllers=(first, replace(second, active={**second.active, "kube-apiserver": api})))
    with pytest.raises(Blocked, match=r"controller-2 differs from controller-1 in .*--etcd-certfile"):
        with_single_files(hosts, known, PKI)
