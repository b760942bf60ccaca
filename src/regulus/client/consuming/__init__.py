"""Consumers: push, pop and pull, from a queue to the listener and back."""
