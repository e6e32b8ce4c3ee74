"""What `upgrader` costs on large clusters."""
