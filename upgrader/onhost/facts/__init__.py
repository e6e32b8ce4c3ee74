"""Programs that run on a controller: Python's standard library only, from 3.8 on, which every machine that Ansible
manages has.

The modules are sent as one text to `python3 -` and leave nothing behind. They read, and change nothing. Each collects
plain values for JSON; a value that could not be determined is `{"unknown": why}`.
"""
