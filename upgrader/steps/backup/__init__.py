"""Backups of a cluster's data, proven when they are taken, and how a cluster is restored from one."""
