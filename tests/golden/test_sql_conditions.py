"""What RocketMQ's own evaluator says of each condition and message, ours says, too."""

import json
from pathlib import Path

import pytest
from tests.sql_conditions import MESSAGES, verdicts

FIRST, *CONDITIONS = map(json.loads, Path(__file__).with_name("sql-5.3.3.jsonl").read_text("utf-8").splitlines())


def test_the_verdicts_are_of_these_messages_and_enough_of_each():
    assert FIRST["messages"] == MESSAGES
    refused = sum(line["verdicts"] == "p" for line in CONDITIONS)
    taken = sum("1" in line["verdicts"] for line in CONDITIONS)
    assert len(CONDITIONS) - refused >= 500
    assert refused >= 100
    assert taken >= 200


@pytest.mark.parametrize("line", CONDITIONS, ids=lambda line: line["condition"][:60])
def test_a_condition_says_what_rocketmq_says(line):
    # An error within an evaluation is no match, for both.
    assert verdicts(line["condition"]) == line["verdicts"].replace("e", "0")
