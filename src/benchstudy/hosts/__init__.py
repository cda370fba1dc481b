"""SSH, and the controller's side of the agent that runs on a host.

Begin with `remote.py`, the one door to a host over SSH, and `agent.py`, what a session does with a host. The first line
of each module says what it is for.
"""
