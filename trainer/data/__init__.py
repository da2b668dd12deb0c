"""Text to tokens, tokens to shards, shards to batches.

prepare.py turns documents into token shards once; batches.py reads them so that the batch of a step is a pure
function of (seed, step), whatever the number of processes and however often the run was restarted.
"""
