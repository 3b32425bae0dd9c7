"""Property tests of the core: no deadline on a shared machine, the same examples in every run."""

from hypothesis import settings

settings.register_profile("core", deadline=None, derandomize=True, database=None)
settings.load_profile("core")
