"""What operators ask for.

controller: takes commands up, and carries out the short ones.
long_running: mass retries and test events.
"""
