"""A playbook that runs until its process ends it, and records which process runs it."""

from __future__ import annotations

__all__ = ["PLAYBOOK", "TICKS"]

TICKS = "/var/tmp/ticks"
"""The file on the controllers: a line of each second, with $WHO of the process that runs it, $TIMES times."""

PLAYBOOK = f"""\
- hosts: controllers
  gather_facts: false
  tasks:
    - ansible.builtin.shell: "echo {{{{ lookup('env', 'WHO') }}}} >> {TICKS}; sleep 1"
      loop: "{{{{ range(lookup('env', 'TIMES') | int) | list }}}}"
"""
