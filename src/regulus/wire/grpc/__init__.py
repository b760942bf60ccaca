"""The messages of RocketMQ 5 clients: `apache.rocketmq.v2`, as protobuf.

`proto` has the definitions of apache/rocketmq-apis at commit 3e60073c6dab3430feaec443824802e23ecda681 (Apache-2.0),
unchanged, those of health checks and reflection of grpc/grpc-proto at commit 99135b19189588fcc787acb84cff27991787473d
(Apache-2.0). `python -m tests.grpc_descriptors` compiles them into `definitions.binpb` and writes the stubs of the
modules of messages, by which the type checker knows their fields. Needs protobuf, which comes with the extra `grpc`.
"""
