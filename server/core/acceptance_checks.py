"""The checks of an acceptance sheet, from what the processes of a smoke left."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from server.core.sheet import Check, Outcome, shown
from server.core.smoke import BucketRun, Mode, Part, Placed, Reference, Service
from server.core.tolerance import Tolerance
from server.core.types import DeviceKind, DtypeName, MatmulPrecision

HTTP = "the server, asked over HTTP"
TPU = ("tpu", "tpu-emulator")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the configuration asks for, and the moment and machine of the smoke."""

    model: str
    model_format: str
    device: DeviceKind
    dtype: DtypeName
    precision: MatmulPrecision
    catalogue: str
    threads: int
    shapes: int
    served: Mode
    tolerance: Tolerance
    when: str
    python: str
    machine: str
    load: str
    slice: str | None
    versions: Mapping[str, str | None]
    unmet: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What each process left."""

    reference: Part[Reference]
    eager: Part[Placed]
    compiled: Part[Placed]
    service: Part[Service]


def checks_of(asked: Asked, found: Found) -> tuple[Check, ...]:
    """In the order in which a port goes wrong."""
    return (
        _environment(asked.unmet),
        *_mode_checks("eager", found.eager, asked),
        *_mode_checks("compiled", found.compiled, asked),
        _checkpoint(found.eager),
        *_service_checks(found.service),
        *_audit_checks(found.reference),
        _fallback(found.eager, asked.device),
    )


def _environment(unmet: tuple[str, ...]) -> Check:
    """Nothing may have brought a torch that torch_tpu does not take."""
    source = "importlib.metadata.requires of the packages below"
    return _names("environment: unmet requirements", unmet, source)


def _mode_checks(name: Mode, part: Part[Placed], asked: Asked) -> list[Check]:
    """The mode that is not served may be missing on PyTorch's own devices: inductor wants a C++ compiler, for one."""
    source = f"process {name}"
    if part.result is None:
        needed = name == asked.served or asked.device in TPU
        outcome = Outcome.FAILED if needed else Outcome.NOT_AVAILABLE
        return [Check(f"{name}: runs", outcome, "", "runs", source, part.error)]
    runs = part.result.buckets
    fewer = "" if len(runs) == asked.shapes else "on a TPU each eager operation is a program: the smallest shape alone"
    compiles = sum(run.compiles_after for run in runs)
    return [
        Check(
            f"{name}: runs", Outcome.PASSED, f"{len(runs)} of {_shapes(asked.shapes)}", "each one runs", source, fewer
        ),
        _check(
            f"{name}: finite",
            all(run.difference.finite for run in runs),
            _count(runs, lambda run: not run.difference.finite, "shapes with NaN or infinity"),
            "0 shapes",
            f"numpy.isfinite, {source}",
        ),
        _parity(name, runs, asked.tolerance),
        _check(
            f"{name}: nothing compiles after warm-up",
            compiles == 0,
            f"{compiles} programs in {sum(run.steady_calls for run in runs)} steady calls of {_shapes(len(runs))}",
            "0 programs",
            f"the device's counter of compiles, {source}",
        ),
    ]


def _parity(name: str, runs: Sequence[BucketRun], tolerance: Tolerance) -> Check:
    cosine = min(run.difference.cosine_min for run in runs)
    length = max(run.difference.length_rel for run in runs)
    beyond = sum(run.difference.beyond for run in runs)
    good = cosine >= tolerance.cosine_min and length <= tolerance.length_rel and beyond == 0
    worst = max(runs, key=lambda run: run.difference.max_abs)
    return _check(
        f"{name}: parity with the CPU in float32",
        good and all(run.difference.finite for run in runs),
        f"cosine {cosine:.7f}, length off by {length:.2g}, largest difference {worst.difference.max_abs:.2g} (in shape "
        f"{worst.bucket}), {beyond} of {sum(run.difference.elements for run in runs)} elements beyond",
        str(tolerance),
        f"process reference against process {name}; the worst row and element, never a mean",
    )


def _checkpoint(part: Part[Placed]) -> Check:
    source = "weights off the device into safetensors, back by load_state_dict, the same call again"
    name = "checkpoint round trip"
    if part.result is None or part.result.checkpoint is None:
        return Check(name, Outcome.NOT_AVAILABLE, "", "the same bits", source, part.error or "not tried")
    trip = part.result.checkpoint
    return _check(
        name,
        trip.differing == 0 and trip.same_answer,
        f"{trip.differing} of {trip.tensors} tensors differ ({shown(trip.bytes, 'bytes')}), the answer is "
        f"{'the same' if trip.same_answer else 'another'}",
        "the same bits",
        source,
    )


def _service_checks(part: Part[Service]) -> list[Check]:
    if part.result is None:
        return [Check("service: answers", Outcome.FAILED, "", "0 failed", HTTP, part.error)]
    service = part.result
    failed = service.failed + sum(each.failed for each in service.buckets)
    asked = service.requests + sum(each.requests for each in service.buckets)
    return [
        _check("service: answers", failed == 0, f"{failed} of {asked} requests failed", "0 failed", HTTP),
        _check(
            "service: nothing compiles on the request path",
            service.compiles_after == 0,
            f"{service.compiles_after} programs",
            "0 programs",
            'canary_server_compiles_total{phase="serving"}',
        ),
    ]


def _audit_checks(part: Part[Reference]) -> list[Check]:
    source = "torch.export.export on the CPU, walked node by node"
    if part.result is None or part.result.audit.error:
        why = part.error if part.result is None else part.result.audit.error
        return [Check("port audit", Outcome.NOT_AVAILABLE, "", "no CUDA-only call, no custom operator", source, why)]
    audit = part.result.audit
    return [
        _names("port audit: CUDA-only calls", audit.cuda_only, source),
        _names("port audit: custom operators", audit.custom, source),
        _names("port audit: classes whose code names CUDA", audit.cuda_sources, "inspect.getsource of the modules"),
        _names("port audit: sizes that depend on data", audit.data_dependent, source),
        _check("port audit: hooks", audit.hooks == 0, f"{audit.hooks} forward hooks", "0", "torch.nn.Module.modules()"),
    ]


def _fallback(part: Part[Placed], device: DeviceKind) -> Check:
    name, source = "port audit: CPU fallback", "torch_tpu._internal.execution_mode.enable_cpu_fallback, eager run"
    if device in ("cpu", "cuda"):
        return Check(name, Outcome.NOT_AVAILABLE, "", "off", source, f"device {device} has no fallback: it would fail")
    if part.result is None or part.result.fallback is None:
        return Check(name, Outcome.NOT_AVAILABLE, "", "off", source, part.error or "this torch_tpu has no such switch")
    off = not part.result.fallback
    return _check(name, off, "off: every operator ran on the device" if off else "on", "off", source)


def _check(name: str, good: bool, found: str, limit: str, source: str) -> Check:
    return Check(name, Outcome.PASSED if good else Outcome.FAILED, found, limit, source)


def _names(name: str, names: Sequence[str], source: str) -> Check:
    return _check(name, not names, ", ".join(names) or "none", "none", source)


def _shapes(count: int) -> str:
    return f"{count} shape{'' if count == 1 else 's'}"


def _count(runs: Sequence[BucketRun], wanted: Callable[[BucketRun], bool], what: str) -> str:
    return f"{sum(map(wanted, runs))} {what}"
