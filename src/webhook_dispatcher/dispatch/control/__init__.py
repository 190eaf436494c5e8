"""What operators ask for.

controller: takes a queue's commands up, and carries out the short ones; cancels that wait for nothing else go
together (mass_cancel), and what cannot be carried out just now waits a moment (postponed). Operators' go
before all others (right_of_way).
recalls: ends the sessions of lanes that were called back, and begins or ends a pause of everything.
long_running: begins the long ones, and carries them out, each under a lease (running_command): sample_event,
and those that go chunk by chunk (mass_command): mass_retry, recovery and skipping.
"""
