"""The protocol of RocketMQ 5's clients, from their side: what `grpc://` addresses are spoken to with."""
