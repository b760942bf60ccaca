"""`regulus cluster`: look at brokers."""

import click

from regulus.cli.connection import Address, with_admin
from regulus.cli.output import print_facts, print_json, print_rows, with_output
from regulus.client.admin import Admin
from regulus.errors import ClientError


@click.group()
def cluster() -> None:
    """Look at brokers."""


@cluster.command("list")
@with_output
@with_admin
async def list_brokers(admin: Admin, json_output: bool) -> None:
    """List all brokers with their rates. One that cannot be asked has dashes, and the command fails with its reason."""
    info = await admin.cluster_info()
    names = ("cluster", "broker", "id", "address", "version", "in_tps", "out_tps", "disk")
    rows: list[tuple[object, ...]] = []
    silent: ClientError | None = None
    for cluster_name, broker_names in sorted(info.cluster_addr_table.items()):
        for broker_name in sorted(broker_names):
            for number, address in sorted(info.broker_addr_table[broker_name].broker_addrs.items()):
                try:
                    rates = await _rates(admin, address)
                except ClientError as error:
                    silent, rates = silent or error, ("-", "-", "-", "-")
                rows.append((cluster_name, broker_name, number, address, *rates))
    print_rows(names, rows, json_output=json_output)
    if silent is not None:
        raise silent


async def _rates(admin: Admin, address: str) -> tuple[str, str, str, str]:
    """Version, messages in and out a second over the last 10 s, how full the disk is."""
    facts = await admin.broker_runtime_info(address)
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
