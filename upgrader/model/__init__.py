"""What upgrader talks about: frozen values without any I/O."""
