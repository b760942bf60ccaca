"""HTTP/2 and gRPC's messages on it, as a server speaks them: bytes in, facts out."""
