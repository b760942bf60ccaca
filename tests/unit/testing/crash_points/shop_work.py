"""What children of these tests do: each an order of its own, placed and applied without a broker."""

import time

from sqlalchemy import create_engine

from regulus.reliability.inbox import ApplyOnce
from tests.unit.reliability.deliveries import context, message
from tests.unit.reliability.shop import book, place_orders


def place(database, *orders):
    for order in orders:
        place_orders(create_engine(database), order)


def apply(database, order):
    ApplyOnce(create_engine(database), book)([message(order)], context())


def fail(database):
    raise ValueError("no stock")


def hang(database):
    time.sleep(600)
