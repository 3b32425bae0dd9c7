"""Whether the installed packages fit one another: an installer that resolves one of them later may have changed it."""

import importlib.metadata
from collections.abc import Sequence

from packaging.requirements import Requirement

from server.adapters.worker.environment import installed_versions


def unmet(packages: Sequence[str]) -> tuple[str, ...]:
    """What an installed one of ``packages`` asks for and does not have: ``torch_tpu wants torch<=2.15.0, has 2.16.0``.

    Requirements of extras and for other machines do not count.
    """
    found = []
    for package, version in installed_versions(packages).items():
        for text in (importlib.metadata.requires(package) or ()) if version else ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            has = installed_versions([wanted.name])[wanted.name]
            if has is None or not wanted.specifier.contains(has, prereleases=True):
                found.append(f"{package} wants {wanted.name}{wanted.specifier}, has {has or 'none'}")
    return tuple(found)
