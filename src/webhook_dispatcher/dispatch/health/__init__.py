"""Whether something may be sent now, to whom, and how much at once.

merchants: what merchants' latest attempts say of them, and the slots that each kind may take.
own_faults: whether a failure is ours, and what is not sent while it is.
suspicion: many fail alike; holds back those who do.
outage: the database was away; nobody claims until all recorders have had their turn.
"""
