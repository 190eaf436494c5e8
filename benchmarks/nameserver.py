"""A name server for which every name has the address 127.0.0.1 and no other; or one that never answers.

From a SIGUSR1 on until a SIGUSR2 it fails to look up any name (SERVFAIL). Prints its port. Its own address
is none that another name server has. Source: RFC 1035, 4.1.
"""

import argparse
import json
import signal
import socket
import struct

ADDRESS = "127.53.53.53"
_HEAD = struct.Struct("!6H")
_ANSWERED = 0x8180
"""A response; recursion was desired and is available; no error."""
_ADDRESS = 1
_TYPE_AND_CLASS = 4
_SERVFAIL = 2
# The name of the question (a pointer to it), type A, class IN, seconds to live, four bytes.
_RECORD = struct.Struct("!3HIH4B")


class State:
    """Whether names can be looked up."""

    fails = False


def answer(query: bytes, seconds: int, fails: bool) -> bytes:
    """Return the answer to a query of one question: an address for A, none for anything else."""
    end = query.index(0, _HEAD.size) + 1 + _TYPE_AND_CLASS
    question = query[_HEAD.size : end]
    kind = int.from_bytes(question[-_TYPE_AND_CLASS:-2])
    record = _RECORD.pack(0xC00C, _ADDRESS, 1, seconds, 4, 127, 0, 0, 1)
    records = [record] if kind == _ADDRESS and not fails else []
    number = int.from_bytes(query[:2])
    said = _ANSWERED | (_SERVFAIL if fails else 0)
    return _HEAD.pack(number, said, 1, len(records), 0, 0) + question + b"".join(records)


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--silent", action="store_true", help="never answer")
    parser.add_argument("--seconds", type=int, default=60, help="for which an answer may be kept")
    options = parser.parse_args()
    state = State()
    signal.signal(signal.SIGUSR1, lambda *_: setattr(state, "fails", True))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(state, "fails", False))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((ADDRESS, options.port))
        print(json.dumps({"port": server.getsockname()[1]}), flush=True)
        while True:
            query, asker = server.recvfrom(4096)
            if not options.silent:
                server.sendto(answer(query, options.seconds, state.fails), asker)


if __name__ == "__main__":
    main()
