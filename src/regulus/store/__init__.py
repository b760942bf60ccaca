"""Storage: commit log, consume queues, index, checkpoint, and the recovery that makes them agree."""
