"""Read-only checks before a run. Every check runs; what could not be checked is a finding too."""
