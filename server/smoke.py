"""``canary-server smoke``: tries a configuration's model on its device and writes the acceptance sheet."""

import os
import platform
import signal
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from server.adapters.smoke_processes import run_process
from server.adapters.smoke_questions import Questions
from server.adapters.smoke_service import ServiceFailed, measure
from server.adapters.worker.environment import PACKAGES, installed_versions
from server.adapters.worker.hardware import slice_name
from server.adapters.worker.requirements import unmet
from server.config import Settings
from server.core.acceptance_checks import Asked, Found
from server.core.acceptance_sheet import sheet_of
from server.core.layout import MAX_BATCH_BYTES
from server.core.sheet import Sheet, markdown
from server.core.smoke import Part, Placed, Reference, Service
from server.core.tolerance import tolerance_for
from server.main import start_command
from server.ports.smoke import Job
from server.ports.worker import Start

STEADY_CALLS = 20
MORE_PACKAGES = ("tpu-canary", "safetensors", "numpy", "tokenizers")


def run(settings: Settings, out: Path, *, emulator_allowed: bool) -> int:
    """Writes acceptance.json and acceptance.md. 0: accepted; 1: not, or the files cannot be written."""
    # A SIGTERM unwinds, so that no process of the smoke is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="canary-smoke-", dir=settings.cache_dir) as scratch:
        try:
            out.mkdir(parents=True, exist_ok=True)
            sheet = _smoke(settings, out, Path(scratch), emulator_allowed=emulator_allowed)
            (out / "acceptance.json").write_bytes(_document(sheet))
            (out / "acceptance.md").write_text(markdown(sheet), encoding="utf-8")
        except OSError as error:
            print(f"canary-server: smoke: {error}", file=sys.stderr)
            return 1
    for check in sheet.checks:
        print(f"{check.outcome:>13}  {check.name}: {check.found or check.why}")
    print(f"\n{sheet.listing.title}: {sheet.listing.why or sheet.listing.purpose}\n")
    print("".join(f"{line}\n" for line in sheet.listing.lines))
    print(f"{out / 'acceptance.md'}\n{sheet.verdict}")
    return 0 if sheet.accepted else 1


def _smoke(settings: Settings, out: Path, scratch: Path, *, emulator_allowed: bool) -> Sheet:
    """Programs go to a cache folder of this smoke alone, so that first calls are cold; the service then finds them."""
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    start = replace(
        start_command(settings, settings.shapes(), emulator_allowed=emulator_allowed), cache_dir=str(scratch)
    )
    tolerance = tolerance_for(settings.dtype, settings.matmul_precision, settings.device)

    def job(mode: Any, given: Start) -> Job:
        result = str(scratch / f"{mode}.json")
        return Job(mode, given, tolerance, str(scratch / "arrays.safetensors"), result, STEADY_CALLS)

    _say("the model on the CPU in float32")
    reference = run_process(job("reference", start), Reference, out)
    if reference.result is None:
        missing = f"there is no reference: {reference.error}"
        eager: Part[Placed] = Part(None, missing)
        compiled: Part[Placed] = Part(None, missing)
    else:
        _say(f"eager on {settings.device}")
        eager = run_process(job("eager", _for_eager(start)), Placed, out)
        _say(f"compiled on {settings.device}")
        compiled = run_process(job("compiled", start), Placed, out)
    service = _service(settings, start, reference, scratch, out)
    packages = (*PACKAGES, *MORE_PACKAGES)
    asked = Asked(
        model=settings.model.name,
        model_format=settings.model.format,
        device=settings.device,
        dtype=settings.dtype,
        precision=settings.matmul_precision,
        catalogue=str(settings.shapes()),
        threads=settings.threads,
        shapes=len(start.buckets),
        served="compiled" if _serves_compiled(settings) else "eager",
        tolerance=tolerance,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        machine=platform.platform(),
        load=load,
        slice=slice_name(),
        versions=installed_versions(packages),
        unmet=unmet(packages),
    )
    return sheet_of(asked, Found(reference, eager, compiled, service))


def _serves_compiled(settings: Settings) -> bool:
    return settings.compile is True or settings.device in ("tpu", "tpu-emulator")


def _for_eager(start: Start) -> Start:
    """On a TPU eager operations compile one by one, too, for every shape: one shape shows what there is to see."""
    if start.device in ("cpu", "cuda"):
        return start
    return replace(start, buckets=(min(start.buckets, key=lambda bucket: bucket.cells),))


def _service(settings: Settings, start: Start, reference: Part[Reference], scratch: Path, out: Path) -> Part[Service]:
    """The same configuration on free ports, for bodies as large as a full batch, when the model can be loaded."""
    if reference.result is None:
        return Part(None, f"not tried: {reference.error}")
    _say("the server, asked over HTTP")
    document = settings.model_dump(mode="json", exclude_unset=True)
    ports, config = scratch / "ports.json", scratch / "server.yaml"
    document |= {
        "device": settings.device,
        "cache_dir": str(scratch),
        "ports_file": str(ports),
        "listen": {"port": 0, "max_body": MAX_BATCH_BYTES},
        "admin": {"port": 0},
        "access_log": None,
    }
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        # Whole numbers of the requests; of a model that takes no ids a small one.
        questions = Questions(start.dimensions, reference.result.vocabulary or 2)
        found = measure(config, ports, out / "service.log", settings.model.name, questions.body, start.buckets)
    except (ServiceFailed, OSError, ValueError, KeyError) as error:
        return Part(None, f"{error}")
    return Part(found)


def _document(sheet: Sheet) -> bytes:
    plain = {"apiVersion": "canary/v1", "kind": "AcceptanceSheet", "accepted": sheet.accepted}
    raw: bytes = msgspec.json.format(msgspec.json.encode(plain | msgspec.to_builtins(sheet)), indent=2)
    return raw + b"\n"


def _say(what: str) -> None:
    print(f"smoke: {what}", file=sys.stderr)
