"""Load of the family load_test: simulated users of a chat server by Locust, bounded or by a feedback rule.

`config` is what a study says, `command` and `run` start Locust on the load hosts, `on_host` is what runs there.
"""
