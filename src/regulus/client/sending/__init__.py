"""Producers: they send messages to the brokers that store them."""
