"""What programs on a host share: durable files, TLS, gRPC, the pods that are stopped."""
