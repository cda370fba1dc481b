"""The catalogue of systems: one folder per system, with everything about something that studies start.

system.yaml   what it is, its parameters, its services, what it gives to other systems and offers to families
README.md     ten lines for people who choose it
deploy.py     a pyinfra deploy, if it is built rather than installed; its pins lie beside it
…             files for its services

A study names a system and sets its parameters. `expansion` replaces it by ordinary services and entries before the
study is validated, so that later layers need no catalogue, and a case's definition is what is really executed.
"""
