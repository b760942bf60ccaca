"""What to do with a request. No I/O, no clock, no threads, no logging."""
