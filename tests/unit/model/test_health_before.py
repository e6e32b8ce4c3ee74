"""How many nodes a share is, and how long a roll-out may take."""

from __future__ import annotations

import pytest

from upgrader.errors import UsageError
from upgrader.model.health_before import IntOrPercent
from upgrader.model.rollout_time import rollout_seconds


@pytest.mark.parametrize(
    ("text", "total", "wanted"),
    [("10%", 200, 20), ("10%", 5, 1), ("10%", 1, 0), ("100%", 3, 2), (0, 9, 0), ("0%", 9, 0), (3, 9, 3), (3, 2, 1)],
)
def test_share_of_the_workers(text: int | str, total: int, wanted: int) -> None:
    """A percentage is rounded up, and never all of them."""
    assert (IntOrPercent.parse(text).of(total), IntOrPercent.parse(text).of(0)) == (wanted, 0)


@pytest.mark.parametrize("text", ["", "ten", "-1", "101%", "1.5", "10 %"])
def test_what_is_no_share(text: str) -> None:
    """It is refused with what it should be."""
    with pytest.raises(UsageError, match="neither a number nor a percentage"):
        IntOrPercent.parse(text)


@pytest.mark.parametrize(("text", "shown"), [("10%", "10%"), (2, "2")])
def test_share_is_shown_as_it_is_written(text: int | str, shown: str) -> None:
    """In the reference manual."""
    assert str(IntOrPercent.parse(text)) == shown


def daemonset(strategy: str, selector: str = "{}") -> str:
    """A rendered DaemonSet."""
    pod = f"{{spec: {{nodeSelector: {selector}}}}}"
    spec = f"{{updateStrategy: {{rollingUpdate: {strategy}}}, template: {pod}}}"
    return f"{{kind: DaemonSet, metadata: {{name: a}}, spec: {spec}}}\n---\n{{kind: Service, metadata: {{name: a}}}}\n"


@pytest.mark.parametrize(
    ("manifest", "seconds"),
    [
        (daemonset("{maxUnavailable: 1}"), 2003 * 30),
        (daemonset("{}"), 2003 * 30),
        (daemonset("{maxUnavailable: 10%}"), 10 * 30),
        (daemonset("{maxSurge: 50%, maxUnavailable: 0}"), 2 * 30),
        (daemonset("{maxUnavailable: 1}", "{node-role.kubernetes.io/control-plane: ''}"), 3 * 30),
        (daemonset("{maxUnavailable: 33%}", "{node-role.kubernetes.io/control-plane: ''}"), 3 * 30),
        ("{kind: Deployment, metadata: {name: a}}", 0),
        ("", 0),
    ],
)
def test_time_of_a_roll_out(manifest: str, seconds: float) -> None:
    """One node after the other takes longer in a large cluster; a tenth at a time doesn't."""
    assert rollout_seconds(manifest, controllers=3, nodes=2003) == seconds
