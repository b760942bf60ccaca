"""What a run plays: the participants, and the faults that may happen to them. The seed determines how and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regulus.client.config import ConsumeFromWhere
from regulus.model.broker_role import BrokerRole
from regulus.testing.simulation.actors import Manner, SendingPlan, Temper
from regulus.testing.simulation.history import Promises


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    name: str
    members: int = 2
    orderly: bool = False
    broadcasting: bool = False
    max_reconsume_times: int = 3
    suspend_ms: int = 500
    consume_timeout_s: float = 900.0
    pops: bool = False
    at_once: int = 4
    """The number of messages that a member requests in one pop; one if it pops in order."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of its members."""
    wanted: range | None = None
    """The numbers of the messages selected by the SQL92 condition of its members' subscriptions; messages are sent
    `numbered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    about: str
    brokers: tuple[int, int] = (1, 2)
    """The minimum and the maximum number of brokers."""
    slaves: tuple[int, int] = (0, 0)
    """The minimum and the maximum number of slaves of each broker."""
    role: BrokerRole = BrokerRole.ALONE
    """The role of brokers that are not slaves."""
    name_servers: tuple[int, int] = (1, 2)
    queues: int = 2
    """The number of queues of each topic in each broker."""
    syncs: bool | None = None
    """Whether brokers sync before they answer; None: as the seed determines."""
    loses_power: bool = False
    sending: tuple[SendingPlan, ...] = (SendingPlan(),)
    groups: tuple[GroupPlan, ...] = (GroupPlan(name="group"),)
    temper: Temper = field(default_factory=Temper)
    faults: tuple[str, ...] = ()
    """Some of these faults happen."""
    faults_count: tuple[int, int] = (1, 4)
    head_start_s: float = 1.0
    """How long topics, and groups that pop in order, exist before clients start: name servers and slaves know them
    then."""
    groups_begin_s: float = 0.0
    faults_until_s: float = 18.0
    """Faults begin before this time."""
    rough_s: float = 18.0
    calm_max_s: float = 120.0
    promises: Promises = field(default_factory=Promises)
    broker_settings: dict[str, Any] = field(default_factory=dict)


_SERVERS = ("kill_broker", "restart_broker", "move_broker", "kill_name_server", "cut_connections", "part_hosts",
            "slow_down")
_MEMBERS = ("member_joins", "member_leaves", "member_is_killed", "member_changes_its_mind", "cut_connections",
            "slow_down")
_POP_MEMBERS = ("member_joins", "member_leaves", "member_is_killed", "cut_connections", "slow_down")
_FROM_THE_END = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET}
_PAIRS = (*("promotion",) * 4, *("all_lose_power",) * 3, "master_is_killed", "master_loses_power", "slave_is_away",
          "link_is_parted", "disk_is_slow", "disk_fails", "cut_connections", "slow_down")
_OF_PAIRS = (SendingPlan(count=40, over_s=18.0),) * 2
_UNPACKED = {"compress_msg_body_over_howmuch": 1 << 30}
_FILTERS = {"enable_property_filter": True}
_TIMERS = {"timer_roll_window_slot": 6}     # so that some are appended again on the way
_MIXED = (SendingPlan(count=16, batches=0.1, oneway=0.1), SendingPlan(count=12, ordered=0.5))

STORIES: Mapping[str, Story] = {
    "plain": Story(about="messages are sent and consumed, and nothing happens"),
    "servers": Story(about="brokers and name servers are killed, stopped, moved and cut off", sending=_MIXED,
                     faults=_SERVERS),
    "power": Story(about="machines lose their power, and brokers that sync keep what they acknowledged", sending=_MIXED,
                   syncs=True, loses_power=True, faults=("cut_power", "cut_power", "kill_broker", "slow_down")),
    "tail": Story(about="machines lose their power, and brokers that do not sync lose what came last", sending=_MIXED,
                  syncs=False, loses_power=True, faults=("cut_power",), brokers=(1, 1)),
    "members": Story(about="members of a group come, go, die and change their minds", sending=_MIXED,
                     faults=_MEMBERS, faults_count=(2, 5), temper=Temper(fails=0.15)),
    "shuffle": Story(about="queues change hands while offsets are slow on their way", brokers=(1, 1), queues=6,
                     sending=(SendingPlan(count=60, over_s=14.0),), faults_count=(4, 7),
                     faults=("slow_down", "slow_down", "member_joins", "member_leaves"),
                     groups=(GroupPlan(name="group", settings={"persist_consumer_offset_interval": 1_000}),)),
    "early": Story(about="clients come before name servers know the topics", head_start_s=0.0,
                   temper=Temper(fails=0.3, always_fails=0.08), name_servers=(2, 2)),
    "failing": Story(about="listeners fail, in all manners, and some messages die of it",
                     temper=Temper(fails=0.3, always_fails=0.08)),
    "cancelling": Story(about="listeners raise CancelledError", temper=Temper(fails=0.3, manners=(Manner.CANCELLED,))),
    "forgetting": Story(about="listeners forget to return", temper=Temper(fails=0.3, manners=(Manner.FORGETS,))),
    "ladder": Story(about="messages climb all sixteen steps to their end", brokers=(1, 1), rough_s=5.0,
                    sending=(SendingPlan(count=8, over_s=4.0),), temper=Temper(fails=0.2, always_fails=0.3),
                    groups=(GroupPlan(name="group", members=1, max_reconsume_times=16),),
                    broker_settings={"message_delay_level": " ".join(["200ms"] * 18)}),
    "holding": Story(about="listeners take longer than a message may be held", rough_s=15.0,
                     groups=(GroupPlan(name="group", consume_timeout_s=4.0, max_reconsume_times=16),),
                     sending=(SendingPlan(count=12, over_s=10.0),), temper=Temper(slow=0.4, slow_s=12.0)),
    "orderly": Story(about="each queue in order, and listeners fail",
                     groups=(GroupPlan(name="orderly", orderly=True, max_reconsume_times=6),),
                     sending=(SendingPlan(count=30, ordered=0.6, batches=0.1),),
                     temper=Temper(fails=0.3, always_fails=0.04, suspends_ms=(-1, 50, 2000))),
    "orderly-quiet": Story(about="each queue in order, with one message that comes while nothing else does",
                           brokers=(1, 1), queues=4, sending=(SendingPlan(count=4, lanes=1, over_s=8.0),),
                           groups=(GroupPlan(name="orderly", orderly=True, max_reconsume_times=6),),
                           temper=Temper(fails=0.9)),
    "orderly-members": Story(about="each queue in order, while members come and go",
                             groups=(GroupPlan(name="orderly", orderly=True, max_reconsume_times=16),),
                             sending=(SendingPlan(count=30, ordered=0.6),), faults=_MEMBERS, faults_count=(2, 5),
                             temper=Temper(fails=0.2, slow=0.2, suspends_ms=(-1, 50, 2000))),
    "orderly-servers": Story(about="each queue in order, while brokers and name servers come and go",
                             groups=(GroupPlan(name="orderly", orderly=True, max_reconsume_times=16),),
                             sending=_MIXED, faults=_SERVERS, temper=Temper(fails=0.2, suspends_ms=(-1, 50, 2000))),
    "resets": Story(about="an operator sends a group elsewhere, and the broker tells it", faults=("reset",),
                    faults_count=(1, 3), temper=Temper(slow=0.2)),
    "pushed-resets": Story(about="an operator sends a group elsewhere, and the broker pushes it to the members",
                           faults=("reset_by_time", "join_and_reset", "member_leaves", "slow_down"),
                           faults_count=(2, 5),
                           temper=Temper(slow=0.2), broker_settings={"use_server_side_reset_offset": False}),
    "one-queue-reset": Story(about="an operator sends a group elsewhere in one queue, and the broker pushes it",
                             faults=("reset",), broker_settings={"use_server_side_reset_offset": False}),
    "orderly-resets": Story(about="an operator sends an orderly group elsewhere",
                            faults=("reset_by_time", "join_and_reset", "member_leaves"),
                            faults_count=(1, 4), temper=Temper(slow=0.3, fails=0.2),
                            groups=(GroupPlan(name="orderly", orderly=True, max_reconsume_times=16),),
                            broker_settings={"use_server_side_reset_offset": False}),
    "broadcasting": Story(about="each member consumes everything, and comes back where it was",
                          groups=(GroupPlan(name="broadcast", broadcasting=True),), sending=_MIXED,
                          faults=("member_returns", "member_returns", "kill_broker", "cut_connections")),
    "transactions": Story(about="transactions are committed, rolled back and asked for", faults=_SERVERS,
                          sending=(SendingPlan(count=20, transactions=0.7),), calm_max_s=300.0),
    "producers-end": Story(about="producers end with sends under way, and begin again", faults=("producer_ends",),
                           faults_count=(2, 4), brokers=(1, 2), promises=Promises(no_misses=True)),
    "name-servers": Story(about="one of two name servers is gone, and nobody misses it", name_servers=(2, 2),
                          groups=(GroupPlan(name="group"), GroupPlan(name="other")), faults_until_s=0.1,
                          sending=(SendingPlan(count=24, burst=4, over_s=10.0),) * 3, rough_s=15.0,
                          faults=("one_name_server_is_gone",), promises=Promises(no_misses=True)),
    "first-broker": Story(about="the broker whose name comes first is gone when a group begins", brokers=(2, 2),
                          syncs=True, loses_power=True, sending=(SendingPlan(count=20),), groups_begin_s=5.0,
                          faults=("first_broker_is_gone",), faults_until_s=4.0, promises=Promises(delivery_max_s=6.0)),
    "short-outage": Story(about="the only broker is killed, and back before a send gives up", brokers=(1, 1),
                          sending=(SendingPlan(count=40),), faults=("short_outage",), faults_count=(2, 3),
                          promises=Promises(no_misses=True)),
    "filters": Story(about="groups get what their conditions take, whoever is killed, cut off or without power",
                     sending=(SendingPlan(count=40, over_s=18.0, numbered=True, batches=0.1),) * 2,
                     groups=(GroupPlan(name="group", wanted=range(10, 16)),
                             GroupPlan(name="rare", wanted=range(37, 40))),
                     syncs=True, loses_power=True, temper=Temper(fails=0.15),
                     faults=("kill_broker", "restart_broker", "cut_power", "cut_connections", "member_joins",
                             "member_leaves", "slow_down"), broker_settings=_FILTERS),
    "held-filters": Story(about="pulls wait while their condition takes nothing, and get at once what it takes",
                          brokers=(1, 1), sending=(SendingPlan(count=40, over_s=18.0, numbered=True),),
                          groups=(GroupPlan(name="group", wanted=range(20, 40, 6)),), rough_s=20.0,
                          temper=Temper(slow=0.0), promises=Promises(delivery_max_s=2.0), broker_settings=_FILTERS),
    "spoiled": Story(about="a message that cannot be read lies among others", faults=("spoiled_message",)),
    "made-anew": Story(about="topics are deleted and made anew under members that consume them", brokers=(1, 1),
                       groups=(GroupPlan(name="broadcast", broadcasting=True, settings=_FROM_THE_END),
                               GroupPlan(name="group", settings=_FROM_THE_END),
                               GroupPlan(name="orderly", orderly=True, settings=_FROM_THE_END)),
                       faults=("topics_made_anew",), faults_count=(1, 1)),
    "async-pair": Story(about="a slave copies an ASYNC_MASTER, which is killed or without power for good, or back",
                        role=BrokerRole.ASYNC_MASTER, slaves=(1, 1), syncs=False, loses_power=True, brokers=(1, 1),
                        sending=_OF_PAIRS, head_start_s=12.0, faults=_PAIRS),
    "sync-pair": Story(about="an answer waits for the memory of a slave, and either of the two may die",
                       role=BrokerRole.SYNC_MASTER, slaves=(1, 2), syncs=False, loses_power=True, brokers=(1, 1),
                       sending=_OF_PAIRS, head_start_s=12.0, faults=_PAIRS),
    "sync-disks": Story(about="an answer waits for the disks of both, and both may lose their power",
                        role=BrokerRole.SYNC_MASTER, slaves=(1, 2), syncs=True, loses_power=True, brokers=(1, 1),
                        sending=_OF_PAIRS, head_start_s=12.0, faults=_PAIRS),
    "clocks": Story(about="the clocks of brokers jump", faults=("clock_jumps",), syncs=True, sending=_MIXED,
                    temper=Temper(fails=0.2)),
    "timers": Story(about="messages wait for times of their own, and brokers are killed or without power",
                    sending=(SendingPlan(count=30, timed=0.8),) * 2, syncs=True, loses_power=True,
                    temper=Temper(fails=0.15), broker_settings=_TIMERS,
                    faults=("kill_broker", "restart_broker", "cut_power", "slow_down", "cut_connections")),
    "timers-clocks": Story(about="messages wait for times of their own, and clocks of brokers jump",
                           sending=(SendingPlan(count=30, timed=0.8),), syncs=True, brokers=(1, 1),
                           faults=("clock_jumps", "clock_jumps", "kill_broker"), broker_settings=_TIMERS,
                           promises=Promises(clocks_wrong_s=20.0)),
    "timers-pair": Story(about="messages wait for times of their own, and a slave is promoted",
                         role=BrokerRole.SYNC_MASTER, slaves=(1, 1), syncs=True, loses_power=True, brokers=(1, 1),
                         sending=(SendingPlan(count=40, timed=0.8, over_s=18.0),), head_start_s=12.0,
                         faults=("promotion", "promotion", "master_is_killed", "slave_is_away", "slow_down"),
                         broker_settings=_TIMERS, promises=Promises(timed_again=1)),
    "pops-calm": Story(about="consumers have messages for a time, and some fail or take long",
                       temper=Temper(fails=0.4, slow=0.2), groups=(GroupPlan(name="group", members=3, pops=True),),
                       promises=Promises(exact_counts=True)),
    "pops": Story(about="consumers have messages for a time, and brokers and consumers are killed with them in hand",
                  temper=Temper(fails=0.2), groups=(GroupPlan(name="group", members=3, pops=True),),
                  faults=(*_SERVERS, *_POP_MEMBERS)),
    "pops-orderly": Story(about="consumers have the messages of a queue one after the other", temper=Temper(fails=0.2),
                          groups=(GroupPlan(name="group", members=3, pops=True, orderly=True),),
                          sending=(SendingPlan(count=16, ordered=0.5),) * 2,
                          faults=("restart_broker", "kill_name_server", "part_hosts", *_POP_MEMBERS)),
    "pops-given-up": Story(about="consumers give up while the broker holds their polls, which counts for nothing",
                           temper=Temper(gives_up=0.7, fails=0.2), brokers=(1, 1),
                           sending=(SendingPlan(count=40, over_s=14.0),),
                           groups=(GroupPlan(name="group", members=3, pops=True),),
                           promises=Promises(exact_counts=True)),
    "pops-large": Story(about="what waits is more than an answer may have, and more than a client reads",
                        temper=Temper(fails=0.2), brokers=(1, 1), queues=12, groups_begin_s=4.0, rough_s=10.0,
                        sending=(SendingPlan(count=14, over_s=2.0, size=3 << 19, lanes=1, settings=_UNPACKED),),
                        groups=(GroupPlan(name="group", members=1, pops=True, at_once=32),),
                        promises=Promises(exact_counts=True, no_misses=True),
                        broker_settings={"log_file_size": 4 << 20}),
    "pops-power": Story(about="brokers lose their power, and consumers have messages for a time", syncs=True,
                        loses_power=True, temper=Temper(fails=0.2),
                        groups=(GroupPlan(name="group", members=3, pops=True),),
                        faults=("cut_power", "cut_power", "kill_broker", "restart_broker", *_POP_MEMBERS)),
    "pops-pair": Story(about="consumers have messages for a time, and a slave is promoted", temper=Temper(fails=0.2),
                       role=BrokerRole.SYNC_MASTER, slaves=(1, 1), syncs=True, loses_power=True, brokers=(1, 1),
                       sending=_OF_PAIRS, head_start_s=12.0,
                       groups=(GroupPlan(name="group", members=3, pops=True),),
                       faults=("promotion", "promotion", "master_is_killed", "slave_is_away", *_POP_MEMBERS),
                       promises=Promises(popped_again=1)),
    "pops-pair-orderly": Story(about="consumers have the messages of a queue one after the other, and a slave is "
                                     "promoted", temper=Temper(fails=0.2),
                               role=BrokerRole.SYNC_MASTER, slaves=(1, 1), syncs=True, loses_power=True,
                               brokers=(1, 1), head_start_s=12.0,
                               sending=(SendingPlan(count=30, over_s=18.0, ordered=0.5),) * 2,
                               groups=(GroupPlan(name="group", members=3, pops=True, orderly=True),),
                               faults=("promotion", "promotion", "master_is_killed", "slave_is_away", *_POP_MEMBERS),
                               promises=Promises(popped_again=1)),
    "pops-made-anew": Story(about="a topic is deleted and made anew while consumers have messages of it for a time",
                            brokers=(1, 1), temper=Temper(fails=0.2, slow=0.2), sending=_OF_PAIRS,
                            groups=(GroupPlan(name="group", members=3, pops=True),),
                            faults=("topics_made_anew", "topics_made_anew", "member_joins", "member_leaves",
                                    "member_is_killed"), faults_count=(1, 3)),
    "everything": Story(about="all of it at once", faults=(*_SERVERS, *_MEMBERS, "reset"), faults_count=(2, 7),
                        sending=(*_MIXED, SendingPlan(count=8, transactions=0.7)),
                        groups=(GroupPlan(name="group"),
                                GroupPlan(name="orderly", orderly=True, max_reconsume_times=16)),
                        temper=Temper(fails=0.15, always_fails=0.02, slow=0.1, suspends_ms=(-1, 50, 2000))),
}
