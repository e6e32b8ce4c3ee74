"""Names a webhook of a configuration."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WebhookRef"]


@dataclass(frozen=True)
class WebhookRef:
    """`kind`: ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""

    kind: str
    configuration: str
    webhook: str

    def __str__(self) -> str:
        return f"{self.webhook} of {self.kind} {self.configuration}"
