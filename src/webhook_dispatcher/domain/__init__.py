"""What the dispatcher decides: no I/O, no clock reads, no await."""
