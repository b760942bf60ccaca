"""Faults of the crash kit: kills that prove nothing, and verdicts that see nothing."""

from tests.mutants import Mutant

_CHILD = "regulus/testing/crash_points/child.py"
_DOORS = "regulus/testing/crash_points/doors.py"
_VERDICT = "regulus/testing/crash_points/verdict.py"

_CHILD_TESTS = ("tests/unit/testing/crash_points/test_child.py",)
_DOORS_TESTS = ("tests/unit/testing/crash_points/test_doors.py",)
_VERDICT_TESTS = ("tests/unit/testing/crash_points/test_verdict.py",)

MUTANTS = [
    Mutant(name="a child that never came to its point counts as killed", path=_CHILD,
           old="    if not child.is_reached or child.process.exitcode != -signal.SIGKILL:", new="    if False:",
           tests=_CHILD_TESTS),
    Mutant(name="any message is the one that was meant", path=_CHILD,
           old="(self._message_id and ids and self._message_id not in ids)", new="False", tests=_CHILD_TESTS),
    Mutant(name="a restart that fails counts as one", path=_CHILD,
           old="    child.wait(timeout_s)\n    if child.said != _ENDED:",
           new="    child.wait(timeout_s)\n    if False:", tests=_CHILD_TESTS),
    Mutant(name="what is rolled back counts as committed", path=_DOORS,
           old="            connection.info.pop(_COMMITS, None)\n", new="", tests=_DOORS_TESTS),
    Mutant(name="doors stay watched", path=_DOORS,
           old="        self._undo.callback(setattr, owner, name, original)\n", new="", tests=_DOORS_TESTS),
    Mutant(name="two effects are one", path=_VERDICT, old="    if count > wanted:", new="    if count > wanted + 1:",
           tests=_VERDICT_TESTS),
    Mutant(name="a stub may be stuck", path=_VERDICT, old="    if not found.is_manual:", new="    if False:",
           tests=_VERDICT_TESTS),
    Mutant(name="nobody has to be told", path=_VERDICT,
           old="    return \"\" if _is_told(connection, found.message_id) else", new="    return \"\" if True else",
           tests=_VERDICT_TESTS),
]
