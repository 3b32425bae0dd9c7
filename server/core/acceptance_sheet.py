"""From what the processes of a smoke left to the acceptance sheet: every field filled, or the reason why not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from server.core.sheet import Check, Fact, Outcome, Section, Sheet, Table
from server.core.smoke import Audit, BucketRun, Mode, Part, Placed, Reference, Result, Service
from server.core.tolerance import Tolerance
from server.core.types import DeviceKind, DtypeName, MatmulPrecision

CHILD = "python -m server.adapters.worker.smoke"
HTTP = "canary-server on port 0, asked over HTTP"
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
    versions: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Found:
    """What each process left."""

    reference: Part[Reference]
    eager: Part[Placed]
    compiled: Part[Placed]
    service: Part[Service]


def sheet_of(asked: Asked, found: Found) -> Sheet:
    """Judged and in order."""
    checks = [
        *_mode_checks("eager", found.eager, asked),
        *_mode_checks("compiled", found.compiled, asked),
        _checkpoint(found.eager),
        *_service_checks(found.service),
        *_audit_checks(found.reference),
        _fallback(found.eager, asked.device),
    ]
    emulated = any(part.result is not None and part.result.emulated for part in (found.eager, found.compiled))
    return Sheet(
        title=f"Acceptance of {asked.model} on {asked.device}",
        note="Emulated: the software path of torch_tpu on a CPU, neither a TPU's speed nor its arithmetic."
        if emulated
        else "",
        checks=tuple(checks),
        sections=(_identity(asked, found), _environment(asked, found), _model(found), _whole(found)),
        tables=(
            _times("Eager", found.eager),
            _times("Compiled", found.compiled),
            _served(found.service),
            _warnings(found),
        ),
    )


def _mode_checks(name: Mode, part: Part[Placed], asked: Asked) -> list[Check]:
    """The mode that is not served may be missing on PyTorch's own devices: inductor wants a C++ compiler, for one."""
    source = f"{CHILD} ({name})"
    if part.result is None:
        needed = name == asked.served or asked.device in TPU
        outcome = Outcome.FAILED if needed else Outcome.NOT_AVAILABLE
        return [Check(f"{name}: runs", outcome, "", "runs", source, part.error)]
    runs = part.result.buckets
    fewer = "on a TPU every eager operation is a program, so one shape is tried" if len(runs) < asked.shapes else ""
    compiles = sum(run.compiles_after for run in runs)
    return [
        Check(f"{name}: runs", Outcome.PASSED, f"{len(runs)} of {asked.shapes} shapes", "runs", source, fewer),
        _check(
            f"{name}: finite",
            all(run.difference.finite for run in runs),
            _count(runs, lambda run: not run.difference.finite, "shapes with NaN or infinity"),
            "all outputs",
            f"numpy.isfinite in {source}",
        ),
        _parity(name, runs, asked.tolerance),
        _check(
            f"{name}: nothing compiles after warm-up",
            compiles == 0,
            f"{compiles} programs in {sum(run.steady_calls for run in runs)} calls",
            "0",
            f"the device's counter of compiles around the steady calls, {source}",
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
        f"cosine {cosine:.7f}, length {length:.2e}, largest difference {worst.difference.max_abs:.2e} in "
        f"{worst.bucket}, {beyond} of {sum(run.difference.elements for run in runs)} elements beyond",
        str(tolerance),
        f"{CHILD} (reference) against ({name}); worst row, never a mean",
    )


def _checkpoint(part: Part[Placed]) -> Check:
    source = "weights off the device, safetensors save_file and load_file, load_state_dict, the same call again"
    name = "checkpoint round trip"
    if part.result is None or part.result.checkpoint is None:
        return Check(name, Outcome.NOT_AVAILABLE, "", "the same bits", source, part.error or "not tried")
    trip = part.result.checkpoint
    return _check(
        name,
        trip.differing == 0 and trip.same_answer,
        f"{trip.differing} of {trip.tensors} tensors differ ({trip.bytes} bytes), the answer is "
        f"{'the same' if trip.same_answer else 'another'}",
        "the same bits",
        source,
    )


def _service_checks(part: Part[Service]) -> list[Check]:
    if part.result is None:
        return [Check("service", Outcome.NOT_AVAILABLE, "", "answers", HTTP, part.error)]
    service = part.result
    failed = service.failed + sum(each.failed for each in service.buckets)
    asked = service.requests + sum(each.requests for each in service.buckets)
    return [
        _check("service: answers", failed == 0, f"{failed} of {asked} requests failed", "0 failed", HTTP),
        _check(
            "service: nothing compiles on the request path",
            service.compiles_after == 0,
            f"{service.compiles_after} programs",
            "0",
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


def _identity(asked: Asked, found: Found) -> Section:
    facts = [
        Fact("model", asked.model, "configuration: model.name"),
        Fact("format", asked.model_format, "configuration: model.format"),
        _part("model revision", found.reference, lambda result: result.revision, "SHA-256 over names, dtypes, shapes "
              "and bytes of the weights; of an export over its file"),
        Fact("device", asked.device, "configuration or --device"),
        Fact("dtype", asked.dtype, "configuration: dtype"),
        Fact("matmul precision", asked.precision, "torch.set_float32_matmul_precision, set before the first call"),
        Fact("batch shapes", asked.catalogue, "configuration: catalogue"),
        Fact("tolerance", str(asked.tolerance), "the default policy for dtype, precision and device; not measured on "
             "TPU hardware"),
    ]  # fmt: skip
    return Section("What was tried", tuple(facts))


def _environment(asked: Asked, found: Found) -> Section:
    placed = found.compiled.result or found.eager.result
    topology = placed.topology if placed is not None else None
    why = "this device has no generation or slice" if placed is not None else found.eager.error
    facts = [
        Fact("date", asked.when, "system clock, UTC"),
        Fact("python", asked.python, "platform.python_version()"),
        Fact("machine", asked.machine, "platform.platform()"),
        Fact("threads", asked.threads, "configuration: threads"),
        Fact("TPU generation and slice", topology, "torch.tpu.get_device_name(), or the GPU's name",
             "" if topology is not None else why or "no process told"),
        *(
            Fact(f"{package}, installed", version, "importlib.metadata.version", "" if version else "not installed")
            for package, version in asked.versions.items()
        ),
    ]  # fmt: skip
    return Section("Environment", tuple(facts))


def _model(found: Found) -> Section:
    audit = found.reference.result.audit if found.reference.result is not None else Audit(error=found.reference.error)
    whole = found.reference.result.whole_batches if found.reference.result is not None else ()
    return Section(
        "Model",
        (
            _part("parameters", found.reference, lambda result: result.parameters, "module.state_dict() on the CPU"),
            _part("bytes of weights", found.reference, lambda result: result.weight_bytes, "module.state_dict()"),
            Fact(
                "operators in the graph", None if audit.error else audit.operators, "torch.export.export", audit.error
            ),
            Fact("kinds of operators", None if audit.error else audit.kinds, "torch.export.export", audit.error),
            Fact(
                "reference rows computed alone and unpadded",
                "all" if not whole else f"not in {', '.join(whole)}: there the whole batch is the reference",
                f"{CHILD} (reference)",
            ),
        ),
    )


def _whole(found: Found) -> Section:
    return Section(
        "Whole run",
        (
            *_mode_facts("eager", found.eager),
            *_mode_facts("compiled", found.compiled),
            _part("service: start to ready, seconds", found.service, lambda result: result.ready_s, f"{HTTP}: /livez"),
            _part("service: requests a second", found.service, lambda result: result.per_s,
                  f"{HTTP}, one row a request, closed loop"),
            _part("service: connections", found.service, lambda result: result.connections, HTTP),
            _part("service: p50, milliseconds", found.service, lambda result: result.p50_ms, f"{HTTP}, same requests"),
            _part("service: p99, milliseconds", found.service, lambda result: result.p99_ms, f"{HTTP}, same requests"),
            _part("service: share of failed requests", found.service,
                  lambda result: result.failed / max(1, result.requests), f"{HTTP}, same requests"),
        ),
    )  # fmt: skip


def _mode_facts(name: str, part: Part[Placed]) -> list[Fact]:
    source = f"{CHILD} ({name})"
    result = part.result
    why = part.error if result is None else result.memory_why
    return [
        _part(f"{name}: load and place, seconds", part, lambda result: result.load_s, source),
        _part(f"{name}: warm-up calls", part, lambda result: sum(run.warm_calls + 1 for run in result.buckets), source),
        _part(f"{name}: compiles in warm-up", part, lambda result: sum(run.compiles for run in result.buckets),
              "the device's counter of compiles"),
        Fact(f"{name}: peak device memory, bytes", None if result is None else result.device_memory,
             "torch.accelerator.max_memory_allocated()", why),
        _part(f"{name}: peak host memory of the process, bytes", part, lambda result: result.host_memory,
              "getrusage: ru_maxrss"),
    ]  # fmt: skip


def _times(name: str, part: Part[Placed]) -> Table:
    calls = "time.perf_counter around transfer, call and copy back"
    columns = (
        ("shape", "configuration: catalogue"),
        ("program", "PyTorch's counter of cache hits"),
        ("first call s", calls),
        ("first less warm s", "what the first call took beside the warm median: compile and load"),
        ("warm-up calls", "until the running median is stable"),
        ("steady ms", f"median, {calls}, after nothing may compile"),
        ("p99 ms", "of the steady calls"),
        ("rows/s", "batch by steady median"),
        ("cosine", "smallest over the rows"),
        ("largest difference", "over all elements"),
    )
    if part.result is None:
        return Table(f"{name}, by shape", columns, (), part.error)
    rows = tuple(
        (
            str(run.bucket), run.source, run.first_s, max(0.0, run.first_s - run.warm_s), run.warm_calls,
            1000 * run.steady_s, 1000 * run.steady_p99_s, run.bucket.batch / run.steady_s,
            f"{run.difference.cosine_min:.7f}", f"{run.difference.max_abs:.2e}",
        )
        for run in part.result.buckets
    )  # fmt: skip
    return Table(f"{name}, by shape", columns, rows)


def _served(part: Part[Service]) -> Table:
    columns = (
        ("shape", "configuration: catalogue"),
        ("program", "/livez of the server: warm_up.source"),
        ("request ms", f"median, {HTTP}, one after the other"),
        ("device ms", "median of x-canary-device-ms"),
        ("host overhead", "1 - device ms / request ms"),
    )
    if part.result is None:
        return Table("Host overhead, by shape", columns, (), part.error)
    rows = tuple(
        (str(each.bucket), each.source, each.request_ms, each.device_ms, f"{100 * each.host_overhead:.1f} %")
        for each in part.result.buckets
    )
    return Table("Host overhead, by shape", columns, rows)


def _warnings(found: Found) -> Table:
    columns = (("process", f"{CHILD}, and its standard error"), ("warning", "warnings.showwarning"))
    parts: tuple[tuple[str, Part[Reference] | Part[Placed]], ...] = (
        ("reference", found.reference), ("eager", found.eager), ("compiled", found.compiled),
    )  # fmt: skip
    rows = tuple((name, text[:300]) for name, part in parts for text in part.warnings)
    return Table("Warnings met", columns, rows, "" if rows else "none was given by any process")


def _check(name: str, good: bool, found: str, limit: str, source: str) -> Check:
    return Check(name, Outcome.PASSED if good else Outcome.FAILED, found, limit, source)


def _names(name: str, names: Sequence[str], source: str) -> Check:
    return _check(name, not names, ", ".join(names) or "none", "none", source)


def _count(runs: Sequence[BucketRun], wanted: Callable[[BucketRun], bool], what: str) -> str:
    return f"{sum(map(wanted, runs))} {what}"


def _part(name: str, part: Part[Result], read: Callable[[Result], int | float | str], source: str) -> Fact:
    if part.result is None:
        return Fact(name, None, source, part.error or "its process left no result")
    return Fact(name, read(part.result), source)
