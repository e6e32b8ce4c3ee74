"""The cluster folder's files, read into frozen values; nothing here talks to a cluster."""
