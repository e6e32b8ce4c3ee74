"""What a guard does: one file for each path that answers, and the server that they share."""
