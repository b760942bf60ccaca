"""The messages and the service of `grpc.health.v1`; `health_messages.pyi` has their fields and methods."""

from regulus.wire.grpc import definitions


def __getattr__(name: str) -> type:
    """Build a class when it is first used. Raises AttributeError for a name that the definitions do not have."""
    made = globals()[name] = definitions.named("grpc.health.v1", name)
    return made
