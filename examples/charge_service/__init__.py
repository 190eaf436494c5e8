"""A sample charge service, to which the Partner API forwards: to be read by whoever writes the real one.

    ledger.py        cards and charges, and the rules by which they are refused: no I/O
    directory.py     recipients, customers, merchants: kept as they were sent
    problems.py      the errors, as docs/producers/charge-service.md wants them
    once.py          the same Idempotency-Key, the same answer
    outbox.py        events, written in a transaction
    fields.py        what a body must hold
    service.py       all of it behind HTTP
    misbehaviour.py  how it fails when a test asks for it; a real one has no such file

Only aiohttp and asyncpg are needed; nothing is imported from webhook_dispatcher.
"""
