"""The image of etcd's container in a manifest: nothing else of the file changes."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.steps.etcd.members import MANIFEST, NEW, OLD
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.etcd.manifest import image_of, pinned, with_image

SIDECAR = f"""metadata:
  name: etcd
spec:
  initContainers:
    - name: etcd
      image: example.com/prepare:1
  containers:
    # the metrics
    - image: example.com/exporter:2
      name: exporter
      env:
        - name: etcd
          value: "image: no"
    - name: "etcd"
      command:
        - etcd
        - --name=image
      image: '{OLD}'  # pinned by us
      volumeMounts:
        - name: etcd
  volumes: []
"""


UID = "12" * 16


@pytest.mark.parametrize("text", [MANIFEST, SIDECAR, MANIFEST.replace("\n", "\r\n"), MANIFEST + "# \udce4\n"])
def test_only_the_image_changes(text: str) -> None:
    """Comments, a pinned UID, quotes, line ends and other containers stay, byte for byte, there and back."""
    assert image_of(text) == OLD
    changed = with_image(text, NEW)
    assert changed == text.replace(OLD, NEW)
    assert with_image(changed, OLD) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"spec": {"containers": [{"name": "etcd", "image": "a:1"}]}}',
        "spec: {containers: [{name: etcd, image: a:1}]}\n",
        MANIFEST.replace("    name: etcd\n", "    name: other\n"),
        MANIFEST.replace(f"    image: {OLD}\n", ""),
        MANIFEST.replace(OLD, f"&image {OLD}"),
        MANIFEST.replace(f"    image: {OLD}\n", f"    image: {OLD}\n    image: {NEW}\n"),
        MANIFEST + "---\n" + MANIFEST,
    ],
)
def test_another_form_is_refused(text: str) -> None:
    """Where it isn't certain which text is the image, nothing is changed."""
    with pytest.raises(Failed, match="doesn't have kubeadm's format"):
        with_image(text, NEW)


@pytest.mark.parametrize("begin", ["metadata:\n", "metadata:\r\n", "metadata:\n\n  # ours\n", "metadata: # ours\n"])
@pytest.mark.parametrize("indent", ["  ", "    "])
def test_a_pinned_uid_leaves_a_manifest_that_can_be_read(begin: str, indent: str) -> None:
    """The keys of somebody's `metadata` may stand further in than kubeadm's: the new one is at their place.

    A UID of digits alone is no number.
    """
    text = f"{begin}{indent}name: etcd\n{indent}labels: {{uid: x}}\nspec: {{}}\n"
    written = pinned(text, UID)
    metadata = yaml.safe_load(written)["metadata"]
    assert metadata == {
        "name": "etcd",
        "labels": {"uid": "x"},
        **({"uid": UID} if "uid: " in written.replace("{uid: x}", "") else {}),
    }
    assert ("uid: '12" in written) == (begin != "metadata: # ours\n"), "as it is where the form isn't known"
    assert pinned(written, "cd" * 16) == written


@pytest.mark.parametrize("image", ["", "a:1\n  hostPID: true", "a:1 # b", "a: 1", "-a:1", "a:1\n"])
def test_nothing_but_an_image_is_written(image: str) -> None:
    """Root's program on the controller doesn't rely on what the machine of the operator has checked."""
    with pytest.raises(Failed, match="is not an image name; nothing was changed"):
        with_image(MANIFEST, image)
