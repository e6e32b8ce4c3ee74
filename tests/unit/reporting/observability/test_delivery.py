"""What is told in a thread of its own."""

from __future__ import annotations

from upgrader.reporting.observability.delivery import Delivery


def test_fault_of_ours_costs_one_message() -> None:
    """It is noted once, by its name, and what follows is sent."""
    sent: list[str] = []
    notes: list[str] = []

    def send(item: str) -> None:
        if item.startswith("bad"):
            raise KeyError(item)
        sent.append(item)

    delivery = Delivery("messages", send, "not all could be told", notes.append)
    for item in ("first", "bad one", "bad two", "last"):
        delivery.put(item)
    delivery.end()
    delivery.close(10)
    assert sent == ["first", "last"]
    assert notes == ["not all could be told, but the run continues: KeyError: 'bad one'"]
