"""Notes for the log that a message became a dead letter: whose, which, after how many tries, and why."""

from regulus.model.failure_causes import newest_cause
from regulus.model.happenings import EventTexts
from regulus.model.message import MessageExt
from regulus.model.wording import counted

KEYS_LENGTH_MAX = 100


def note_dead_letter(texts: EventTexts, letter: MessageExt, group: str) -> None:
    keys = " ".join(letter.keys.split())[:KEYS_LENGTH_MAX] or "-"
    cause = newest_cause(letter.properties) or "the cause is not known"
    tries = counted(letter.reconsume_times, "try", "tries")
    texts.note(f"message {letter.message_id or '-'} with keys {keys} is a dead letter of group {group} after {tries}: "
               f"{cause}")
