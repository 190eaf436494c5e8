"""What operators ask for.

controller: takes commands up, and carries out the short ones.
recalls: ends the sessions of lanes that were called back, and begins or ends a pause of everything.
long_running: begins the long ones, and carries them out, each under a lease (running_command): sample_event,
and those that go chunk by chunk (mass_command): mass_retry, recovery and skipping.
"""
