"""The main job as one command: two servers, a gateway, load, a rollout, and a verdict that can be explained."""
