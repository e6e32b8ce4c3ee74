"""Kubernetes' own end-to-end tests against a lab cluster: after `upgrader run`, during it, and around it."""
