"""The spawned process that owns the device, and the front's end of the line to it.

torch, torch_tpu and transformers are imported below this package only, and only in the spawned process:
``channel``, ``hardware`` and ``link`` are what the front process uses.
"""
