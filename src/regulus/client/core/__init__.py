"""What a client decides: no I/O, no clock, no chance. Times and random numbers come in as arguments."""
