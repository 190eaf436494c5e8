"""What operators ask for.

controller: takes commands up, and carries out the short ones.
recalls: ends the sessions of lanes that were called back, and begins or ends a pause of everything.
long_running: begins the long ones, and carries them out: mass_retry and sample_event, each of which has its
command under a lease (running_command).
"""
