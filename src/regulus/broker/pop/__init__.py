"""Pop consumption: popped messages in flight, pops in order, and messages that become visible again."""
