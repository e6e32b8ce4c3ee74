"""Output for people, on stderr: stdout is for machines."""
