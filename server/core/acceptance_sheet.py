"""From what the processes of a smoke left to the acceptance sheet: every field filled, or the reason why not."""

from collections.abc import Callable, Sequence

from server.core.acceptance_checks import HTTP, Asked, Found, checks_of
from server.core.proposal import proposed, yaml_lines
from server.core.sheet import Check, Fact, Listing, Outcome, Section, Sheet, Table
from server.core.smoke import Audit, BucketRun, Part, Placed, Reference, Result, Service

COUNTER = "the device's counter of compiles"
CALLS = "time.perf_counter around transfer, call and copy back"
LONGEST = 300
EMULATED = (
    "Emulated: the software path of torch_tpu on a CPU, neither a TPU's speed nor its arithmetic. It allows no move to "
    "TPU hardware; run the smoke there."
)
NOT_WIDENED = (
    "the answers lie beyond the defaults, and a tolerance is not widened to fit. Find the cause, or let a person write "
    "one down with a reason."
)


def sheet_of(asked: Asked, found: Found) -> Sheet:
    """Judged and in order."""
    checks = checks_of(asked, found)
    return Sheet(
        title=f"Acceptance of {asked.model} on {asked.device}",
        note=EMULATED if _emulated(found) else "",
        checks=checks,
        listing=_proposal(asked, found, checks),
        sections=(_identity(asked, found), _environment(asked, found), _model(found), _whole(found)),
        tables=(
            _times("Eager", found.eager),
            _times("Compiled", found.compiled),
            _served(found.service),
            _warnings(found),
        ),
    )


def _emulated(found: Found) -> bool:
    return any(part.result is not None and part.result.emulated for part in (found.eager, found.compiled))


def _proposal(asked: Asked, found: Found, checks: Sequence[Check]) -> Listing:
    """From the mode that is served, when that passed under the defaults."""
    title, purpose = "Tolerance for the plan", "To paste into the plan, in place of `parity`; a run freezes it."
    part, reference = found.compiled if asked.served == "compiled" else found.eager, found.reference.result
    if part.result is None or reference is None:
        return Listing(title, purpose, (), part.error or found.reference.error)
    answers = (f"{asked.served}: finite", f"{asked.served}: parity")
    if any(check.outcome is Outcome.FAILED for check in checks if check.name.startswith(answers)):
        return Listing(title, purpose, (), NOT_WIDENED)
    runs = part.result.buckets
    worst = [run.difference for run in runs]
    about = [
        f"canary-server smoke, {asked.when[:10]}: {asked.model}, weights {reference.revision[:12]}",
        f"{asked.served} on {asked.device} in {asked.dtype}, against the CPU in float32",
        f"worst of {sum(run.bucket.batch for run in runs)} rows: cosine {min(each.cosine_min for each in worst):.7f}, "
        f"length off by {max(each.length_rel for each in worst):.2g}",
        f"worst element: {max(each.used for each in worst):.2g} of what the default allows it",
    ]
    if _emulated(found):
        about.append("measured on the TPU emulator, not on TPU hardware")
    return Listing(title, purpose, yaml_lines(proposed(asked.tolerance, runs), reference.signature, about))


def _identity(asked: Asked, found: Found) -> Section:
    facts = [
        Fact("model", asked.model, "configuration: model.name"),
        Fact("format", asked.model_format, "configuration: model.format"),
        _part("model revision", found.reference, lambda result: result.revision, "SHA-256 over names, dtypes, shapes "
              "and bytes of the weights; of an export over its file"),
        Fact("device", asked.device, "configuration or --device"),
        Fact("dtype", asked.dtype, "configuration: dtype"),
        Fact("matmul precision", asked.precision, "torch.set_float32_matmul_precision, set before the first call"),
        Fact("mode that the server uses", asked.served, "configuration: compile; compiled on a TPU"),
        Fact("batch shapes", asked.catalogue, "configuration: catalogue"),
        Fact("distinct shapes", asked.shapes, "configuration: catalogue"),
        _part("inputs", found.reference, lambda result: result.inputs, "process reference"),
        Fact("tolerance", str(asked.tolerance), "a plan's defaults for dtype, precision and device; measured on the "
             "emulator, not on TPU hardware"),
    ]  # fmt: skip
    return Section("What was tried", tuple(facts))


def _environment(asked: Asked, found: Found) -> Section:
    placed = found.compiled.result or found.eager.result
    name = placed.topology if placed is not None else None
    on_tpu = asked.device == "tpu"
    unnamed = (
        found.eager.error
        if placed is None
        else ("torch_tpu does not name it" if on_tpu else f"device {asked.device} has none")
    )
    facts = [
        Fact("date", asked.when, "system clock, UTC"),
        Fact("python", asked.python, "platform.python_version()"),
        Fact("machine", asked.machine, "platform.platform()"),
        Fact("load when the smoke began", asked.load, "os.getloadavg(), os.cpu_count()"),
        Fact("threads", asked.threads, "configuration: threads"),
        Fact("accelerator", name, "torch.tpu.get_device_name(), or the GPU's name",
             "" if name is not None else unnamed or "no process told"),
        Fact("TPU slice", asked.slice if on_tpu else None, "TPU_ACCELERATOR_TYPE and TPU_TOPOLOGY of the environment; "
             "the server takes one chip", "" if on_tpu and asked.slice is not None else
             "neither variable is set; GKE sets them on TPU nodes" if on_tpu else f"device {asked.device} has none"),
        *(
            Fact(package, version, "importlib.metadata.version", "" if version else "not installed")
            for package, version in asked.versions.items()
        ),
    ]  # fmt: skip
    return Section("Environment", tuple(facts))


def _model(found: Found) -> Section:
    audit = found.reference.result.audit if found.reference.result is not None else Audit(error=found.reference.error)
    return Section(
        "Model",
        (
            _part("parameters", found.reference, lambda result: result.parameters, "module.state_dict() on the CPU"),
            _part("weights", found.reference, lambda result: result.weight_bytes, "module.state_dict() on the CPU",
                  "bytes"),
            Fact(
                "operators in the graph", None if audit.error else audit.operators, "torch.export.export", audit.error
            ),
            Fact("kinds of operators", None if audit.error else audit.kinds, "torch.export.export", audit.error),
            _part("reference rows computed alone and unpadded", found.reference,
                  lambda result: f"not in {', '.join(result.whole_batches)}: there the whole batch is the reference"
                  if result.whole_batches else "all", "process reference"),
        ),
    )  # fmt: skip


def _whole(found: Found) -> Section:
    return Section(
        "Whole run",
        (
            *_mode_facts("eager", found.eager),
            *_mode_facts("compiled", found.compiled),
            *_service_facts(found.service),
        ),
    )  # fmt: skip


def _mode_facts(name: str, part: Part[Placed]) -> list[Fact]:
    source, result = f"process {name}", part.result
    why = part.error if result is None else result.memory_why
    return [
        _part(f"{name}: load and place", part, lambda result: result.load_s, source, "s"),
        _part(f"{name}: first calls", part, lambda result: sum(run.first_s for run in result.buckets), source, "s"),
        _part(f"{name}: compile and load of programs", part, lambda result: sum(map(_compile_s, result.buckets)),
              "first calls less warm medians, of shapes in which something compiled", "s"),
        _part(f"{name}: compiles in warm-up", part, lambda result: sum(run.compiles for run in result.buckets),
              COUNTER),
        _part(f"{name}: warm-up calls", part, lambda result: sum(run.warm_calls + 1 for run in result.buckets),
              f"{source}; the first call of each shape included"),
        Fact(f"{name}: peak device memory", None if result is None else result.device_memory,
             "torch.accelerator.max_memory_allocated()", why, "bytes"),
        _part(f"{name}: peak host memory", part, lambda result: result.host_memory, f"ru_maxrss of {source}", "bytes"),
    ]  # fmt: skip


def _service_facts(part: Part[Service]) -> list[Fact]:
    same = f"{HTTP}, same requests"
    return [
        _part("service: start to ready", part, lambda result: result.ready_s, f"{HTTP}: /livez", "s"),
        _part("service: requests", part, lambda result: result.requests, f"{HTTP}, one row each, all lengths in turn"),
        _part("service: connections", part, lambda result: result.connections, "each sends when it has its answer"),
        _part("service: measured for", part, lambda result: result.seconds, same, "s"),
        _part("service: throughput", part, lambda result: result.per_s, same, "requests/s"),
        _part("service: p50", part, lambda result: result.p50_ms, same, "ms"),
        _part("service: p99", part, lambda result: result.p99_ms, same, "ms"),
        _part("service: failed requests", part, lambda result: f"{result.failed / max(1, result.requests):.2%}", same),
    ]


def _compile_s(run: BucketRun) -> float:
    """What the first call took beside a warm one. Where nothing compiled it is only a slow call."""
    return max(0.0, run.first_s - run.warm_s) if run.compiles or run.source != "eager" else 0.0


def _times(name: str, part: Part[Placed]) -> Table:
    columns = (
        ("shape", "configuration: catalogue"),
        ("program", "PyTorch's counter of cache hits"),
        ("first s", f"the first call; {CALLS}"),
        ("compile s", f"first call less warm median: compile and load; 0 where {COUNTER} stood still"),
        ("warm-up calls", "after the first call, until the running median is stable"),
        ("warm ms", "median of these"),
        ("steady ms", "median of the calls after nothing may compile; far from warm ms: the machine was busy"),
        ("slowest ms", "of the steady calls"),
        ("rows/s", "batch / steady median"),
        ("cosine", "smallest over the rows"),
        ("largest difference", "over all elements"),
    )
    if part.result is None:
        return Table(f"{name}, by shape", columns, (), f"Not available: {part.error}")
    rows = tuple(
        (
            str(run.bucket), run.source, run.first_s, _compile_s(run), run.warm_calls, 1000 * run.warm_s,
            1000 * run.steady_s, 1000 * run.steady_max_s, run.bucket.batch / run.steady_s,
            f"{run.difference.cosine_min:.7f}", f"{run.difference.max_abs:.2g}",
        )
        for run in sorted(part.result.buckets, key=lambda run: run.bucket)
    )  # fmt: skip
    return Table(f"{name}, by shape", columns, rows)


def _served(part: Part[Service]) -> Table:
    columns = (
        ("shape", "configuration: catalogue"),
        ("program", "/livez of the server: warm_up.source"),
        ("request ms", f"median of full batches, {HTTP}, one after the other"),
        ("device ms", "median of x-canary-device-ms"),
        ("host overhead", "1 - device ms / request ms"),
    )
    if part.result is None:
        return Table("Host overhead, by shape", columns, (), f"Not available: {part.error}")
    rows = tuple(
        (str(each.bucket), each.source, each.request_ms, each.device_ms, f"{100 * each.host_overhead:.1f} %")
        for each in part.result.buckets
    )
    return Table("Host overhead, by shape", columns, rows)


def _warnings(found: Found) -> Table:
    columns = (
        ("process", "python -m server.adapters.worker.smoke"),
        ("warning", "warnings.showwarning and standard error"),
    )
    parts: tuple[tuple[str, Part[Reference] | Part[Placed]], ...] = (
        ("reference", found.reference), ("eager", found.eager), ("compiled", found.compiled),
    )  # fmt: skip
    rows = tuple((name, _shortened(text)) for name, part in parts for text in part.warnings)
    return Table("Warnings met", columns, rows, "" if rows else "None: no process gave any.")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _part(
    name: str, part: Part[Result], read: Callable[[Result], int | float | str], source: str, unit: str = ""
) -> Fact:
    if part.result is None:
        return Fact(name, None, source, part.error or "its process left no result", unit)
    return Fact(name, read(part.result), source, "", unit)
