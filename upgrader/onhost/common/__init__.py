"""What programs on a host share: TLS, gRPC, the pods that are stopped."""
