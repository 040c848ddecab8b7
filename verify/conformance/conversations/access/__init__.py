"""Conversations with a secured broker: logins, rules, and what each user may do with each API (`cast.ask_each`)."""
