"""The code that Locust runs on a load host: simulated users, the shape of the load, and its recording.

The plan names the subpackage with the actions of a system's users, such as `mattermost` from envs/mattermost/users.

The code is shipped as the library `load-users` and runs under Locust's own Python (3.10 or newer). `feedback`,
`histogram`, `alerts` and `recording` need only the standard library, because parsers and tests use them, too.
"""
