"""Kills a process before, during and after each step of an outbox, its relay and its consumers, for tests of your own.

    @pytest.mark.parametrize("point", crash_points.POINTS, ids=str)
    def test_each_order_is_booked_once(point, engine, broker):
        crash_points.kill_at(point, work, engine.url, broker.address)    # SIGKILL in a process of its own
        crash_points.run(work, engine.url, broker.address)               # the restart
        crash_points.check_once(engine, ["order-1"], bookings_of)

`points` has the list, `doors` the places of the points, `child` the processes, `verdict` the check. Needs the extra
`sql`.
"""

from regulus.testing.crash_points.child import Held, Killed, held_at, kill_at, run
from regulus.testing.crash_points.doors import watching
from regulus.testing.crash_points.points import POINTS, CrashPoint, Moment, Step, named, of_steps, of_window
from regulus.testing.crash_points.verdict import await_settled, check_once

__all__ = ["POINTS", "CrashPoint", "Held", "Killed", "Moment", "Step", "await_settled", "check_once", "held_at",
           "kill_at", "named", "of_steps", "of_window", "run", "watching"]
