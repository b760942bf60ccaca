"""Consumers: they push, pop or pull messages from queues, call listeners, and report the results to brokers."""
