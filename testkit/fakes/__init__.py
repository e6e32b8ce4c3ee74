"""Fakes of the ports, held to the same contract tests as the adapters."""
