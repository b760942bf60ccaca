"""The decisions of a client, without I/O, clock or randomness. Times and random numbers come in as arguments."""
