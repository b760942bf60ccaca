"""Connections that carry frames. This is the lowest package that uses asyncio."""
