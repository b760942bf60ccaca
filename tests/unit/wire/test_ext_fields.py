from dataclasses import dataclass

import pytest

from regulus.errors import HeaderError
from regulus.model.java_numbers import INT_MAX, LONG_MAX
from regulus.wire.ext_fields import Header, Long, camel_case, spelled
from regulus.wire.remoting_command import RemotingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(Header):
    consumer_group: str
    queue_id: int
    commit_offset: Long
    is_force: bool = True
    committed: bool | None = None
    min_offset: Long | None = None
    broker_name: str | None = spelled("bname", default=None)
    clean: bool = spelled("cleanOffset", "removeOffset", default=False)


def example(**ext: str) -> Example:
    return Example.decode(RemotingCommand(0, {"consumerGroup": "G", "queueId": "1", "commitOffset": "2", **ext}))


def test_names_travel_in_camel_case() -> None:
    assert camel_case("consumer_group") == "consumerGroup"
    assert camel_case("topic") == "topic"


def test_fields_find_their_types() -> None:
    header = example(isForce="false", committed="TRUE", minOffset="-9223372036854775808", bname="b", other="x")
    assert header == Example(consumer_group="G", queue_id=1, commit_offset=2, is_force=False, committed=True,
                             min_offset=-LONG_MAX - 1, broker_name="b")


def test_ext_leaves_out_none_and_spells_booleans() -> None:
    assert example(bname="b").ext() == {"consumerGroup": "G", "queueId": "1", "commitOffset": "2", "isForce": "true",
                                        "bname": "b", "cleanOffset": "false", "removeOffset": "false"}
    assert Example.from_ext(example().ext()) == example()


def test_anything_but_true_is_false_as_in_java() -> None:
    assert not example(isForce="1").is_force
    assert not example(isForce="").is_force


@pytest.mark.parametrize("name", ["cleanOffset", "removeOffset"])
def test_a_field_of_two_names_is_read_under_either(name: str) -> None:
    assert example(**{name: "true"}).clean


def test_a_missing_field_is_named() -> None:
    with pytest.raises(HeaderError, match="Example lacks the field queueId"):
        Example.from_ext({"consumerGroup": "G", "commitOffset": "1"})


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "0x1", "1.0", "١", "--1", "+", "-", "9" * 5000])
def test_a_number_that_java_would_not_parse_is_refused(text: str) -> None:
    for name in ("queueId", "commitOffset"):
        with pytest.raises(HeaderError, match=f"Example.{name}"):
            example(**{name: text})


def test_numbers_have_java_s_bounds() -> None:
    assert example(queueId=str(INT_MAX)).queue_id == INT_MAX
    assert example(queueId=str(-INT_MAX - 1)).queue_id == -INT_MAX - 1
    assert example(queueId="+7").queue_id == 7
    for name, beyond in (("queueId", INT_MAX + 1), ("commitOffset", LONG_MAX + 1), ("commitOffset", -LONG_MAX - 2)):
        with pytest.raises(HeaderError, match="outside"):
            example(**{name: str(beyond)})
