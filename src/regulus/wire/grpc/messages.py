"""The messages and the service of `apache.rocketmq.v2`; `messages.pyi` has their fields and methods.

`Duration` and `Timestamp` are those of `google.protobuf` in this package's own descriptor pool.
"""

from regulus.wire.grpc import definitions


def __getattr__(name: str) -> type:
    """Build a class when it is first used. Raises AttributeError for a name that the definitions do not have."""
    package = "google.protobuf" if name in ("Duration", "Timestamp") else "apache.rocketmq.v2"
    made = globals()[name] = definitions.named(package, name)
    return made
