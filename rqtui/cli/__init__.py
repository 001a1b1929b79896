"""The commands of `rqtui`, a module each, named as they are typed."""
