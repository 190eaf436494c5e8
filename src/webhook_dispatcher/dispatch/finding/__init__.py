"""Which merchants may have something to be sent in order, and reading it.

tail: arrivals, and up to which number nothing can appear any more.
ready: who waits for a lane, by their health, and who is next.
fetching: the next events of leased lanes.
unreadable: leases and reads that the database refuses for one row.
"""
