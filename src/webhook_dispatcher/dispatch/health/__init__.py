"""Whether something may be sent now, to whom, and how much at once.

lanes: lane health, from the latest attempts, and the bulkhead slots that each health may take.
own_faults: whether a failure is ours; a circuit breaker, which stops sending while it is.
suspicion: nearly all merchants fail alike, perhaps through us; holds back those that do.
outage: outage recovery: after the database was away, outcomes are written before anything is claimed.
"""
