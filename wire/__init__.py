"""What crosses the network: the only package that server, gateway, ctl, loadtest and demo share."""
