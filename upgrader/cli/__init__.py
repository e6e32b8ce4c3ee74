"""The command line: one module for each command, which has its options, asks, and prints.

A command pays only for what it uses. So its module imports click, its neighbours here, errors and versions at the top,
and everything else (use cases, what draws their values) in the function that uses it: `--help`, a completion and a
wrong option need none of that. Types that only annotations name are imported under `TYPE_CHECKING`.
"""
