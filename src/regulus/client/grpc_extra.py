"""Checks that the packages for `grpc://` addresses are installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from regulus.errors import MissingExtra


@contextmanager
def imports_grpc() -> Iterator[None]:
    """A context manager for the import of a module that needs grpcio. Raises MissingExtra when it is not installed."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra("grpc:// needs grpcio and protobuf, which are not installed: "
                           "pip install 'regulus-mq[grpc]'") from error
