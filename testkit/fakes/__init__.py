"""Fakes of the ports, which pass the same contract tests as the adapters."""
