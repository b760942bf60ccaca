"""`python -m regulus.testing.simulation`: restarts itself with a fixed order of hashes."""

import os
import sys

from regulus.testing.simulation.program import HASH_SEED, MODULE, has_hash_seed, main

if __name__ == "__main__":
    if not has_hash_seed():
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]],
                  {**os.environ, "PYTHONHASHSEED": HASH_SEED})
    sys.exit(main())
