"""HTTP/2 and gRPC messages, as a server uses them: bytes in, events out."""
