"""How a name server answers requests. No I/O, no clock, no threads, no logging."""
