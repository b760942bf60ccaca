"""Producers: from a message to the broker that takes it."""
