"""Connections that carry frames. asyncio starts here."""
