"""A gRPC server on connections of HTTP/2."""
