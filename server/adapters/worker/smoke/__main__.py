"""Entry of one process of a smoke: ``python -m server.adapters.worker.smoke JOB``, started by the command only."""

import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import msgspec

from server.adapters.worker.devices import choose_device
from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.environment import die_with_front, prepare
from server.adapters.worker.environment import installed_versions as versions
from server.adapters.worker.folder import inspect
from server.core.layout import problems
from server.core.padding import pad_rows
from server.core.smoke import Part, Placed, Reference
from server.core.warmup import order
from server.ports.smoke import Job


def main(arguments: list[str]) -> int:
    """0: the result was written, be it the reason why there is none."""
    job = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Job)
    die_with_front(job.start.front_pid)
    met: list[str] = []

    def show(message: Warning | str, *ignored: Any, **ignored_too: Any) -> None:
        if str(message) not in met:
            met.append(str(message))

    warnings.simplefilter("always")
    warnings.showwarning = show
    part: Part[Any]
    try:
        part = Part(_run(job), warnings=tuple(met))
    except EngineFailed as error:
        part = Part(None, str(error), tuple(met))
    except Exception as error:  # whatever torch raises is the finding
        traceback.print_exc()
        part = Part(None, f"{type(error).__name__}: {str(error)[:600]}", tuple(met))
    Path(job.result).write_bytes(msgspec.json.encode(part))
    return 0


def _run(job: Job) -> Reference | Placed:
    start = job.start
    began = time.perf_counter()
    folder = inspect(Path(start.model_path), start.model_format, start.sha256, Path(start.cache_dir))
    prepare(start, versions())
    # From here on the environment is set, so torch may be imported.
    from server.adapters.worker.loaders import load_model

    model = load_model(folder, start)
    if job.mode == "reference":
        return _reference(job, model)
    from server.adapters.worker.smoke.placed import run_placed

    return run_placed(job, model, choose_device(start), time.perf_counter() - began)


def _reference(job: Job, model: Any) -> Reference:
    from server.adapters.worker.samples import arrays_of
    from server.adapters.worker.smoke import arrays
    from server.adapters.worker.smoke.audit import audit

    if found := problems(model.signature, job.start.dimensions, job.start.buckets):
        raise EngineFailed("; ".join(found))
    given, whole = {}, []
    for bucket in order(job.start.buckets):
        rows = arrays.rows_for(model, bucket, job.start.dimensions)
        outputs, alone = arrays.reference_for(model, rows, bucket)
        given[bucket] = arrays_of(pad_rows(rows, bucket)), outputs
        if not alone:
            whole.append(str(bucket))
    arrays.write(Path(job.arrays), given)
    tensors = list(model.module.state_dict().values())
    # A batch of one exports as a constant; the largest bucket is none unless all are.
    return Reference(
        revision=model.revision,
        signature=model.signature,
        vocabulary=model.vocabulary,
        inputs=arrays.inputs_in_words(model),
        parameters=sum(tensor.numel() for tensor in tensors),
        weight_bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        audit=audit(model, next(iter(given.values()))[0]),
        whole_batches=tuple(whole),
    )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # Interpreter shutdown of a device runtime may hang or crash; the result is written.
    import os

    os._exit(code)
