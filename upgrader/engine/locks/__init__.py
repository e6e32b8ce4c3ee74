"""One run at a time: for each cluster folder, and for each cluster."""
