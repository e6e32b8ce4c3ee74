"""Read-only checks before a run. Every check runs; what could not be looked at is a finding too."""
