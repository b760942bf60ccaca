"""Attacks on a broker of one's own, by chance from a seed: `python -m regulus.testing.attack --help`.

Each kind of attack plays rounds. A round has a seed and a directory of its own, starts the servers it needs on the
loopback, does its worst, and looks at what is left. What it finds is a sentence, and the seed plays the round again.
"""
