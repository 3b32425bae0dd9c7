"""The inference server: fixed shapes, all of them compiled and proven before the first request."""
