"""A pod becomes a static pod that needs no API."""

from __future__ import annotations

import json

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, Contents, Json, made, pod
from upgrader.in_cluster.checkpointer.checkpointer_errors import Refused
from upgrader.in_cluster.checkpointer.static_pods.sanitise import MOST_BYTES, candidate

CONTAINER = {"name": "main", "image": "example/main:v1"}


def test_drops_what_binds_a_pod_to_api_and_scheduler() -> None:
    """No service account, owner, node name, affinity or unknown field is left; what is needed to run is kept."""
    spec = made(
        pod(
            affinity={"podAntiAffinity": {}},
            nodeSelector={"a": "b"},
            topologySpreadConstraints=[{}],
            imagePullSecrets=[{"name": "s"}],
            preemptionPolicy="PreemptLowerPriority",
            schedulerName="x",
            hostNetwork=True,
            terminationGracePeriodSeconds=45,
        )
    ).manifest["spec"]
    assert set(spec) == {
        *("automountServiceAccountToken", "containers", "enableServiceLinks", "hostNetwork", "priority"),
        *("priorityClassName", "terminationGracePeriodSeconds", "tolerations", "volumes"),
    }
    assert spec["automountServiceAccountToken"] is False


def test_carries_our_own_name_and_label_only() -> None:
    """The standby pod matches no selector of a Service, a PodDisruptionBudget or its Deployment."""
    metadata = made().placed("/gen", 7)["metadata"]
    assert metadata == {
        "name": "kube-apiserver-checkpoint",
        "namespace": "kube-system",
        "labels": {"checkpointer.upgrader.io/checkpoint-of": "kube-apiserver"},
        "annotations": {"checkpointer.upgrader.io/generation": "7"},
    }


def test_never_pulls_an_image_that_is_there() -> None:
    """A registry may be out of reach after a power cut."""
    assert made().manifest["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_same_template_same_digest() -> None:
    """Another pod of the same template is no new content; another image is."""
    assert made(pod(name="kube-apiserver-abc-x2", uid="uid-2")).digest == made().digest
    assert made(pod(image_id="sha256:bb")).digest != made().digest


def test_secret_volume_becomes_private_files() -> None:
    """A Secret's keys become files that only their reader may read, below a folder of the generation."""
    contents = Contents({("Secret", "tls"): {"key": b"\x00binary"}})
    mounts = [{"name": "tls", "mountPath": "/tls"}]
    source = pod(
        volumes=[{"name": "tls", "secret": {"secretName": "tls", "defaultMode": 0o644}}],
        containers=[{**CONTAINER, "volumeMounts": mounts, "securityContext": {"runAsUser": 99}}],
    )
    kept = made(source, contents)
    (file,) = kept.files
    assert (file.path, file.content, file.mode) == ("tls/key", b"\x00binary", 0o600)
    assert (file.owner.uid, file.owner.gid, file.owner.folder_mode) == (99, 0, 0o700)
    assert kept.placed("/gen/volumes", 1)["spec"]["volumes"] == [
        {"name": "tls", "hostPath": {"path": "/gen/volumes/tls", "type": "Directory"}}
    ]
    assert "binary" not in repr(kept)


def test_items_modes_and_optional_are_honoured() -> None:
    """Only listed keys are kept, under their paths, with their modes; a missing optional source is an empty folder."""
    contents = Contents({("ConfigMap", "conf"): {"a": b"1", "b": b"2"}})
    items = [{"key": "a", "path": "sub/run.sh", "mode": 0o755}]
    volumes = [
        {"name": "conf", "configMap": {"name": "conf", "items": items, "defaultMode": 0o440}},
        {"name": "none", "secret": {"secretName": "none", "optional": True}},
    ]
    kept = made(pod(volumes=volumes), contents)
    assert [(f.path, f.mode) for f in kept.files] == [("conf/sub/run.sh", 0o700)]
    assert [v["name"] for v in kept.manifest["spec"]["volumes"]] == ["conf", "none"]


def test_projected_volume_merges_its_sources() -> None:
    """A projection of Secrets and ConfigMaps is one folder."""
    contents = Contents({("ConfigMap", "c"): {"a": b"1"}, ("Secret", "s"): {"b": b"2"}})
    sources = [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]
    kept = made(pod(volumes=[{"name": "p", "projected": {"sources": sources, "defaultMode": 0o400}}]), contents)
    assert [(f.path, f.content, f.mode) for f in kept.files] == [("p/a", b"1", 0o400), ("p/b", b"2", 0o400)]


def test_two_readers_share_by_group() -> None:
    """Where no single user reads a volume, its fsGroup does; others never."""
    contents = Contents({("Secret", "s"): {"k": b"v"}})
    mounts = [{"name": "s", "mountPath": "/s"}]
    containers = [
        {**CONTAINER, "name": name, "volumeMounts": mounts, "securityContext": {"runAsUser": uid}}
        for name, uid in (("a", 1), ("b", 2))
    ]
    volumes = [{"name": "s", "secret": {"secretName": "s"}}]
    (file,) = made(pod(volumes=volumes, containers=containers, securityContext={"fsGroup": 7}), contents).files
    assert (file.owner.uid, file.owner.gid, file.mode, file.owner.folder_mode) == (0, 7, 0o640, 0o750)
    with pytest.raises(Refused) as refused:
        made(pod(volumes=volumes, containers=containers), contents)
    assert refused.value.reason == "OwnerUnclear"


def test_environment_from_configmaps_becomes_literal_and_does_not_expand() -> None:
    """Values stay what they were: a literal's $(NAME) would be expanded, so its $ is doubled; env wins over envFrom."""
    contents = Contents({("ConfigMap", "c"): {"A": b"$(HOME)", "B": b"2"}})
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "A"}}}, {"name": "P_B", "value": "3"}]
    source = pod(containers=[{**CONTAINER, "env": env, "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}]}])
    container = made(source, contents).manifest["spec"]["containers"][0]
    assert "envFrom" not in container
    assert container["env"] == [
        {"name": "P_A", "value": "$$(HOME)"},
        {"name": "P_B", "value": "2"},
        {"name": "X", "value": "$$(HOME)"},
        {"name": "P_B", "value": "3"},
    ]


def test_environment_files_and_fields_are_kept() -> None:
    """fileKeyRef and fieldRef need no API: they stay as they are."""
    env = [
        {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "env", "path": "address", "key": "ADDRESS"}}},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]
    source = pod(containers=[{**CONTAINER, "env": env}], volumes=[{"name": "env", "emptyDir": {}}])
    spec = made(source).manifest["spec"]
    assert spec["containers"][0]["env"] == env
    assert spec["volumes"] == [{"name": "env", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("spec", "reason", "says"),
    [
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
            "VolumeNeedsApi",
            "automountServiceAccountToken: false",
        ),
        ({"volumes": [{"name": "t", "persistentVolumeClaim": {"claimName": "c"}}]}, "VolumeNeedsApi", "t is a"),
        ({"volumes": [{"name": "t", "secret": {"secretName": "gone"}}]}, "ReferenceMissing", "Secret gone"),
        ({"runtimeClassName": "kata"}, "FieldNeedsApi", "runtimeClassName"),
        (
            {"containers": [{**CONTAINER, "envFrom": [{"secretRef": {"name": "s"}}]}]},
            "SecretInEnvironment",
            "mount it instead",
        ),
        (
            {
                "containers": [
                    {**CONTAINER, "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
                ]
            },
            "SecretInEnvironment",
            "Secret s",
        ),
        (
            {"containers": [{**CONTAINER, "envFrom": [{"configMapRef": {"name": "gone"}}]}]},
            "ReferenceMissing",
            "ConfigMap gone",
        ),
        (
            {
                "containers": [
                    {**CONTAINER, "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}
                ]
            },
            "ReferenceMissing",
            "ConfigMap c has no key k",
        ),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "conf", "items": [{"key": "gone", "path": "x"}]}}]},
            "ReferenceMissing",
            "ConfigMap conf of volume v has no key gone",
        ),
    ],
)
def test_refuses_what_needs_the_api(spec: Json, reason: str, says: str) -> None:
    """A pod that can't run without the API is refused, with a reason that names the part."""
    with pytest.raises(Refused, match=says) as refused:
        made(pod(**spec), Contents({("ConfigMap", "conf"): {"a": b"1"}}))
    assert refused.value.reason == reason


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a\nb"])
def test_refuses_a_path_that_leaves_its_volume(path: str) -> None:
    """Content never decides where on the node it is written."""
    volume = {"name": "c", "configMap": {"name": "c", "items": [{"key": "a", "path": path}]}}
    with pytest.raises(Refused) as refused:
        made(pod(volumes=[volume]), Contents({("ConfigMap", "c"): {"a": b"1"}}))
    assert refused.value.reason == "UnsafePath"


def test_host_network_ports_are_resolved_and_dropped() -> None:
    """Declared ports of two pods on the host's network would keep the standby pod from being admitted; probes keep
    working.
    """
    container = {
        **CONTAINER,
        "ports": [{"name": "health", "containerPort": 10280, "hostPort": 10280}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 10280}},
        "lifecycle": {"preStop": {"httpGet": {"path": "/stop", "port": "health"}}},
    }
    source = pod(containers=[container], hostNetwork=True)
    kept = candidate(source, API, Contents().fetch, {10280: 10281}).manifest["spec"]["containers"][0]
    assert "ports" not in kept
    assert kept["livenessProbe"]["httpGet"]["port"] == kept["readinessProbe"]["httpGet"]["port"] == 10281
    assert kept["lifecycle"]["preStop"]["httpGet"]["port"] == 10281
    assert source["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] == "health"


def test_a_leader_elected_pod_uses_the_nodes_network() -> None:
    """Whoever repairs a broken pod network needs controller-manager, so its standby pod doesn't depend on that network;
    fields that the node's network forbids go.
    """
    context = {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}, {"name": "kernel.shm_rmid_forced"}]}
    ports = [{"name": "https", "containerPort": 10257}]
    container = {"name": "main", "image": "x", "ports": ports, "livenessProbe": {"httpGet": {"port": "https"}}}
    source = pod(
        annotations={"checkpointer.upgrader.io/lease": "kube-controller-manager"},
        hostUsers=False,
        securityContext=context,
        containers=[container],
    )
    spec = made(source).manifest["spec"]
    assert spec["hostNetwork"] is True and "hostUsers" not in spec
    assert spec["securityContext"]["sysctls"] == [{"name": "kernel.shm_rmid_forced"}]
    assert "ports" not in spec["containers"][0]
    assert spec["containers"][0]["livenessProbe"]["httpGet"]["port"] == 10257
    assert "hostNetwork" not in made(pod()).manifest["spec"]
    source["spec"].pop("securityContext")
    assert made(source).manifest["spec"]["hostNetwork"] is True


def test_a_pod_with_too_much_in_it_is_refused() -> None:
    """A generation has a size: its Secrets lie on the disk that etcd and the kubelet need, several times over."""
    source = pod(volumes=[{"name": "big", "secret": {"secretName": "big"}}])
    with pytest.raises(Refused, match="more than") as refused:
        made(source, Contents({("Secret", "big"): {"k": bytes(MOST_BYTES)}}))
    assert refused.value.reason == "TooLarge"


def test_the_manifest_is_plain_json() -> None:
    """What the kubelet reads can be written as JSON."""
    assert json.loads(json.dumps(made().placed("/x", 1)))["kind"] == "Pod"


def test_optional_keys_may_be_missing() -> None:
    """A key that the pod can do without is left out of its environment and its files, as the kubelet does."""
    reference = {"name": "c", "key": "gone", "optional": True}
    container = {**CONTAINER, "env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}
    items = [{"key": "a", "path": "a"}, {"key": "gone", "path": "b"}]
    volume = {"name": "v", "configMap": {"name": "c", "items": items, "optional": True}}
    kept = made(pod(containers=[container], volumes=[volume]), Contents({("ConfigMap", "c"): {"a": b"1"}}))
    assert [f.path for f in kept.files] == ["v/a"]
    assert kept.manifest["spec"]["containers"][0]["env"] == []


def test_keys_that_are_no_names_are_left_out() -> None:
    """The kubelet skips such a key of a whole ConfigMap; a manifest with it would be refused."""
    container = {**CONTAINER, "envFrom": [{"configMapRef": {"name": "c"}}]}
    kept = made(pod(containers=[container]), Contents({("ConfigMap", "c"): {"1 bad": b"x", "GOOD": b"y"}}))
    assert kept.manifest["spec"]["containers"][0]["env"] == [{"name": "GOOD", "value": "y"}]


def test_what_needs_no_api_is_mounted_as_it_was() -> None:
    """Folders of the node, and what the kubelet itself knows of the pod, stay volumes of their own kind."""
    fields = [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]
    volumes = [
        {"name": "logs", "hostPath": {"path": "/var/log/audit"}},
        {"name": "info", "projected": {"sources": [{"downwardAPI": {"items": fields}}]}},
        {"name": "c", "configMap": {"name": "c"}},
    ]
    kept = made(pod(volumes=volumes), Contents({("ConfigMap", "c"): {"a": b"1"}}))
    placed = kept.placed("/etc/kubernetes/here", 1)["spec"]["volumes"]
    assert placed[:2] == volumes[:2]
    assert placed[2]["hostPath"]["path"] == "/etc/kubernetes/here/c"
    assert kept.placed("/elsewhere", 1)["spec"]["volumes"][:2] == volumes[:2]
