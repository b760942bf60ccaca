"""Nouns without bytes."""
