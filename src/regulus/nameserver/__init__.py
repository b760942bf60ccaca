"""What to do with a request to the name server. No I/O, no clock, no threads, no logging."""
