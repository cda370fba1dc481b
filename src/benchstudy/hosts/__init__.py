"""SSH, and the controller's side of the agent that runs on a host."""
