"""Every recorded frame decodes, and encodes to itself; so do the typed headers and bodies in it."""

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regulus.model.topics import DataVersion, SubscriptionGroupConfig
from regulus.wire import bodies, fastjson, headers, json_fields, message_batch
from regulus.wire.codes import RequestCode as Code
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

FRAMES = sorted((Path(__file__).parent / "frames").glob("*.jsonl"))

# Their JSON printers order keys and write extra blanks in their own way; we keep what they say, not how.
OTHER_PRINTERS = {"client-ali-ons", "client-python-rocketmq"}

# Fields that hooks of the clients add to any request.
HOOK_FIELDS = {"AccessKey", "Signature", "SecurityToken", "OnsChannel", "ReqT", "bname"}


class Typed(NamedTuple):
    request: Any = None
    response: Any = None
    request_body: Any = None
    response_body: Any = None


SEND = Typed(headers.SendMessageRequest, headers.SendMessageResponse)
TYPED = {
    Code.SEND_MESSAGE: SEND,
    Code.SEND_MESSAGE_V2: SEND,
    Code.SEND_BATCH_MESSAGE: SEND,
    Code.SEND_REPLY_MESSAGE_V2: SEND,
    Code.PULL_MESSAGE: Typed(headers.PullMessageRequest, headers.PullMessageResponse),
    Code.QUERY_MESSAGE: Typed(headers.QueryMessageRequest, headers.QueryMessageResponse),
    Code.QUERY_CONSUMER_OFFSET: Typed(headers.QueryConsumerOffsetRequest, headers.QueryConsumerOffsetResponse),
    Code.UPDATE_CONSUMER_OFFSET: Typed(headers.UpdateConsumerOffsetRequest),
    Code.UPDATE_AND_CREATE_TOPIC: Typed(headers.UpdateAndCreateTopicRequest),
    Code.GET_ALL_TOPIC_CONFIG: Typed(headers.GetAllTopicConfigRequest, headers.GetAllTopicConfigResponse, None,
                                     bodies.TopicConfigSerializeWrapper),
    Code.GET_BROKER_CONFIG: Typed(None, headers.GetBrokerConfigResponse),
    Code.GET_BROKER_RUNTIME_INFO: Typed(response_body=bodies.KVTable),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: Typed(headers.SearchOffsetByTimestampRequest,
                                           headers.SearchOffsetByTimestampResponse),
    Code.GET_MAX_OFFSET: Typed(headers.GetMaxOffsetRequest, headers.GetMaxOffsetResponse),
    Code.GET_MIN_OFFSET: Typed(headers.GetMinOffsetRequest, headers.GetMinOffsetResponse),
    Code.GET_EARLIEST_MSG_STORETIME: Typed(headers.GetEarliestMsgStoretimeRequest,
                                           headers.GetEarliestMsgStoretimeResponse),
    Code.VIEW_MESSAGE_BY_ID: Typed(headers.ViewMessageByIdRequest),
    Code.HEART_BEAT: Typed(None, headers.HeartBeatResponse, bodies.HeartbeatData),
    Code.UNREGISTER_CLIENT: Typed(headers.UnregisterClientRequest),
    Code.CONSUMER_SEND_MSG_BACK: Typed(headers.ConsumerSendMsgBackRequest),
    Code.END_TRANSACTION: Typed(headers.EndTransactionRequest),
    Code.GET_CONSUMER_LIST_BY_GROUP: Typed(headers.GetConsumerListByGroupRequest, None, None,
                                           bodies.GetConsumerListByGroupResponseBody),
    Code.CHECK_TRANSACTION_STATE: Typed(headers.CheckTransactionStateRequest),
    Code.NOTIFY_CONSUMER_IDS_CHANGED: Typed(headers.NotifyConsumerIdsChangedRequest),
    Code.LOCK_BATCH_MQ: Typed(None, None, bodies.LockBatchRequestBody, bodies.LockBatchResponseBody),
    Code.UNLOCK_BATCH_MQ: Typed(None, None, bodies.UnlockBatchRequestBody),
    Code.GET_ALL_CONSUMER_OFFSET: Typed(response_body=bodies.ConsumerOffsetSerializeWrapper),
    Code.GET_ALL_DELAY_OFFSET: Typed(response_body=bodies.DelayOffsetSerializeWrapper),
    Code.CHECK_CLIENT_CONFIG: Typed(request_body=bodies.CheckClientConfigBody),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: Typed(headers.UpdateAndCreateAclConfigRequest),
    Code.DELETE_ACL_CONFIG: Typed(headers.DeleteAclConfigRequest),
    Code.GET_BROKER_CLUSTER_ACL_INFO: Typed(None, headers.GetBrokerClusterAclInfoResponse),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Typed(headers.UpdateGlobalWhiteAddrsConfigRequest),
    Code.PUT_KV_CONFIG: Typed(headers.PutKvConfigRequest),
    Code.GET_KV_CONFIG: Typed(headers.GetKvConfigRequest, headers.GetKvConfigResponse),
    Code.DELETE_KV_CONFIG: Typed(headers.DeleteKvConfigRequest),
    Code.REGISTER_BROKER: Typed(headers.RegisterBrokerRequest, headers.RegisterBrokerResponse,
                                bodies.RegisterBrokerBody, bodies.KVTable),
    Code.UNREGISTER_BROKER: Typed(headers.UnregisterBrokerRequest),
    Code.GET_ROUTEINFO_BY_TOPIC: Typed(headers.GetRouteinfoByTopicRequest, None, None, bodies.TopicRouteData),
    Code.GET_BROKER_CLUSTER_INFO: Typed(response_body=bodies.ClusterInfo),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Typed(request_body=SubscriptionGroupConfig),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Typed(headers.GetAllSubscriptiongroupConfigRequest,
                                                 headers.GetAllSubscriptiongroupConfigResponse, None,
                                                 bodies.SubscriptionGroupWrapper),
    Code.GET_TOPIC_STATS_INFO: Typed(headers.GetTopicStatsInfoRequest, None, None, bodies.TopicStatsTable),
    Code.GET_CONSUMER_CONNECTION_LIST: Typed(headers.GetConsumerConnectionListRequest, None, None,
                                             bodies.ConsumerConnection),
    Code.GET_PRODUCER_CONNECTION_LIST: Typed(headers.GetProducerConnectionListRequest, None, None,
                                             bodies.ProducerConnection),
    Code.WIPE_WRITE_PERM_OF_BROKER: Typed(headers.WipeWritePermOfBrokerRequest, headers.WipeWritePermOfBrokerResponse),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Typed(response_body=bodies.TopicList),
    Code.DELETE_SUBSCRIPTIONGROUP: Typed(headers.DeleteSubscriptiongroupRequest),
    Code.GET_CONSUME_STATS: Typed(headers.GetConsumeStatsRequest, None, None, bodies.ConsumeStats),
    Code.DELETE_TOPIC_IN_BROKER: Typed(headers.DeleteTopicInBrokerRequest),
    Code.DELETE_TOPIC_IN_NAMESRV: Typed(headers.DeleteTopicInNamesrvRequest),
    Code.RESET_CONSUMER_CLIENT_OFFSET: Typed(headers.ResetConsumerClientOffsetRequest, None, bodies.ResetOffsetBody),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: Typed(headers.GetConsumerStatusFromClientRequest, None, None,
                                                bodies.GetConsumerStatusBody),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Typed(headers.InvokeBrokerToResetOffsetRequest, None, None,
                                              bodies.ResetOffsetBody),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Typed(headers.InvokeBrokerToGetConsumerStatusRequest, None, None,
                                                     bodies.GetConsumerStatusBody),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Typed(headers.QueryTopicConsumeByWhoRequest, None, None, bodies.GroupList),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Typed(response_body=bodies.TopicList),
    Code.GET_CONSUMER_RUNNING_INFO: Typed(headers.GetConsumerRunningInfoRequest, None, None,
                                          bodies.ConsumerRunningInfo),
    Code.CONSUME_MESSAGE_DIRECTLY: Typed(headers.ConsumeMessageDirectlyRequest, None, None,
                                         bodies.ConsumeMessageDirectlyResult),
    Code.VIEW_BROKER_STATS_DATA: Typed(headers.ViewBrokerStatsDataRequest, None, None, bodies.BrokerStatsData),
    Code.GET_BROKER_CONSUME_STATS: Typed(headers.GetBrokerConsumeStatsRequest, None, None, bodies.ConsumeStatsList),
    Code.QUERY_CONSUME_QUEUE: Typed(headers.QueryConsumeQueueRequest, None, None,
                                    bodies.QueryConsumeQueueResponseBody),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: Typed(headers.PushReplyMessageToClientRequest),
    Code.ADD_WRITE_PERM_OF_BROKER: Typed(headers.AddWritePermOfBrokerRequest, headers.AddWritePermOfBrokerResponse),
    Code.GET_ALL_PRODUCER_INFO: Typed(response_body=bodies.ProducerTableInfo),
}

# Nothing to decode but the frame: no ext fields of their own, and no body or a text.
UNTYPED = {Code.UPDATE_BROKER_CONFIG, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC,
           Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.DELETE_EXPIRED_COMMITLOG}

# 5.x has these where 4.9 has nothing, so our answer holds their defaults beside what was recorded.
ADDED_BY_5X = {"attributes", "stateVersion", "groupSysFlag", "consumeMessageOrderly", "consumeTimeoutMinute",
               "classFilterMode", "unitMode", "topicSysFlag"}


class Frame(NamedTuple):
    line: int
    raw: bytes
    recorded: dict[str, Any]


@cache
def frames_of(path: Path) -> list[Frame]:
    frames = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        recorded = json.loads(line)
        frames.append(Frame(number, base64.b64decode(recorded["frame_base64"]), recorded))
    return frames


def decoded(raw: bytes) -> RemotingCommand:
    reader = FrameReader()
    reader.feed(raw)
    (command,) = reader.frames()
    return command


def exchanges(path: Path) -> Iterator[tuple[int, RemotingCommand]]:
    """Each command with the code of the request that it is or answers."""
    asked: dict[tuple[int, str, int], int] = {}
    for frame in frames_of(path):
        command = decoded(frame.raw)
        side = frame.recorded["dir"]
        if command.is_response:
            asker = "s2c" if side == "c2s" else "c2s"
            yield asked[frame.recorded["conn"], asker, command.opaque], command
        else:
            asked[frame.recorded["conn"], side, command.opaque] = command.code
            yield command.code, command


def by_scenario(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", FRAMES, ids=by_scenario)
def test_a_frame_says_what_was_recorded(path: Path) -> None:
    for frame in frames_of(path):
        command = decoded(frame.raw)
        header = frame.recorded["header"]
        assert (command.code, command.opaque, command.flag) == (header["code"], header["opaque"], header["flag"])
        assert command.version == header["version"]
        assert command.remark == header.get("remark")
        ext = header.get("extFields") or {}
        assert command.ext == {name: value if isinstance(value, str) else json.dumps(value)
                               for name, value in ext.items()}
        assert len(command.body) == frame.recorded["body_length"]
        assert frame.raw.endswith(command.body)


@pytest.mark.parametrize("path", FRAMES, ids=by_scenario)
def test_a_frame_encodes_to_itself(path: Path) -> None:
    for frame in frames_of(path):
        again = decoded(frame.raw)
        if path.stem not in OTHER_PRINTERS:
            assert again.encode() == frame.raw, f"line {frame.line}"
        # Parsed ext fields keep their order, so the frame is the same after someone looked at them.
        if again.ext and path.stem not in OTHER_PRINTERS:
            assert again.encode() == frame.raw, f"line {frame.line}"
        same = decoded(again.encode())
        assert (same.code, same.ext, same.body, same.remark) == (again.code, again.ext, again.body, again.remark)


@pytest.mark.parametrize("scenario", ["binary-serialize", "client-ali-ons", "client-python-rocketmq", "producer-sync"])
@pytest.mark.parametrize("piece_size", [1, 7, 1000])
def test_a_connection_is_read_in_any_pieces(scenario: str, piece_size: int) -> None:
    frames = frames_of(Path(__file__).parent / "frames" / f"{scenario}.jsonl")[:30]
    stream = b"".join([frame.raw for frame in frames])
    reader = FrameReader()
    commands = []
    for start in range(0, len(stream), piece_size):
        reader.feed(stream[start:start + piece_size])
        commands += reader.frames()
    assert reader.buffered == 0
    whole = [decoded(frame.raw) for frame in frames]
    assert [(each.opaque, each.ext, each.body) for each in commands] == \
        [(each.opaque, each.ext, each.body) for each in whole]


@pytest.mark.parametrize("path", FRAMES, ids=by_scenario)
def test_typed_headers_give_back_their_ext_fields(path: Path) -> None:
    for code, command in exchanges(path):
        header = TYPED.get(Code(code), Typed())[1 if command.is_response else 0]
        own = {name: value for name, value in command.ext.items() if name not in HOOK_FIELDS}
        if header is None:
            assert not own
            continue
        if command.is_response and command.code != 0 and not own:
            continue  # An error has a remark only.
        typed = header.decode(command)
        again = typed.ext_for(code) if header is headers.SendMessageRequest else typed.ext()
        again = {name: value for name, value in again.items() if name not in HOOK_FIELDS}
        if header in (headers.SendMessageRequest, headers.PushReplyMessageToClientRequest):
            for name in {"i", "properties"} & own.keys():  # 4.9 leaves out the last separator.
                own[name] = own[name].removesuffix("\x02")
                again[name] = again[name].removesuffix("\x02")
        for name in {"unitMode", "batch"} & own.keys():  # The native client sends 0, which Java takes as false.
            own[name] = "true" if own[name] == "true" else "false"
        assert without_defaults(again, own) == own


def without_defaults(ours: dict[str, str], recorded: dict[str, str]) -> dict[str, str]:
    """Fields that Java sends always and other clients leave out count only where they were sent."""
    always = {"cleanOffset", "m", "k", "j", "batch", "unitMode", "suggestWhichBrokerId", "subVersion", "TRACE_ON"}
    return {name: value for name, value in ours.items() if name in recorded or name not in always}


@pytest.mark.parametrize("path", FRAMES, ids=by_scenario)
def test_typed_bodies_give_back_their_values(path: Path) -> None:
    for code, command in exchanges(path):
        body = TYPED.get(Code(code), Typed())[3 if command.is_response else 2]
        if body is None or not command.body:
            continue
        typed = json_fields.decode(body, command.body) if body is SubscriptionGroupConfig else body.decode(command.body)
        again = json_fields.encode(typed)
        if command.body[:1] == b"x":
            assert body.decode(typed.encode_compressed()) == typed
            continue
        if path.stem not in OTHER_PRINTERS:  # Those leave members out and send numbers for names.
            assert normal(fastjson.loads(again)) == normal(fastjson.loads(command.body))
        # What we print is read back as the same, whatever the recorded form of the map keys was.
        assert json_fields.decode(body, again) == typed


def normal(value: Any) -> Any:
    """Lists that Java makes of sets are compared without order; members of 5.x with default values are left out."""
    if isinstance(value, dict):
        return {key: normal(each) for key, each in value.items() if key not in ADDED_BY_5X}
    if isinstance(value, list):
        return sorted([normal(each) for each in value], key=lambda each: json.dumps(each, sort_keys=True))
    return value


@pytest.mark.parametrize("path", FRAMES, ids=by_scenario)
def test_batches_encode_to_themselves_but_for_the_last_separator(path: Path) -> None:
    for code, command in exchanges(path):
        if code != Code.SEND_BATCH_MESSAGE or command.is_response:
            continue
        messages = message_batch.decode(command.body)
        assert messages
        assert sum([22 + len(each.body) + property_size(each.properties) for each in messages]) == len(command.body)


def property_size(properties: dict[str, str]) -> int:
    return sum([len(name.encode()) + len(value.encode()) + 2 for name, value in properties.items()]) - 1


def test_every_recorded_code_is_known_here() -> None:
    codes = {Code(code) for path in FRAMES for code, _ in exchanges(path)}
    assert codes <= TYPED.keys() | UNTYPED


def test_a_data_version_in_a_header_is_a_body_of_its_own() -> None:
    assert bodies.decode_data_version(b'{"counter":3,"timestamp":5}') == DataVersion(counter=3, timestamp=5)
