"""Decides what to do with a request, without I/O, clock, threads or logging."""
