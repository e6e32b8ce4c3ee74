"""Faults between `upgrader` and a real API server: a proxy that injects them, and what runs make of them."""
