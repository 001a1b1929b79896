"""The way to a Redis: URLs, passwords, TLS, sentinels and Clusters, a server of one's own, and errors in words."""
