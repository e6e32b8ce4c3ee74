"""The values that upgrader works with: frozen, without any I/O."""
