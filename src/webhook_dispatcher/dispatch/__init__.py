"""The daemon's work: find what is owed, attempt it in order, record it; carry out commands; maintain tables.

First attempts: dispatcher claims the lanes that `finding` names, and opens a lane_session for each. worker
reads its events, has attempts made of them, and gives the records to the recorder. Retries: retries claims
due rows, and does the same with them.
`health` tells both whether something may be sent, to whom, and how much at once. `control` carries out what
operators ask for; sweep finds what the tail cannot see; upkeep maintains partitions and gauges.
The terms are explained in docs/glossary.md.
"""
