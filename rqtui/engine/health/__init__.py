"""Health of queues and servers: the rules, their evaluation per snapshot, the probes and the urgency of findings."""
