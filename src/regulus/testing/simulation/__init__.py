"""The real clients, brokers and name servers, in one process, with a time, a network and a chance that a seed tells.

    python -m regulus.testing.simulation --seed 1234 --story orderly --trace

A run is the same each time it is played: `loop` makes the time up, `network` carries the bytes, `pretence` tells the
process what it asks the system. `cluster` starts and kills servers, `actors` send and consume, `stories` and `faults`
say what happens to them, `history` notes what was promised and what came of it, and `checks` compare the two.
"""
