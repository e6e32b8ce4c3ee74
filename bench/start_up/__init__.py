"""What starting a command costs."""
