"""The real clients, brokers and name servers in one process, with time, network and chance determined by a seed.

    python -m regulus.testing.simulation --seed 1234 --story orderly --trace

A run is the same each time it is played: `loop` simulates the time, `network` carries the bytes, `pretence` replaces
the functions of the system. `cluster` starts and kills servers, `actors` send and consume, `stories` and `faults` say
what happens to them, `history` notes promises and results, and `checks` compare the two.
"""
