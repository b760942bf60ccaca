"""Clients that send, consume and administer, over asyncio; `regulus.client.sync` has the blocking ones."""
