"""The messages and the service of `grpc.reflection.v1`; `reflection_messages.pyi` has their fields and methods.

Those of `v1alpha` have the same fields, so that either reads what the other writes.
"""

from regulus.wire.grpc import definitions


def __getattr__(name: str) -> type:
    """Raises AttributeError for what the definitions do not have."""
    made = globals()[name] = definitions.named("grpc.reflection.v1", name)
    return made
