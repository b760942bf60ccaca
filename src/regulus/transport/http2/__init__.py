"""A gRPC server on HTTP/2 connections."""
