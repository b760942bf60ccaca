"""The client side of the protocol of RocketMQ 5's clients, which is used for `grpc://` addresses."""
