"""What ends a demo before it has an outcome. The text says where, why, and what to look at.

DemoFailed
    NoWeights        the real weights are absent or wrong      demo/weights.py
    NotOurs          a cache folder that is not ours           demo/cache.py
    ChildDied        a process ended by itself                 demo/processes.py
    CommandFailed    the gateway or the fault proxy refused    demo/probes.py
    NotAsDocumented  something answered in an unknown form     demo/decode.py
"""


class DemoFailed(Exception):
    """No outcome."""
