"""Ansible playbooks."""
