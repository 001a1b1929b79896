"""Convert errors of Redis and of the network to rqtui's errors, each with a sentence for a person."""
