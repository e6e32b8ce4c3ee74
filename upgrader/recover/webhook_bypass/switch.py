"""Off, and on again: in the reverse order, and only what answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from upgrader.errors import Blocked, UsageError
from upgrader.ports import Clock, Kube
from upgrader.recover.webhook_bypass.configurations import Former, Webhook, chosen, read_webhooks, written
from upgrader.recover.webhook_bypass.probe import why_silent

__all__ = ["switch_off", "switch_on"]


def switch_off(kube: Kube, clock: Clock, names: Sequence[str], done: Callable[[Webhook], None]) -> None:
    """Have guard's webhooks with these names (none: all) match nothing; `done` is told each. Idempotent.

    Raises UsageError for a name that none has, ApiError.
    """
    now = f"{clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    on = [each for each in chosen(read_webhooks(kube), names) if not each.is_off]
    for number, webhook in enumerate(on):
        written(kube, webhook, Former(webhook.content.get("objectSelector") or None, f"{now}/{number:04}"))
        done(webhook)


def switch_on(
    kube: Kube,
    clock: Clock,
    names: Sequence[str],
    done: Callable[[Webhook], None],
    note: Callable[[str], None] = lambda _: None,
    doing: Callable[[str], None] = lambda _: None,
) -> None:
    """Give them back what they selected, the one that was switched off last first, each once it has answered.

    `doing` is told which one is asked, and `note` for what that waits. Raises Blocked at the first one that doesn't
    answer: those before it are on, and `done` was told. Raises UsageError where nothing remembers what one selected, or
    for a name that none has, and ApiError.
    """
    off = [each for each in chosen(read_webhooks(kube), names) if each.is_off]
    if forgotten := [each for each in off if each.former is None]:
        raise UsageError(
            f"webhook {forgotten[0]} is off, and its previous selector is not recorded; nothing was changed",
            remedy="Set its objectSelector to the value in its chart or manifest.",
        )
    for webhook in sorted(off, key=lambda each: each.former.order if each.former else "", reverse=True):
        seconds = webhook.content.get("timeoutSeconds", 10)
        doing(f"testing webhook {webhook}: the API server waits up to {seconds} s for each answer…")
        if why := why_silent(kube, clock, webhook, note):
            raise Blocked(
                f"webhook {webhook} stays off: {why}",
                remedy="Check guard's pods (`kubectl get pods` in its namespace), and try again once it answers. If "
                "the webhook were on before that, the API server would reject the requests that it matches.",
            )
        written(kube, webhook, None)
        done(webhook)
