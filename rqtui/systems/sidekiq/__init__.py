"""Sidekiq: the system, its processes and schedules, and its jobs as bytes."""
