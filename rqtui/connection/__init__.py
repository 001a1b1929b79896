"""Connect to Redis: URLs, passwords, TLS, sentinels and Clusters, a private server, and errors as sentences."""
