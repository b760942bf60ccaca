"""The front for RocketMQ 5 clients: gRPC before it, remoting behind it."""
