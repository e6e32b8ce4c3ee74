"""A protector's minimum, while watches fall silent, and while clocks differ and jump."""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.guard.originals.side import Side
from bench.guard.programs import PROTECTOR
from bench.guard.repeated.case import KEPT, Case, batches
from bench.guard.repeated.silence import Silence, between
from bench.guard.site import PODS, PROTECTORS, becomes
from testkit.command import moving_clock

__all__ = ["CLOCKS", "SILENT"]

_MANY, _LEAST = 15, 5
_SILENT_SECONDS = 80.0
"""More than the minute after which an aggregator looks at what was allowed, and after which guard lists anew."""
_SILENCES = ((Silence.HANGS, "pods"), (Silence.ENDS, "pods"), (Silence.HANGS, ""), (Silence.ENDS, ""))
_AT_ONCE = 4
_PATIENCE = 120.0
"""Until what was allowed is seen to be gone, once watches tell again; a watch that was silent ends after a minute."""
_YOUNG_SECONDS = 3
_ASK_SECONDS = 2.0
_OFF = 300.0
"""By so many seconds clocks differ."""


@dataclass(frozen=True)
class _App:
    """A protector, and its pods."""

    side: Side
    name: str

    def pods(self, numbers: range, *, ahead: float = 0) -> None:
        """New ones: seen not to be Ready first, then Ready by a kubelet whose clock is so far ahead."""
        site = self.side.site
        for number in numbers:
            site.pod(f"{self.name}-{number}", {"app": self.name}, ready=False)
        for number in numbers:
            site.runs(f"{self.name}-{number}", ready=True, ahead=ahead)

    def there(self) -> list[str]:
        """The names of its pods."""
        return [str(each["metadata"]["name"]) for each in self.side.site.kube.list(PODS, "shop", labels=self._labels)]

    def delete_all(self, until: float = math.inf) -> None:
        """Ask once for each pod that is there; not after `until`, as each may wait for the webhook's timeout."""
        for each in self.there():
            if time.monotonic() < until:
                self.side.api.deleted(each)

    def remove(self) -> None:
        """Protector and pods."""
        self.side.site.kube.delete(PROTECTORS, self.name, "shop")
        for each in self.there():
            self.side.site.kube.delete(PODS, each, "shop")

    def broken(self) -> str:
        """Whether more went than may, now that all have been asked for; or KEPT."""
        fewer = _LEAST - len(self.there())
        return f"{fewer} pods too many were deleted" if fewer > 0 else KEPT

    def blocked(self, until: float) -> str:
        """Whether what was allowed isn't known to be gone by then (of `time.monotonic`), or no pod may go although all
        are there again; or KEPT.
        """
        site, left = self.side.site, len(self.there())
        try:
            site.wait_counted([self.name], left)
            becomes("nothing to be reserved", lambda: self._reserved() == 0, seconds=_left(until))
            self.pods(range(_MANY, 2 * _MANY - left))
            site.wait_counted([self.name], _MANY)
        except TimeoutError:
            return "what was allowed is still not known to be gone"
        try:
            one = f"{self.name}-{_MANY}"
            becomes("a pod to be allowed to go", lambda: self.side.api.deleted(one) == "", seconds=_left(until))
        except TimeoutError:
            return "no pod may go, although all are there again"
        return KEPT

    def _reserved(self) -> int:
        found = self.side.site.kube.get(PROTECTORS, self.name, "shop") or {}
        cells = (found.get("status") or {}).get("cells") or ()
        return sum(len((each.get("admissionHistory") or {}).get("buckets") or ()) for each in cells)

    @property
    def _labels(self) -> str:
        return f"app={self.name}"


def _remove(apps: Iterable[_App]) -> None:
    for each in apps:
        each.remove()


def _left(until: float) -> float:
    return max(1.0, until - time.monotonic())


def _app(side: Side, *, young: int = 0, ahead: float = 0, **config: int) -> _App:
    """With its pods, once all are counted."""
    app = _App(side, f"web-{uuid.uuid4().hex[:6]}")
    side.site.protector(app.name, app.name, _LEAST, young=young, **config)
    app.pods(range(_MANY), ahead=ahead)
    return app


def _silent(side: Side, rounds: int, _: random.Random) -> list[str]:
    found = []
    for number, together in enumerate(batches(rounds, _AT_ONCE)):
        how, of = _SILENCES[number % len(_SILENCES)]
        found += _in_silence(side, together, how, of)
    return found


def _in_silence(side: Side, together: int, how: Silence, of: str) -> list[str]:
    folder = side.site.folder
    with ExitStack() as stack:
        proxy = stack.enter_context(between(side.site.kubeconfig, side.tls, folder))
        behind = replace(side.site, kubeconfig=proxy.kubeconfig)
        stack.enter_context(behind.counting())
        replica = stack.enter_context(behind.started("answers", PROTECTOR))
        apps: list[_App] = []
        # Last of all: a webhook that is still asked, and still knows protectors that are gone, lets no pod go.
        stack.callback(_remove, apps)
        stack.enter_context(side.asked(replica, "/protector"))
        # Of every other one, what is allowed is put together: then it isn't known of which pods it was.
        apps += [_app(side, **({"compactThreshold": 3} if number % 2 else {})) for number in range(together)]
        side.site.wait_counted([each.name for each in apps], _MANY)
        _wait_asked(side)
        proxy.fall_silent(how, of)
        until = time.monotonic() + _SILENT_SECONDS
        while time.monotonic() < until:
            for each in apps:
                each.delete_all(until)
            time.sleep(_ASK_SECONDS)
        found = [each.broken() for each in apps]
        proxy.speak()
        until = time.monotonic() + _PATIENCE
        found = [why or each.blocked(until) for why, each in zip(found, apps, strict=True)]
    which = f"the watch of {of}" if of else "each watch"
    return [why and f"{why} ({which} {how.value})" for why in found]


def _clocks(side: Side, rounds: int, chance: random.Random) -> list[str]:
    names = ("answers", "counts")
    files = [side.site.folder / f"clock-of-{name}" for name in names]
    answers, counts = map(_clock, files)
    found = []
    with ExitStack() as stack:
        stack.enter_context(side.site.counting(counts))
        replica = stack.enter_context(side.site.started("answers", PROTECTOR, answers))
        stack.enter_context(side.asked(replica, "/protector"))
        _wait_asked(side)
        for number in range(rounds):
            ahead = _OFF if number % 2 else -_OFF
            app = _app(side, young=_YOUNG_SECONDS, ahead=ahead)
            side.site.wait_counted([app.name], _MANY)
            for _ in range(3):
                for file in files:
                    file.write_text(f"{chance.choice((-_OFF, 0.0, _OFF)):+.0f}")
                app.delete_all()
                time.sleep(_ASK_SECONDS)
            why = app.broken() or app.blocked(time.monotonic() + _PATIENCE)
            found.append(why and f"{why} (the kubelet's clock {ahead:+.0f} s)")
            app.remove()
    return found


def _clock(file: Path) -> Mapping[str, str]:
    file.write_text("+0")
    return moving_clock(file)


def _wait_asked(side: Side) -> None:
    """Until the webhook is asked, and knows of protectors as young as this one: no pod of it may go."""
    name = f"asked-{uuid.uuid4().hex[:6]}"
    side.site.pod(f"{name}-0", {"app": name})
    side.site.protector(name, name, 1)
    side.site.wait_counted([name], 1)
    becomes("the webhook to be asked", lambda: side.api.deleted(f"{name}-0", dry_run=True) != "")
    side.site.kube.delete(PROTECTORS, name, "shop")
    becomes("the webhook to know that", lambda: side.api.deleted(f"{name}-0") == "")


SILENT = Case(
    "silent",
    "a watch delivers no events for 80 s, while the deletion of all 15 pods is requested again and again; 5 must stay",
    "Podseidon",
    _silent,
)
CLOCKS = Case(
    "clocks",
    "clocks differ by 5 minutes, and jump, while the deletion of all 15 pods is requested, which have just become "
    "Ready; 5 must stay",
    "Podseidon",
    _clocks,
)
