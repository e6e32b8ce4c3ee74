"""What upgrader works with: frozen values without any I/O."""
