"""Code that programs on a host share: TLS, gRPC, stopping pods."""
