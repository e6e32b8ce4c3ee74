"""What people see: everything goes to stderr, for stdout belongs to machines."""
