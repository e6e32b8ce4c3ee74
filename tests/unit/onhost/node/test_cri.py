"""The questions to the container runtime: which are asked, and what is made of the answers."""

from __future__ import annotations

import pytest

from tests.unit.in_cluster.checkpointer.container_runtime import container, field, sandbox
from upgrader.onhost.node.cri import ContainerStatus, Image, Runtime


class Answers(dict[str, bytes]):
    """A runtime's answers by method; `asked` notes each question."""

    def __init__(self, **answers: bytes) -> None:
        super().__init__(answers)
        self.asked: list[tuple[str, bytes]] = []

    def call(self, method: str, request: bytes) -> bytes:
        """The answer to a question."""
        self.asked.append((method, request))
        return self[method.rpartition("/")[2]]


def test_the_version_names_the_runtime() -> None:
    """Name and version are what an operator reads of it."""
    answers = Answers(Version=field(1, "0.1.0") + field(2, "containerd") + field(3, "v2.0.1") + field(4, "v1"))
    assert Runtime(answers.call).version() == "containerd v2.0.1"
    assert answers.asked == [("/runtime.v1.RuntimeService/Version", b"")]


def test_a_container_s_end_is_read_in_whole() -> None:
    """Exit code, reason, message and the log's path are what explains why a pod is down; times are nanoseconds."""
    status = (
        field(1, "c1")
        + field(2, field(1, "kube-apiserver") + field(2, 4))
        + field(3, 2)
        + field(4, 1_700_000_000_000_000_000)
        + field(5, 1_700_000_001_000_000_000)
        + field(6, 1_700_000_002_000_000_000)
        + field(7, 137)
        + field(8, field(1, "registry.k8s.io/kube-apiserver:v1.34.1"))
        + field(10, "OOMKilled")
        + field(11, "out of memory")
        + field(15, "/var/log/pods/x/0.log")
    )
    answers = Answers(ContainerStatus=field(1, status))
    assert Runtime(answers.call).status("c1") == ContainerStatus(
        name="kube-apiserver",
        attempt=4,
        state="exited",
        image="registry.k8s.io/kube-apiserver:v1.34.1",
        created_at=1_700_000_000_000_000_000,
        started_at=1_700_000_001_000_000_000,
        finished_at=1_700_000_002_000_000_000,
        exit_code=137,
        reason="OOMKilled",
        message="out of memory",
        log="/var/log/pods/x/0.log",
    )
    assert answers.asked == [("/runtime.v1.RuntimeService/ContainerStatus", field(1, "c1"))]


@pytest.mark.parametrize(("number", "state"), [(0, "created"), (1, "running"), (3, "unknown"), (9, "unknown")])
def test_a_state_that_later_runtimes_may_have_is_unknown(number: int, state: str) -> None:
    """What isn't known to run counts neither as running nor as ended."""
    answers = Answers(ContainerStatus=field(1, field(3, number) if number else b""))
    assert Runtime(answers.call).status("c1").state == state


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            field(1, field(1, "sha256:aa") + field(3, "a@sha256:1") + field(3, "b@sha256:1")),
            ("a@sha256:1", "b@sha256:1"),
        ),
        (field(1, field(1, "sha256:aa")), ()),
        (b"", None),
        (field(2, b"info"), None),
    ],
)
def test_an_image_is_here_when_it_is_described(answer: bytes, expected: tuple[str, ...] | None) -> None:
    """The runtime answers without an image for one that the node lacks; the question names it as a pod does."""
    answers = Answers(ImageStatus=answer)
    found = Runtime(answers.call).image("example/main:v1")
    assert found == (None if expected is None else Image("sha256:aa", expected))
    assert answers.asked == [("/runtime.v1.ImageService/ImageStatus", field(1, field(1, "example/main:v1")))]


def test_containers_are_asked_for_before_sandboxes() -> None:
    """A pod that starts in between shows a sandbox without containers, never a container without a sandbox."""
    answers = Answers(ListContainers=container("main", 1, "c1"), ListPodSandbox=sandbox())
    (found,) = Runtime(answers.call).sandboxes()
    assert [c.running for c in found.containers] == [True]
    assert [method.rpartition("/")[2] for method, _ in answers.asked] == ["ListContainers", "ListPodSandbox"]
