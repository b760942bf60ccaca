"""Notes for the log that a message became a dead letter: whose, which, after how many tries, and why."""

from regulus.model.failure_causes import newest_cause
from regulus.model.happenings import Happenings
from regulus.model.message import MessageExt

DEAD = "dead letter"
KEYS_LENGTH_MAX = 60


def note_dead_letter(happenings: Happenings, letter: MessageExt, group: str) -> None:
    keys = letter.keys[:KEYS_LENGTH_MAX] or "-"
    happenings.note(DEAD, f"group {group}, message {letter.message_id or '-'}, keys {keys}, "
                          f"{letter.reconsume_times} tries, cause {newest_cause(letter.properties) or 'not said'}")
