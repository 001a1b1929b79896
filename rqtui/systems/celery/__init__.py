"""Celery on Redis: the system, and its messages as bytes."""
