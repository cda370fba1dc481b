"""SSH, and the controller's side of the agent that runs on a host.

SSH            remote.py (the one door: connect, run, open, put, get), connection.py, transfer.py, ssh_errors.py
below it       ssh_link.py (jump hosts), ssh_config.py, host_keys.py, user_keys.py, ssh_transport.py
the agent      agent.py (what a session does with it), line.py (ask it), desk.py (quicker), agent_files.py (its files)
with it        commands.py (supervised commands), services.py, lock.py (the host for one session), heartbeats.py,
               errors.py
this machine   loopback.py (as an SSH host), controller.py (one per project), interrupts.py (Ctrl-C)
lent           shipping.py (libraries that a host lacks)
"""
