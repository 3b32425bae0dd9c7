"""The processes of ``canary-server smoke``: each loads the model anew, does one thing and ends."""
