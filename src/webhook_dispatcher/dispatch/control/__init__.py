"""What operators ask for.

controller: takes commands up, and carries out the short ones.
recalls: ends the sessions of lanes that were called back, and begins or ends a pause of everything.
long_running: mass retries and test events.
"""
