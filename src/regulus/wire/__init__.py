"""The formats of network messages: RocketMQ's remoting protocol."""
