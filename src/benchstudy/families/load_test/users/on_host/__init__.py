"""The code that Locust runs on a load host: simulated users, the shape of the load, and its recording.

What users of one system do is a package in this one, which the plan names: `mattermost`, of envs/mattermost/users.

Runs under Locust's own Python (3.10 and newer), sent there as the library `load-users`. `feedback`, `histogram`,
`alerts` and `recording` need the standard library only, so that parsers and tests use them, too.
"""
