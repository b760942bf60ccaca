"""`regulus cluster`: look at brokers."""

from collections.abc import Mapping

import click

from regulus.broker.handlers.broker_runtime_info import HEALTHY
from regulus.cli.connection import Address, with_admin
from regulus.cli.output import print_facts, print_json, print_rows, with_output
from regulus.client.administration.admin import Admin
from regulus.client.core.routes import MASTER_ID
from regulus.errors import ClientError


@click.group()
def cluster() -> None:
    """Look at brokers."""


@cluster.command("list")
@with_output
@with_admin
async def list_brokers(admin: Admin, json_output: bool) -> None:
    """List all brokers with their rates. One that cannot be asked has dashes, and the command fails with its reason.

    Of a slave, `behind` is how many bytes of its master's log it does not have yet."""
    info = await admin.cluster_info()
    names = ("cluster", "broker", "id", "address", "role", "behind", "version", "in_tps", "out_tps", "disk",
             "health")
    rows: list[tuple[object, ...]] = []
    silent: ClientError | None = None
    for cluster_name, broker_names in sorted(info.cluster_addr_table.items()):
        for broker_name in sorted(broker_names):
            found, error = await _group(admin, info.broker_addr_table[broker_name].broker_addrs)
            rows += [(cluster_name, broker_name, *row) for row in found]
            silent = silent or error
    print_rows(names, rows, json_output=json_output)
    if silent is not None:
        raise silent


async def _group(admin: Admin, addresses: Mapping[int, str]) -> tuple[list[tuple[object, ...]], ClientError | None]:
    """The rows of the brokers of one name, and why one of them could not be asked."""
    rows: list[tuple[object, ...]] = []
    silent: ClientError | None = None
    master_end: int | None = None
    for number, address in sorted(addresses.items()):
        try:
            facts = await admin.broker_runtime_info(address)
        except ClientError as error:
            silent = silent or error
            rows.append((number, address, *["-"] * 7))
            continue
        end = _number(facts.get("commitLogMaxOffset"))
        if number == MASTER_ID:
            master_end = end
        behind = _behind(master_end, end) if number != MASTER_ID else "-"
        rows.append((number, address, _role(facts, number), behind, *_rates(facts), _health(facts)))
    return rows, silent


def _role(facts: Mapping[str, str], number: int) -> str:
    """RocketMQ's brokers do not tell theirs."""
    return facts.get("brokerRole") or ("SLAVE" if number != MASTER_ID else "MASTER")


def _health(facts: Mapping[str, str]) -> str:
    """RocketMQ's brokers do not tell theirs; what is wrong is in `cluster status`."""
    told = facts.get("health", "-")
    return told if told in ("-", HEALTHY) else "ill"


def _behind(master_end: int | None, end: int | None) -> str:
    """The master was asked first: what it got since does not count."""
    return "-" if master_end is None or end is None else str(max(0, master_end - end))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _rates(facts: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Version, messages in and out a second over the last 10 s, how full the disk is."""
    # 4.9 spells the second one with a single r.
    rates = [facts.get("putTps", ""), facts.get("getTransferredTps") or facts.get("getTransferedTps", "")]
    first = [rate.split(" ")[0] or "-" for rate in rates]
    return facts.get("brokerVersionDesc", "-"), first[0], first[1], facts.get("commitLogDiskRatio", "-")


@cluster.command()
@click.argument("broker_address", type=Address(), metavar="HOST:PORT")
@click.option("--config", "show_config", is_flag=True, help="The broker's settings instead of its state.")
@with_output
@with_admin
async def status(admin: Admin, broker_address: str, show_config: bool, json_output: bool) -> None:
    """Show all that the broker at HOST:PORT says about itself."""
    facts = await (admin.broker_config(broker_address) if show_config else admin.broker_runtime_info(broker_address))
    if json_output:
        print_json(facts)
        return
    print_facts(sorted(facts.items()))
