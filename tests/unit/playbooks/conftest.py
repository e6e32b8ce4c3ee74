"""Lets tests import what Ansible sends to nodes, by the names that it has there."""

from __future__ import annotations

from importlib import import_module

from testkit.command import REPOSITORY

import_module("ansible.module_utils").__path__.append(str(REPOSITORY / "playbooks/roles/node/module_utils"))
