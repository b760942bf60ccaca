"""What a broker is to the others of its name.

Source: BrokerRole.
"""

from enum import StrEnum


class BrokerRole(StrEnum):
    ALONE = ""
    """A master that nobody copies: what a broker is whose file names no role."""
    ASYNC_MASTER = "ASYNC_MASTER"
    """Slaves may copy it; no answer waits for them."""
    SYNC_MASTER = "SYNC_MASTER"
    """An answer waits until a slave has the message."""
    SLAVE = "SLAVE"
    """It copies the master of its name, and takes no messages of its own."""
