"""Says why this Python cannot try the given device, and ends with 1 then: ``can_run.py cuda``."""

import sys


def reason(device: str) -> str:
    """Empty when it can."""
    if sys.version_info < (3, 11):  # noqa: UP036  # another Python than the project's runs this
        return f"Python is {sys.version.split()[0]}, 3.11 or newer is needed"
    try:
        import torch
    except ImportError as error:
        return f"torch does not load: {error}"
    if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < (2, 11):
        return f"torch is {torch.__version__}, 2.11 or newer is needed"
    if device == "cuda" and not torch.cuda.is_available():
        built = f"is built for CUDA {torch.version.cuda}" if torch.version.cuda else "is built without CUDA"
        return f"no CUDA device is seen; torch {torch.__version__} {built}"
    return ""


if why := reason(sys.argv[1]):
    print(why)
    sys.exit(1)
