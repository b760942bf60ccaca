"""Faults in what metrics count."""

from tests.mutants import Mutant

_LAG = ("tests/unit/broker/test_broker_metrics.py", "tests/golden/test_metrics.py")
_PAGE = ("tests/unit/wire/test_metrics_text.py",)

MUTANTS = [
    Mutant(name="a stranger's name ends its label", path="regulus/wire/metrics_text.py",
           old='''replace('"', '\\\\"').replace("\\n", "\\\\n")
    return value''', new='''replace("\\n", "\\\\n")
    return value''', tests=_PAGE),
    Mutant(name="the page has no limit", path="regulus/wire/metrics_text.py",
           old="if self._page.series + lines > self._page.series_max:", new="if False:", tests=_PAGE),
    Mutant(name="a batch counts as one message", path="regulus/broker/send_facts.py",
           old="        self.nums += messages\n", new="        self.nums += 1\n",
           tests=("tests/unit/broker/test_send_facts.py",)),
    Mutant(name="an ordered message counts as a normal one", path="regulus/wire/straight_properties.py",
           old="message.is_ordered = True", new="message.is_ordered = False",
           tests=("tests/property/test_straight_sends.py",)),
    Mutant(name="the lag of a group ends with its last consumer", path="regulus/broker/metrics/group_families.py",
           old='''            self._rocketmq(group, topic, lag, "false")
        self._own_lag''', new='''            self._rocketmq(group, topic, lag, "false")
        if not is_live:
            return
        self._own_lag''', tests=_LAG),
    Mutant(name="a queue without an offset is behind", path="regulus/broker/metrics/lag.py",
           old='''            if committed == NOT_FOUND:
                continue
            end = max(committed''', new='''            committed = max(committed, 0)
            end = max(committed''', tests=_LAG),
    Mutant(name="a broker that takes nothing is ready", path="regulus/server/readiness.py",
           old="self._of_disk(), ", new="", tests=("tests/unit/server/test_metrics_page.py",)),
    Mutant(name="an answer that was late counts as a success", path="regulus/server/request_server.py",
           old="(request_code, late or response_code", new="(request_code, response_code",
           tests=("tests/unit/server/test_request_server.py",)),
]
