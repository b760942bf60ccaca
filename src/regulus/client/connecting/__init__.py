"""Connections to name servers and brokers, and what is known of their routes."""
