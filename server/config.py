"""The one reader of files and environment: everything is checked, and every problem reported, before a port opens."""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from server.core.catalog import TEXT, Catalogue, CatalogueRefused
from server.core.declare import catalogue_of, document_of
from server.core.types import Bucket, DeviceKind, DtypeName, MatmulPrecision, ModelFormat
from server.core.warmup import StabilityRule
from server.observing import MetricsSection, ProfilerSection, TracingSection

ALLOW_EMULATOR = "CANARY_ALLOW_EMULATOR"
# Models of other formats say themselves what they take, see canary-model.json.
TEXT_FORMATS = ("sentence-transformers", "sequence-classification")


class ConfigRefused(Exception):
    """The configuration cannot be used. ``problems`` is complete: path, value, what is allowed."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


def _loopback(host: str) -> str:
    try:
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return host
    except ValueError:
        pass
    raise ValueError("allowed is a loopback address: the admin port has no tokens in this version")


def _in_a_folder(path: Path) -> Path:
    if not path.parent.is_dir():
        raise ValueError(f"allowed is a file in an existing folder, {path.parent} is none")
    if path.is_dir():
        raise ValueError("allowed is a file, not a folder")
    return path


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class ModelSection(_Section):
    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    path: Path
    format: ModelFormat
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    factory: str | None = Field(
        default=None, validate_default=True, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
    )
    # Whether clients may ask for fewer dimensions: only of a model that was trained for it (Matryoshka).
    shorten: bool = False

    @field_validator("factory", mode="after")
    @classmethod
    def _builds_one_format(cls, value: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("format") == "python-factory" and value is None:
            raise ValueError("allowed is module:function that builds the model, since format is python-factory")
        if info.data.get("format") not in ("python-factory", None) and value is not None:
            raise ValueError(f"allowed with format python-factory only, not with {info.data['format']}")
        return value


class LargestSection(_Section):
    """The largest shape that a lenient server serves at all."""

    batch: int = Field(ge=1, le=4096)
    length: int = Field(ge=1)

    def bucket(self) -> Bucket:
        return Bucket(self.batch, self.length)


class ListenSection(_Section):
    """``max_body`` bytes of one request, decoded or not. Above 60 MiB no batch could carry it."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    max_body: int = Field(default=2**20, ge=1024, le=60 * 2**20)


class AdminSection(_Section):
    host: Annotated[str, AfterValidator(_loopback)] = "127.0.0.1"
    port: int = Field(default=8001, ge=0, le=65535)


class QueueSection(_Section):
    """``max_rows`` that wait, which also bounds one request; ``max_wait_ms`` of estimated work before a request."""

    max_rows: int = Field(default=256, ge=1, le=100_000)
    max_wait_ms: int = Field(default=1000, ge=1, le=3_600_000)


# From the end of the drain to the end of the process: the last answers leave and the worker is ended.
LEAVE_S = 2.0


class DrainSection(_Section):
    """``grace_s`` is the platform's: from SIGTERM to SIGKILL, or a spot instance's notice. None: not compared."""

    delay_s: float = Field(default=1.0, ge=0, le=600)
    limit_s: float = Field(default=20.0, gt=0, le=3600)
    grace_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> "DrainSection":
        if self.grace_s is not None and self.delay_s + self.limit_s + LEAVE_S > self.grace_s:
            raise ValueError(
                f"drain: got delay_s {self.delay_s:g} and limit_s {self.limit_s:g} for grace_s {self.grace_s:g}, "
                f"allowed is delay_s + limit_s up to {max(0.0, self.grace_s - LEAVE_S):g}: "
                f"{LEAVE_S:g} s are for what comes after"
            )
        return self


class WarmUpSection(_Section):
    """``limit_s``: of loading, and of each bucket; beyond it the server counts as stuck until the step is done."""

    stable_change: float = 0.1
    min_calls: int = 3
    max_calls: int = 10
    parallel: bool = True
    limit_s: float = Field(default=600.0, ge=1, le=86_400)

    @model_validator(mode="after")
    def _buildable(self) -> "WarmUpSection":
        StabilityRule(self.stable_change, self.min_calls, self.max_calls)
        return self


class StuckSection(_Section):
    """A batch may take ``times`` the warm median of its bucket, and ``floor_s`` in any case."""

    times: float = Field(default=20.0, ge=2, le=1000)
    floor_s: float = Field(default=30.0, ge=1, le=3600)


class RestartSection(_Section):
    """Of a worker that is lost: how often in a row, the first pause, and how long it must be ready to be forgiven."""

    limit: int = Field(default=3, ge=0, le=100)
    back_off_s: float = Field(default=1.0, gt=0, le=60)
    steady_s: float = Field(default=600.0, gt=0, le=86_400)


class Settings(_Section):
    """The document. Times in seconds; port 0 lets the system choose (see ``ports_file``)."""

    apiVersion: Literal["canary/v1"]
    kind: Literal["Server"]
    model: ModelSection
    device: DeviceKind
    dtype: DtypeName = "float32"
    matmul_precision: MatmulPrecision = "highest"
    compile: bool | None = None
    strict: bool = True
    threads: int = Field(default=1, ge=1, le=1024)
    catalogue: Annotated[Catalogue, PlainValidator(catalogue_of), PlainSerializer(document_of)]
    largest: LargestSection | None = Field(default=None, validate_default=True)
    listen: ListenSection = ListenSection()
    admin: AdminSection = AdminSection()
    cache_dir: Path
    ports_file: Annotated[Path, AfterValidator(_in_a_folder)] | None = None
    queue: QueueSection = QueueSection()
    drain: DrainSection = DrainSection()
    access_log: Annotated[Path, AfterValidator(_in_a_folder)] | None = None
    warm_up: WarmUpSection = WarmUpSection()
    stuck: StuckSection = StuckSection()
    restart: RestartSection = RestartSection()
    metrics: MetricsSection = MetricsSection()
    tracing: TracingSection | None = None
    profiler: ProfilerSection | None = None

    @field_validator("catalogue", mode="after")
    @classmethod
    def _dimensions_of_the_model(cls, value: Catalogue, info: ValidationInfo) -> Catalogue:
        model = info.data.get("model")
        if model is not None and model.format in TEXT_FORMATS and value.names != TEXT:
            raise ValueError(
                f"catalogue: got the dimensions {', '.join(value.names) or 'none'}, allowed is length alone: "
                f"a model of format {model.format} takes texts"
            )
        return value

    @field_validator("largest", mode="after")
    @classmethod
    def _bounds_what_is_undeclared(cls, value: LargestSection | None, info: ValidationInfo) -> LargestSection | None:
        """A validator of the field, not of the document: those run only when nothing else is wrong."""
        strict, catalogue = info.data.get("strict"), info.data.get("catalogue")
        if strict is True and value is not None:
            raise ValueError(
                f"got batch {value.batch} and length {value.length}, "
                "allowed is no such section unless strict is false: a strict server serves what it declares"
            )
        if strict is False and value is None:
            raise ValueError(
                "allowed are batch and length of the largest shape to serve, since strict is false: "
                "each new shape costs a compile while clients wait"
            )
        if value is not None and catalogue is not None:
            declared = replace(catalogue, largest=value.bucket())
            if strict is False and declared.programs == len(declared.buckets()):
                raise ValueError(
                    f"got batch {value.batch} and length {value.length}, which is the largest declared shape, so there "
                    "is nothing undeclared to serve: allowed are strict: true without this section, or a larger one"
                )
        return value

    @model_validator(mode="after")
    def _compiles_on_tpu(self) -> "Settings":
        if self.device in ("tpu", "tpu-emulator") and self.compile is False:
            raise ValueError(
                f"compile: got false for device {self.device}, allowed is true or null: eager is no service"
            )
        return self

    def shapes(self) -> Catalogue:
        """The declared shapes, and the bound of a lenient server."""
        return replace(self.catalogue, largest=None if self.largest is None else self.largest.bucket())


def load(path: Path, device: str | None) -> Settings:
    """The settings of a file, with ``device`` from the command line in place of the file's. Raises ConfigRefused."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, AttributeError, RecursionError, yaml.YAMLError) as error:  # its tags raise them all
        raise ConfigRefused([f"{path}: cannot be read as YAML: {error}"]) from error
    if not isinstance(document, dict):
        raise ConfigRefused([f"{path}: got {type(document).__name__}, allowed is a mapping with apiVersion and kind"])
    if device is not None:
        document = {**document, "device": device}
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        raise ConfigRefused(
            [sentence for problem in error.errors(include_url=False) for sentence in _sentences(problem)]
        ) from error


def emulator_allowed() -> bool:
    """Whether the person who starts this process said that it is a test."""
    return os.environ.get(ALLOW_EMULATOR) == "1"


def prepare_cache_dir(folder: Path) -> None:
    """Creates the folder for compile caches, mode 0700. Raises ConfigRefused.

    Cached programs are code: a folder that others can write to would let them run theirs.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except OSError as error:
        raise ConfigRefused([f"cache_dir: got {folder}, allowed is a folder of ours: {error}"]) from error
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise ConfigRefused(
            [f"cache_dir: got {folder} (owner {state.st_uid}, mode {state.st_mode & 0o777:o}), "
             "allowed is a folder of this user that nobody else can write to"]
        )  # fmt: skip
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigRefused(
            [f"cache_dir: got {folder} (mode {state.st_mode & 0o777:o}), allowed is one to read and write"]
        )


def _sentences(problem: Any) -> list[str]:
    cause = problem.get("ctx", {}).get("error")
    return list(cause.problems) if isinstance(cause, CatalogueRefused) else [_sentence(problem)]


def _sentence(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "document"
    text = str(problem["msg"]).removeprefix("Value error, ")
    match problem["type"]:
        case "missing":
            return f"{where}: is missing"
        case "extra_forbidden":
            return f"{where}: is not a known setting"
        case "value_error" if problem["input"] is None:
            return f"{where}: is missing, {text}"
        case "value_error" if isinstance(problem["input"], dict | BaseModel | Catalogue):
            return text if where == "document" or text.startswith(where) else f"{where}: {text}"
        case _:
            return f"{where}: got {problem['input']!r}, {text[0].lower()}{text[1:]}"
