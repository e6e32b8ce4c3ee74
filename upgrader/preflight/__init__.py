"""Read-only checks before a run. Every check runs; a check that could not complete is a finding, too."""
