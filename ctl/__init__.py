"""canaryctl: the command line of the person on call. It speaks the gateway's admin API and nothing else."""
