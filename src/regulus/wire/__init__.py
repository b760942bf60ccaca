"""Bytes that travel: RocketMQ's remoting protocol."""
