"""What the controllers say of themselves, asked over SSH."""
