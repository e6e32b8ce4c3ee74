"""Reporting of a run: reports, metrics, Events and traces."""
