"""The catalogue of systems: one folder each, with everything of a thing that studies start.

system.yaml   what it is, its parameters, its services, what it gives to other systems and offers to families
README.md     ten lines for whoever chooses it
deploy.py     a pyinfra deploy, where it is built rather than installed; its pins lie beside it
…             files that its services are given

A study names a system and sets its parameters. `expansion` puts ordinary services and entries in their place before the
study is validated, so that nothing behind it knows a catalogue, and a case's definition is what really runs.
"""
