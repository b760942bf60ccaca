"""The example of docs/access.md runs as it stands there: settings, accounts, our client, and the rule that is said."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from regulus.broker.config import BrokerConfig
from regulus.cli.acl import acl
from regulus.cli.config_file import load
from regulus.errors import BrokerRefused

PAGE = (Path(__file__).parents[3] / "docs" / "access.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_settings_are_read(tmp_path):
    path = tmp_path / "broker.conf"
    path.write_text(block("properties"))
    (config,) = load(path, BrokerConfig()).configs
    assert (config.acl_enable, config.rocketmq_home) == (True, "/etc/regulus")


async def test_the_client_may_what_its_account_may(make_guarded_server):
    names: dict = {}
    exec(block("python"), names)
    server = make_guarded_server(block("yaml"))
    assert (await names["send_an_invoice"](server.name_server_address)).queue_offset == 0
    forbidding = make_guarded_server(block("yaml").replace("invoices=PUB", "invoices=SUB"))
    with pytest.raises(BrokerRefused, match="No default permission for topic:invoices"):
        await names["send_an_invoice"](forbidding.name_server_address)


def test_the_rule_is_said(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(block("yaml"))
    command = re.search(r"regulus acl (explain .*) --home", PAGE)
    assert command is not None
    result = CliRunner().invoke(acl, [*command[1].split(), "--home", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "topicPerms orders=SUB of billing" in result.output
