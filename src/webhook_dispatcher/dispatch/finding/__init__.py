"""Which merchants may have something to be sent in order.

tail: arrivals, and up to which number nothing can appear any more.
ready: who waits for a lane, by their health, and who is next.
unreadable: leases and reads that the database refuses for one row.
"""
