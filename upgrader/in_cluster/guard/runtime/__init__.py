"""What decisions need of the outside: the API and its caches, HTTPS, certificates, metrics."""
