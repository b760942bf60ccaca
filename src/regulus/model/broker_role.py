"""The role of a broker among the brokers of the same name.

Source: BrokerRole.
"""

from enum import StrEnum


class BrokerRole(StrEnum):
    ALONE = ""
    """A master without slaves: the role of a broker if its configuration names none."""
    ASYNC_MASTER = "ASYNC_MASTER"
    """Slaves may copy it; no answer waits for them."""
    SYNC_MASTER = "SYNC_MASTER"
    """An answer waits until a slave has the message."""
    SLAVE = "SLAVE"
    """It copies the master of its name and accepts no messages itself."""
