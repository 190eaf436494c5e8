"""The daemon's work: claim, deliver, record, obey the control table, keep house."""
