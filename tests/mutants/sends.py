"""Faults of a producer's turns, times and retries, and of gathered, transactional and bulk sends."""

from tests.mutants import Mutant

_PRODUCER = "regulus/client/sending/producer.py"
_ATTEMPT = "regulus/client/sending/send_attempt.py"
_QUEUES = "regulus/client/sending/send_queues.py"
_ROUTES = "regulus/client/sending/publish_routes.py"
_TURNS_OF_SENDS = "regulus/client/sending/send_turns.py"
_TURNS = "regulus/client/connecting/limited_room.py"
_COURSE = "regulus/client/core/send_course.py"
_GATHERED = "regulus/client/sending/gathered_sends.py"
_NAME_SERVERS = "regulus/client/connecting/name_servers.py"
_CONNECTION = "regulus/transport/connection.py"
_CHECK = "regulus/client/core/message_check.py"
_INSTANCE = "regulus/client/connecting/client_instance.py"

_PRODUCER_TESTS = "tests/unit/client/sending/test_producer.py::"
_TURNS_TESTS = ("tests/unit/client/connecting/test_limited_room.py",)
_GATHERED_TESTS = ("tests/unit/client/sending/test_gathered_sends.py",)
_NAME_SERVERS_TESTS = ("tests/unit/client/connecting/test_name_servers.py",)
_CONNECTION_TESTS = ("tests/unit/transport/test_connection.py",)
_CHECK_TESTS = ("tests/unit/client/core/test_message_check.py",)
_INSTANCE_TESTS = ("tests/unit/client/connecting/test_client_instance.py",)
_THOUSANDS = _PRODUCER_TESTS + "test_thousands_of_sends_at_once_are_all_stored_once_however_long_it_takes"
_BACK_AGAIN = (_PRODUCER_TESTS + "test_a_refused_connection_is_tried_again_after_growing_pauses",
               _PRODUCER_TESTS + "test_when_the_broker_does_not_come_back_the_send_fails_within_its_time")

_GONE_TESTS = (
    _PRODUCER_TESTS + "test_a_broker_that_refuses_all_queues_of_its_route_fails_the_send_within_its_time",
    _PRODUCER_TESTS + "test_when_a_topic_has_fewer_queues_the_route_is_asked_for_and_no_send_fails")
_ALONE_TESTS = ("tests/unit/client/sending/test_producer.py", "tests/unit/client/core/test_send_course.py")

MUTANTS = [
    Mutant(name="a broker that is alone is sent a message again while it stands still",
           path="regulus/client/core/resend.py",
           old="if is_alone or self.java_budget", new="if self.java_budget", tests=_ALONE_TESTS),
    Mutant(name="each broker is taken for the only one", path="regulus/client/core/routes.py",
           old="len(names) == 1)", new="True)", tests=_ALONE_TESTS),
    Mutant(name="a silent broker that is alone is told as too little time", path="regulus/client/core/send_course.py",
           old="self.is_alone = is_alone and not self.budget.java_budget", new="pass", tests=_ALONE_TESTS),
    # --- turns -------------------------------------------------------------------------------------------------------
    Mutant(name="the clock of a send runs while it waits", path=_COURSE,
           old="        self.started_ms += ms\n", new="        pass\n", tests=(_THOUSANDS,)),
    Mutant(name="whoever comes overtakes the line", path=_TURNS,
           old="if self._line or (self.size", new="if (self.size", tests=_TURNS_TESTS),
    Mutant(name="a turn dies with whom it came to", path=_TURNS,
           old="            self.size -= size\n        self._admit()\n",
           new="            pass\n        self._admit()\n", tests=_TURNS_TESTS),
    Mutant(name="a line stands behind one that left it", path=_TURNS,
           old="            self.size -= size\n        self._admit()\n", new="            self.size -= size\n",
           tests=_TURNS_TESTS),
    Mutant(name="a cancelled send keeps its place", path=_TURNS_OF_SENDS,
           old="            if not has_turn:\n                places.give_back(weight)\n", new="            pass\n",
           tests=(_PRODUCER_TESTS + "test_a_send_that_is_cancelled_while_it_waits_for_bytes_gives_its_place_back",)),
    Mutant(name="a batch takes the place of one message", path=_PRODUCER,
           old="min(1 + len(message) // _MESSAGES_A_PLACE, _BATCH_PLACES_MAX)", new="1", tests=_GATHERED_TESTS),
    Mutant(name="a deadline begins with the turn", path=_PRODUCER,
           old="timeout_ms is not None or config.java_budget", new="config.java_budget",
           tests=(_PRODUCER_TESTS + "test_an_overall_deadline_covers_the_wait_for_a_turn",)),
    Mutant(name="a turn at a dead broker is waited out there", path=_QUEUES,
           old="return broker_name in resting and any(", new="return False and any(",
           tests=(_PRODUCER_TESTS + "test_what_waits_at_a_dead_broker_goes_to_another",)),
    # --- refused connections, time-outs ------------------------------------------------------------------------------
    Mutant(name="a refused connection is an attempt", path=_PRODUCER,
           old="            course.was_refused()\n            self._queues",
           new="            self._queues", tests=_BACK_AGAIN),
    Mutant(name="the rests of a broker that refuses do not grow", path="regulus/client/core/resend.py",
           old="min(rest.step_ms * REFUSED_MULTIPLIER, REFUSED_MAX_MS)", new="rest.step_ms", tests=_BACK_AGAIN),
    Mutant(name="what nobody read has timed out", path=_CONNECTION,
           old="_LATE_MAX = 0.05 ", new="_LATE_MAX = 1e9 ", tests=_CONNECTION_TESTS),
    Mutant(name="a retry of the async rule goes elsewhere", path=_QUEUES,
           old="if last_broker is not None and self._config.retry_as_async_send:", new="if False:",
           tests=(_PRODUCER_TESTS + "test_as_async_sends_retries_stay_with_the_broker_and_have_a_count_of_their_own",)),
    # --- name servers ------------------------------------------------------------------------------------------------
    Mutant(name="requests share their place in the row", path=_NAME_SERVERS,
           old="place = (first + attempt - 1) % budget.attempts",
           new="place = self._current = (self._current + (attempt > 1)) % budget.attempts", tests=_NAME_SERVERS_TESTS),
    Mutant(name="a silent name server takes all the time", path=_NAME_SERVERS,
           old="budget.attempt_timeout_ms(attempt, left_ms)", new="timeout_ms", tests=_NAME_SERVERS_TESTS),
    Mutant(name="one name server says that a topic is nowhere", path=_NAME_SERVERS,
           old="            unknown = unknown or answer\n", new="            return answer\n",
           tests=_NAME_SERVERS_TESTS),
    Mutant(name="a doubt asks the same name server", path=_NAME_SERVERS,
           old="self._current if doubts == 0 else doubts", new="self._current", tests=_NAME_SERVERS_TESTS),
    Mutant(name="without a broker a send gives up", path=_ROUTES,
           old="if not self._config.retry_refused_connection or", new="if True or",
           tests=(_PRODUCER_TESTS + "test_where_no_broker_is_known_a_first_send_waits_for_one",)),
    Mutant(name="the end of a send's time is not used", path="regulus/client/core/resend.py",
           old="return left_ms - REFUSED_LAST_MS if left_ms > REFUSED_LAST_MS else None", new="return None",
           tests=_BACK_AGAIN),
    # --- gathered sends ----------------------------------------------------------------------------------------------
    Mutant(name="one alone waits for others", path=_GATHERED,
           old="if lane.under_way and self._delay_s", new="if self._delay_s", tests=_GATHERED_TESTS),
    Mutant(name="an answer lets nothing go", path=_GATHERED,
           old="        if lane.waiting and self._delay_s:\n            self._leave(lane)\n        elif",
           new="        if", tests=_GATHERED_TESTS),
    Mutant(name="neighbours suffer for one that breaks a rule", path=_PRODUCER,
           old="            if len(messages) > 1 and error.code == ResponseCode.MESSAGE_ILLEGAL:\n",
           new="            if False:\n",
           tests=_GATHERED_TESTS),
    # --- what is taken back ------------------------------------------------------------------------------------------
    Mutant(name="a recall handle of another topic is followed", path="regulus/client/sending/recalls.py",
           old="if handle.topic != topic:", new="if False:", tests=("tests/unit/client/sending/test_recalls.py",)),
    Mutant(name="a recall without an answer that can be read is a fault of ours",
           path="regulus/client/sending/recalls.py",
           old="    except HeaderError as error:\n", new="    except KeyError as error:\n",
           tests=("tests/unit/client/sending/test_recalls.py",)),
    Mutant(name="a recall handle's time is any digit there is", path="regulus/wire/recall_handle.py",
           old="text.isascii() and text.isdigit()", new="text.isdigit()",
           tests=("tests/unit/wire/test_recall_handle.py",)),
    # --- what is stored, and as what ---------------------------------------------------------------------------------
    Mutant(name="what was stored is told as failed", path=_PRODUCER,
           old="if course.stored is not None:\n                            return",
           new="if False:\n                            return",
           tests=(_PRODUCER_TESTS + "test_not_fully_stored_is_retried_when_asked_for_and_kept_when_that_fails",)),
    Mutant(name="a half waits at a delay level", path="regulus/client/sending/transaction_producer.py",
           old="        properties.pop(names.DELAY_TIME_LEVEL, None)\n", new="",
           tests=("tests/unit/client/sending/test_transaction_producer.py",)),
    Mutant(name="a lane goes on behind a send that failed", path="regulus/client/sending/bulk_sender.py",
           old="            await before.begun.wait()\n            self._raise_failure()\n",
           new="            await before.begun.wait()\n", tests=("tests/unit/client/sending/test_bulk_sender.py",)),
    Mutant(name="a clock that is set back makes keys of no month", path="regulus/client/unique_key.py",
           old=" or now_ms < self._month_start_ms", new="", tests=("tests/unit/client/test_unique_key.py",)),
    # --- each for itself ---------------------------------------------------------------------------------------------
    Mutant(name="a frame that no peer reads is written", path=_CONNECTION,
           old="if size > _FRAME_SIZE_MAX or header_size > _HEADER_SIZE_MAX:", new="if False:",
           tests=_CONNECTION_TESTS),
    Mutant(name="what could not be written leaves requests waiting", path=_CONNECTION,
           old="                    self.abort()\n", new="                    pass\n",
           tests=_CONNECTION_TESTS),
    Mutant(name="a message that is too large is a failed connection", path=_ATTEMPT,
           old="        raise\n    except RequestTooLarge as",
           new="        raise\n    except ImportError as",
           tests=(_PRODUCER_TESTS + "test_a_message_that_fits_no_frame_fails_alone_and_is_not_sent",)),
    Mutant(name="a success that cannot be read is sent again", path=_PRODUCER,
           old="isinstance(error, AnswerUnreadable):\n            raise course.failed_for_good(now) from error\n",
           new="isinstance(error, AnswerUnreadable):\n            return True\n",
           tests=(_PRODUCER_TESTS + "test_a_success_that_cannot_be_read_is_a_failed_send_and_not_repeated",)),
    Mutant(name="a property sets others", path=_CHECK, old=" or PROPERTY_SEPARATOR in text", new="",
           tests=_CHECK_TESTS),
    Mutant(name="lanes count bodies", path=_GATHERED, old="        size = content_size(message)\n",
           new="        size = len(message.body)\n", tests=_GATHERED_TESTS),
    Mutant(name="small messages fill more than a broker takes", path=_GATHERED,
           old="size + MESSAGE_OVERHEAD * (len(lane.waiting) + 1)", new="size", tests=_GATHERED_TESTS),
    Mutant(name="one bad message is the failure of those that are stored", path=_PRODUCER,
           old="return_exceptions=True)\n        return result", new="return_exceptions=False)\n        return result",
           tests=_GATHERED_TESTS),
    # --- shared with others ------------------------------------------------------------------------------------------
    Mutant(name="shutdown cancels those who wait for shared work", path="regulus/client/tasks.py",
           old="            if is_being_cancelled(error) or not task.cancelled():\n", new="            if True:\n",
           tests=("tests/unit/client/test_tasks.py",)),
    Mutant(name="an instance is given back twice", path=_INSTANCE,
           old="if instance.is_left_behind or (member is not None and member not in instance.members):",
           new="if instance.is_left_behind:", tests=_INSTANCE_TESTS),
    Mutant(name="a cancelled shutdown keeps the instance", path=_PRODUCER,
           old="        finally:\n            await self._ending.over()",
           new="        except ClientError:\n            raise\n        else:\n            await self._ending.over()",
           tests=(_PRODUCER_TESTS + "test_a_shutdown_that_is_cancelled_gives_the_instance_back",)),
    Mutant(name="a route takes all memory", path="regulus/client/core/routes.py",
           old="max(0, count) for _, count", new="count for _, count",
           tests=("tests/unit/client/core/test_routes.py",)),
    Mutant(name="routes are kept for ever", path=_INSTANCE,
           old="len(self._routes) >= self._routes_max", new="False", tests=_INSTANCE_TESTS),
    Mutant(name="a request that is asked again has all its time again", path="regulus/client/connecting/connections.py",
           old="self._get_within(address, _left_ms(timeout_ms, begun))", new="self._get_within(address, timeout_ms)",
           tests=("tests/unit/client/connecting/test_connections.py",)),
    Mutant(name="what is called in the shared loop ends it", path="regulus/client/shared_loop.py",
           old="        except (SystemExit, KeyboardInterrupt) as error:", new="        except ImportError as error:",
           tests=("tests/unit/client/test_shared_loop.py",)),
    Mutant(name="an answer is unpacked whatever room there is", path="regulus/client/core/received.py",
           old="            if room <= 0:", new="            if False:",
           tests=("tests/unit/client/core/test_received.py", "tests/unit/client/consuming/test_queue_puller.py")),
    # --- queues that are gone ----------------------------------------------------------------------------------------
    Mutant(name="a send to a queue that is gone fails", path=_PRODUCER,
           old="            course.was_refused()\n            return True\n", new="            return False\n",
           tests=_GONE_TESTS),
    Mutant(name="the route of a queue that is gone is not asked for", path=_PRODUCER,
           old="                        await self._routes.without(queue, course)\n",
           new="                        pass\n", tests=_GONE_TESTS),
    Mutant(name="where name servers hear late of fewer queues they are asked without a pause", path=_ROUTES,
           old="        if route is None or queue in route.publish_queues:\n", new="        if False:\n",
           tests=_GONE_TESTS),
    Mutant(name="our proxy sends to a queue that is gone for five seconds", path="regulus/proxy/calls.py",
           old="            self._catalog.doubt_route(queue.topic)\n", new="",
           tests=("tests/unit/client/test_fewer_queues.py",)),
    Mutant(name="a name server that is not up yet fails a send at once", path=_ROUTES,
           old="            except (NoBroker, NoNameServer) as error:\n", new="            except NoBroker as error:\n",
           tests=(_PRODUCER_TESTS + "test_a_name_server_that_is_not_up_yet_is_waited_for",)),
    Mutant(name="a host that does not exist is waited for", path=_ROUTES,
           old=" or isinstance(error, WrongNameServer)", new="",
           tests=(_PRODUCER_TESTS + "test_a_name_server_that_does_not_come_is_one_error_when_the_time_is_over",)),
    Mutant(name="a consumer does not wait for a name server", path="regulus/client/consuming/consumer_start.py",
           old="steady_ms() + pause_ms > until_ms", new="True",
           tests=("tests/unit/client/consuming/test_consumer_start.py",)),
]
