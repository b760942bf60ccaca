"""Random attacks on a separate broker, reproducible by seed: `python -m regulus.testing.attack --help`.

Each kind of attack plays rounds. A round has a seed and a directory of its own, starts the servers it needs on the
loopback, attacks them, and checks what is left. A finding is a sentence, and the seed plays the round again.
"""
