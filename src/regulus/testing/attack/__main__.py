"""`python -m regulus.testing.attack`."""

import sys

from regulus.testing.attack.program import main

sys.exit(main())
