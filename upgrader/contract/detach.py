"""Taking a node out of a load balancer and putting it back, by annotations that an agent answers.

    who wants it                                 the agent
    annotate the Node: detached           →      takes it out of the load balancer
                                          ←      annotation: detachment-timestamp
    wait for the grace period, act
    take the annotation off               →      puts it back, after a good check
                                          ←      annotation: attachment-timestamp

Who asks takes off the last answers in the same patch, so that an answer is always one to this question, and no two
clocks have to be compared. The grace period counts from the answer, and not from before this process has seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.contract.times import seconds_of

__all__ = [
    "ATTACHED",
    "DETACHED",
    "DETACHMENT",
    "OWNER",
    "DetachStep",
    "Detachment",
    "asked",
    "attach",
    "detach",
    "lent",
]

DETACHMENT = "node-detacher.variant.run/detached"
DETACHED = "node-detacher.variant.run/detachment-timestamp"
ATTACHED = "node-detacher.variant.run/attachment-timestamp"
OWNER = "ingressdaemonsets.mumoshu.github.com/detached-by"
"""`NAMESPACE/NAME KEY` of the IngressDaemonSet that has asked for it, by this annotation, and takes it off again."""


@dataclass(frozen=True)
class Detachment:
    """How nodes are detached. `grace`: seconds after asking; `answered_grace`: seconds after the answer.

    `answer`, `attached`: the annotations with the times of both; each is empty if no agent answers, and the request is
    enough.
    """

    key: str = DETACHMENT
    value: str = "true"
    grace: float = 0.0
    answer: str = DETACHED
    answered_grace: float = 0.0
    attached: str = ATTACHED


@dataclass(frozen=True)
class DetachStep:
    """What to do next: annotations of the Node to set, or to take off (None). `again_in`: seconds, if by time alone."""

    done: bool = False
    patch: Mapping[str, str | None] = field(default_factory=dict)
    waits_for: str = ""
    again_in: float | None = None


def asked(annotations: Mapping[str, str], how: Detachment) -> bool:
    """Whether somebody wants the node out of the load balancer."""
    return how.key in annotations


def lent(annotations: Mapping[str, str], how: Detachment) -> bool:
    """Whether the node is out because of an IngressDaemonSet, which puts it back whenever it has done its own work.

    Who needs it out for longer takes `OWNER` off: then the IngressDaemonSet leaves the node to them.
    """
    return asked(annotations, how) and annotations.get(OWNER, "").partition(" ")[2] == how.key


def detach(
    annotations: Mapping[str, str], how: Detachment, asked_at: float, noticed: float | None, now: float
) -> DetachStep:
    """The next step out of the load balancer.

    `annotations`: the Node's. `asked_at`: when it was asked for. `noticed`: when this process first saw the answer, by
    its own clock; None if it hasn't.
    """
    if not asked(annotations, how):
        patch: dict[str, str | None] = {how.key: how.value}
        patch.update({key: None for key in (how.answer, how.attached) if key in annotations})
        return DetachStep(patch=patch, waits_for="the annotation on the node to be set")
    until = asked_at + how.grace
    if how.answer:
        text = annotations.get(how.answer)
        if text is None:
            return DetachStep(waits_for=f"the annotation {how.answer} on the node")
        answered = seconds_of(text)
        if answered is None:
            return DetachStep(waits_for=f"a time in the annotation {how.answer}, which is {text[:64]!r}")
        until = max(until, answered + how.answered_grace, (now if noticed is None else noticed) + how.answered_grace)
    if now < until:
        return DetachStep(waits_for=f"the grace period, for {until - now:.0f} s", again_in=until - now)
    return DetachStep(done=True)


def attach(annotations: Mapping[str, str], how: Detachment) -> DetachStep:
    """The next step back, for who asked for the way out.

    If the agent never said that the node is out, nothing is waited for. So it takes off that answer in the same patch
    as it gives the other, or never.
    """
    if asked(annotations, how):
        patch = {key: None for key in (how.key, how.attached) if key in annotations}
        return DetachStep(patch=patch, waits_for="the annotation to be removed from the node")
    if not how.attached:
        return DetachStep(done=True)
    text = annotations.get(how.attached)
    if text is None and how.answer not in annotations:
        return DetachStep(done=True)
    if text is None:
        return DetachStep(waits_for=f"the annotation {how.attached} on the node")
    if seconds_of(text) is None:
        return DetachStep(waits_for=f"a time in the annotation {how.attached}, which is {text[:64]!r}")
    return DetachStep(done=True)
