"""Parameters come as settings, and what contradicts itself is refused in a sentence."""

import re

import pytest

from regulus.errors import PipelineError
from regulus.pipeline.graph.ledger_parameters import LedgerParameters, read_parameters


def read(**given: str) -> LedgerParameters:
    values = {f"regulus.{name}": value for name, value in {"storePath": "/store", "topics": "orders", **given}.items()}
    return read_parameters(values.get)


def test_the_selection_takes_the_topics_and_the_groups_own_but_needs_none_of_them_to_exist() -> None:
    pattern = read(topics="orders, a.b", group="billing").selection
    assert pattern.startswith("%RETRY%")
    for topic in ("orders", "a.b", "%RETRY%billing", "%DLQ%billing", "SCHEDULE_TOPIC_XXXX"):
        assert re.fullmatch(pattern, topic)
    for topic in ("orders2", "axb", "%RETRY%billing2"):
        assert not re.fullmatch(pattern, topic)


def test_without_a_group_only_the_topics_are_read() -> None:
    parameters = read()
    assert parameters.selection == "orders"


@pytest.mark.parametrize(("bucket", "seconds"), [("1 second", 1), ("10 minutes", 600), ("2 hours", 7200)])
def test_the_width_of_a_step(bucket: str, seconds: int) -> None:
    assert read(bucket=bucket).bucket_seconds == seconds


@pytest.mark.parametrize(("given", "sentence"), [
    ({"storePath": ""}, "nothing says where the messages are"),
    ({"nameServer": "h:9876"}, "two places say where the messages are"),
    ({"topics": " , "}, "no topic is named"),
    ({"bucket": "1 fortnight"}, "bucket '1 fortnight' is no length of time"),
    ({"alertsTopic": "alerts"}, "no broker is known: give --alerts-namesrv"),
    ({"alertsTopic": "orders", "alertsNameServer": "h:9876"}, "cannot go to that topic"),
    ({"trace": "perhaps"}, "'trace'"),
])
def test_what_cannot_be_is_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(Exception, match=re.escape(sentence)) as caught:
        read(**given)
    assert type(caught.value).__module__ == "regulus.errors"
    assert isinstance(caught.value, PipelineError) or "trace" in sentence
