"""From facts to what is wrong, in plain words."""
