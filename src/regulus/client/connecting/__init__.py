"""Connections to name servers and brokers, and the routes of topics."""
