"""The formats of stored bytes."""
