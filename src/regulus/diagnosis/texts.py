"""Durations, permissions and routes of findings as text."""

from regulus.model import permission
from regulus.wire.bodies import SubscriptionData, TopicRouteData
from regulus.wire.bodies.subscription_data import ALL, SQL92


def duration_text(duration_ms: int | float) -> str:
    """`4 s`, `3 min`, `5 h`, `2 days`: one unit, rounded down."""
    seconds = int(duration_ms) // 1000
    for size, unit in ((2 * 86_400, "days"), (7_200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds // {'days': 86_400, 'h': 3_600, 'min': 60}[unit]} {unit}"
    return f"{seconds} s"


def perm_text(perm: int) -> str:
    if permission.is_readable(perm):
        return "reads and sends" if permission.is_writable(perm) else "reads only"
    return "sends only" if permission.is_writable(perm) else "neither reads nor sends"


def route_text(route: TopicRouteData | None) -> str:
    """A route in one line, so that two of them can be compared."""
    if route is None:
        return "no route"
    addresses = {each.broker_name: each.broker_addrs for each in route.broker_datas}
    return "; ".join(
        f"{each.broker_name} with {each.read_queue_nums} read and {each.write_queue_nums} write queues for "
        f"{perm_text(each.perm)} at "
        + ", ".join(f"{number}={address}" for number, address in sorted(addresses.get(each.broker_name, {}).items()))
        for each in sorted(route.queue_datas, key=lambda each: each.broker_name)) or "a route without queues"


def expression_text(subscription: SubscriptionData) -> str:
    if subscription.expression_type == SQL92:
        return f"the condition {subscription.sub_string}"
    return "all tags" if subscription.sub_string in ("", ALL) else f"the tags {subscription.sub_string}"


def near_text(near_names: tuple[str, ...]) -> str:
    """The end of a sentence about a name that is not known."""
    return f"; did you mean {' or '.join(near_names)}?" if near_names else "."
