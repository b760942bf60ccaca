"""Bytes that rest."""
