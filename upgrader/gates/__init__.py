"""Questions about a cluster's health. Each looks once, says what it saw, and changes nothing."""
