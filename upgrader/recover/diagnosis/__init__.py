"""From facts to what is wrong, as findings."""
