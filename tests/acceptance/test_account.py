"""`account` as a person types it: at a terminal, which never shows the password."""

import os
import pty
import select
import sys
from pathlib import Path

from tests.acceptance.processes import environment
from tests.servers.database import Database
from tests.waiting import MAX_WAIT

WORDS = "correct horse battery"
PROGRAM = (sys.executable, "-m", "webhook_dispatcher", "account")


def typed(
    settings: dict[str, str], cwd: Path, line: list[str], answers: list[tuple[str, str]]
) -> tuple[int, str]:
    """Run a command at a terminal of its own, answer its questions; return exit code and what it showed."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execve(PROGRAM[0], [*PROGRAM, *line], environment(settings))
    shown = ""
    try:
        while select.select([terminal], [], [], MAX_WAIT)[0]:
            try:
                shown += os.read(terminal, 4096).decode()
            except OSError:  # it has ended
                break
            if answers and shown.endswith(answers[0][0]):
                os.write(terminal, f"{answers.pop(0)[1]}\n".encode())
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.replace("\r\n", "\n")


def test_passwords_that_differ_are_asked_for_anew(database: Database, tmp_path: Path) -> None:
    settings = database.settings("webhook_admin")
    answers = [("Password: ", WORDS), ("The same again: ", f"{WORDS}!")]
    answers += [("Password: ", WORDS), ("The same again: ", WORDS)]
    code, shown = typed(settings, tmp_path, ["add", "anna", "--role", "viewer"], answers)
    assert code == 0
    assert "do not match" in shown
    assert shown.endswith("Password: \nThe same again: \nanna: viewer added\n")
    assert WORDS not in shown
