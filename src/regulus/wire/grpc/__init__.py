"""The protobuf messages of RocketMQ 5 clients, and of gRPC's health checks and reflection.

The folder `proto` has unchanged copies of the definitions, all under Apache-2.0. Those of `apache.rocketmq.v2` come
from apache/rocketmq-apis at commit 3e60073c6dab3430feaec443824802e23ecda681, the others from grpc/grpc-proto at commit
99135b19189588fcc787acb84cff27991787473d. `python -m tests.grpc_descriptors` compiles them into `definitions.binpb`, and
writes the `.pyi` files, from which the type checker knows the fields. The package needs protobuf, which the extra
`grpc` installs.
"""
