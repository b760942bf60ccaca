"""Support for tests of applications; installed with the package."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from regulus.testing.simulation.world import World

T = TypeVar("T")


def simulate(app: "Callable[[World], Coroutine[Any, Any, T]]", *, seed: int, brokers: int = 1, name_servers: int = 1,
             sync_flush: bool = False, within_s: float = 3_600.0, say: Callable[[str], None] | None = None,
             **broker_settings: Any) -> T:
    """Run `app`, a coroutine function that is given the simulated world of `seed`: its time, its network, its servers.
    Returns what it returns.

    The same seed gives the same run. `within_s` is in simulated time; `say` is called afterwards with what happened,
    line by line; `broker_settings` are fields of `regulus.broker.config.BrokerConfig`.

    Raises SimulationFailed, with the seed, for an error of the application, for unhandled errors, and when it does not
    end.
    """
    # Only here, because the plugin loads this package in all tests of every environment where it is installed.
    from regulus.testing.simulation.world import run_app

    return run_app(app, seed, brokers=brokers, name_servers=name_servers, sync_flush=sync_flush,
                   broker_settings=broker_settings, within_s=within_s, say=say)
