"""Regulus: a message system that speaks RocketMQ, written in Python, whose log is a Spark table."""

__version__ = "0.1.0"
