"""An undo of the adoption loses nothing that a release has got since, and starts nothing older than the data."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from tests.unit.adopt.kubeadm_cluster import FLAGS, static_pod
from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.undo_differences import check_undo, images_to_restore, released_in
from upgrader.adopt.values import CA_FOR_ALL
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.onhost.certificates.new_signer import SIGNING

HOST = Host("controller-1", "10.0.0.1")
CHARTS = ("--goaway-chance=0.02", "--token-auth-file=/run/kube-apiserver/tokens.csv", "--advertise-address=$(HOST_IP)")
DIGEST = f"@sha256:{'a' * 64}"


def manifest(*more: str, component: str = "kube-apiserver", image: str = "", **container: object) -> str:
    """A release with one component, whose flags are kubeadm's but for `more`."""
    names = {flag.partition("=")[0] for flag in more}
    flags = [flag for flag in FLAGS[component] if flag.partition("=")[0] not in names]
    own = {"name": component, "image": image or f"registry.k8s.io/{component}:v1.37.1", "args": [*flags, *more]}
    return yaml.safe_dump(
        {
            "kind": "Deployment",
            "metadata": {"name": component, "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [{**own, **container}]}}},
        }
    )


def retired(*more: str, **container: object) -> ControllerFacts:
    """A controller whose kube-apiserver an adoption has retired."""
    return ControllerFacts(HOST, {}, {"kube-apiserver": static_pod("kube-apiserver", *more, **container)})


def test_what_the_charts_add_is_no_difference() -> None:
    """An adoption that nothing has changed since can be undone."""
    check_undo([retired()], released_in([manifest(*CHARTS)]), {})


def test_an_adoption_with_a_ca_for_each_signer_can_be_undone() -> None:
    """The chart's kube-controller-manager gets empty flags of one CA for all, which kubeadm's manifest lacks."""
    name, own = "kube-controller-manager", "--cluster-signing-kubelet-client-cert-file=/etc/kubernetes/pki/kubelets.crt"
    static = static_pod(name, own)
    flags = {flag: values for flag, values in static.flags.items() if flag not in CA_FOR_ALL}
    controller = ControllerFacts(HOST, {}, {name: replace(static, flags=flags)})
    check_undo([controller], released_in([manifest(own, *(f"--{flag}=" for flag in CA_FOR_ALL), component=name)]), {})
    with pytest.raises(Blocked, match=r"--cluster-signing-cert-file=/new\.crt"):
        check_undo(
            [controller], released_in([manifest(own, "--cluster-signing-cert-file=/new.crt", component=name)]), {}
        )


def test_a_flag_of_the_chart_that_was_left_out_is_no_difference() -> None:
    """adopt itself says to set it to "" where its file isn't on the controllers: the manifest never had it."""
    added = {"kube-apiserver": {"proxy-client-cert-file": ("/etc/kubernetes/pki/front-proxy-client.crt",)}}
    left_out = released_in([manifest(*CHARTS, "--proxy-client-cert-file=")])
    check_undo([retired()], left_out, added)
    with pytest.raises(Blocked, match=r"--audit-policy-file=, in the manifest no --audit-policy-file"):
        check_undo([retired()], released_in([manifest(*CHARTS, "--audit-policy-file=")]), added)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--encryption-provider-config=/etc/keys.yaml",), "--encryption-provider-config=/etc/keys.yaml"),
        (("--service-account-issuer=https://new", "--service-account-issuer=https://old"), "https://new,https://old"),
        (("--token-auth-file=/etc/tokens.csv",), "--token-auth-file=/etc/tokens.csv"),
    ],
)
def test_flags_that_a_release_has_got_since_are_named(more: tuple[str, ...], named: str) -> None:
    """kubeadm's kube-apiserver couldn't read encrypted objects, or accept the tokens of another issuer."""
    with pytest.raises(Blocked, match="nothing was changed") as refused:
        check_undo([retired()], released_in([manifest(CHARTS[0], *more)]), {})
    assert named in refused.value.message
    assert "/etc/kubernetes/upgrader/adopted/COMPONENT.yaml" in refused.value.remedy


def test_flags_that_a_release_has_lost_since_are_named() -> None:
    """What was taken out on purpose doesn't come back unasked."""
    with pytest.raises(Blocked, match="no --anonymous-auth, in the manifest --anonymous-auth=true"):
        check_undo([retired("--anonymous-auth=true")], released_in([manifest(*CHARTS)]), {})


def test_variables_are_compared_too() -> None:
    """A proxy's variables decide which webhooks are reached."""
    changed = manifest(*CHARTS, env=[{"name": "HTTPS_PROXY", "value": "http://proxy"}])
    with pytest.raises(Blocked, match="the variable HTTPS_PROXY"):
        check_undo([retired()], released_in([changed]), {})


def test_an_emulation_is_never_ended_by_an_undo() -> None:
    """That is the point of no return of a minor upgrade, and `finalize` asks for it."""
    with pytest.raises(Blocked, match=r"emulates v?1\.36") as refused:
        check_undo([retired()], released_in([manifest(*CHARTS, "--emulated-version=1.36")]), {})
    assert "upgrader finalize" in refused.value.remedy


def test_an_emulation_of_the_manifests_own_goes_on_after_an_undo() -> None:
    """An undo ends nothing then; with another controller's manifest that doesn't emulate, it would."""
    released = released_in([manifest(*CHARTS, "--emulated-version=kube=1.36")])
    check_undo([retired("--emulated-version=kube=1.36")], released, {})
    for others in (retired(), retired("--emulated-version=1.35")):
        with pytest.raises(Blocked, match="an undo would end the emulation"):
            check_undo([retired("--emulated-version=kube=1.36"), others], released, {})


def test_a_rotation_is_completed_first() -> None:
    """kubeadm's controller-manager would sign with another CA than the one that nodes begin to trust."""
    signing = f"--cluster-signing-cert-file=/etc/kubernetes/pki/{SIGNING}"
    with pytest.raises(Blocked, match="rotation"):
        check_undo([retired()], released_in([manifest(signing, component="kube-controller-manager")]), {})


def test_what_runs_decides_on_the_image() -> None:
    """Also where kubeadm's manifest names an older one by digest, or a registry that the release no longer uses."""
    released = released_in([manifest(*CHARTS, image=f"mirror.example/kube-apiserver{DIGEST}")])
    check_undo([retired(image=f"registry.k8s.io/kube-apiserver@sha256:{'b' * 64}")], released, {})
    assert images_to_restore(released) == {"kube-apiserver": f"mirror.example/kube-apiserver{DIGEST}"}


def test_a_digest_without_its_release_is_refused() -> None:
    """Nothing says then whether that image is older than the data."""
    with pytest.raises(Blocked, match="the running version is unknown"):
        check_undo([retired(image=f"registry.k8s.io/kube-apiserver{DIGEST}")], {}, {})


def test_a_controller_that_joined_again_is_not_compared() -> None:
    """Its static pod runs, and stays as it is."""
    running = static_pod("kube-apiserver")
    again = replace(retired("--anonymous-auth=true"), active={"kube-apiserver": running})
    check_undo([again], released_in([manifest(*CHARTS)]), {})
