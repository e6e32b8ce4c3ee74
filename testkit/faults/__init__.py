"""Faults between `upgrader` and a real API server: a proxy that injects them, and the result of runs with them."""
