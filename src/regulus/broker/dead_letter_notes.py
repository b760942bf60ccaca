"""Notes for the log that a message became a dead letter: whose, which, after how many tries, and why."""

from regulus.model.failure_causes import newest_cause, tries_text
from regulus.model.happenings import EventTexts
from regulus.model.message import MessageExt

KEYS_LENGTH_MAX = 100


def note_dead_letter(texts: EventTexts, letter: MessageExt, group: str) -> None:
    keys = " ".join(letter.keys.split())[:KEYS_LENGTH_MAX] or "-"
    cause = newest_cause(letter.properties) or "the cause is not known"
    texts.note(f"message {letter.message_id or '-'} with keys {keys} is a dead letter of group {group} after "
               f"{tries_text(letter.reconsume_times)}: {cause}")
