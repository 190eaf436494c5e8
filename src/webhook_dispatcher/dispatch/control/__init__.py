"""What operators ask for.

controller: takes commands up, and carries out the short ones.
long_running: begins the long ones, and carries them out: mass_retry and sample_event, each of which has its
command under a lease (running_command).
"""
