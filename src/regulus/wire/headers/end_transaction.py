"""END_TRANSACTION (37), CHECK_TRANSACTION_STATE (39), RESUME_CHECK_HALF_MESSAGE (323).

Source: EndTransactionRequestHeader, CheckTransactionStateRequestHeader, ResumeCheckHalfMessageRequestHeader.
"""

from dataclasses import dataclass

from regulus.model.topics import TRANS_HALF_TOPIC
from regulus.wire.ext_fields import Header, Long, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRequest(Header):
    """`commit_or_rollback` is sys_flag.TRANSACTION_COMMIT, TRANSACTION_ROLLBACK or TRANSACTION_NOT (unknown)."""

    producer_group: str
    tran_state_table_offset: Long
    commit_log_offset: Long
    commit_or_rollback: int
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: str | None = spelled("bname", default=None)

    @property
    def real_topic(self) -> str | None:
        """The topic of the transaction, if it is named. In the answer to a check, clients of 5.x repeat the check's
        topic, which is that of all half messages."""
        return self.topic if self.topic and self.topic != TRANS_HALF_TOPIC else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransactionStateRequest(Header):
    """`msg_id` and `transaction_id` are the unique key."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker_name: str | None = spelled("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCheckHalfMessageRequest(Header):
    """`msg_id` is an offset id."""

    msg_id: str | None = None
    topic: str | None = None
