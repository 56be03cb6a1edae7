"""Tenants: nothing that is public reaches what belongs to another one."""
