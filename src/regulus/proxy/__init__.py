"""The proxy for RocketMQ 5 clients: it serves gRPC and asks brokers over the remoting protocol."""
