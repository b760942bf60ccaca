"""Builds a broker or name server from its parts, and carries out what they decide."""
