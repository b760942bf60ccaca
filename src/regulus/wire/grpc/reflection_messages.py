"""The messages and the service of `grpc.reflection.v1`; `reflection_messages.pyi` has their fields and methods.

The messages of `v1alpha` have the same fields, so those of `v1` can read and write them.
"""

from regulus.wire.grpc import definitions


def __getattr__(name: str) -> type:
    """Build a class when it is first used. Raises AttributeError for a name that the definitions do not have."""
    made = globals()[name] = definitions.named("grpc.reflection.v1", name)
    return made
