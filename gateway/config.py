"""The only reader of the gateway's configuration file. Every problem is reported at once, before a port opens."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

API_VERSION = "canary/v1"


class ConfigError(Exception):
    """``problems`` names each field, its value and what is allowed."""

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__(f"{source}: {len(problems)} problem(s)")
        self.source, self.problems = source, problems


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _arm_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from error
    wrong = parts.scheme != "http" or parts.query or parts.fragment or parts.username or port == 0
    if wrong or not HOST_FORM.fullmatch(parts.hostname or "") or not PATH_FORM.fullmatch(parts.path):
        raise ValueError("must be http://HOST:PORT with an optional path; https to an arm is not in this version")
    return value.rstrip("/")


def _listen_host(value: str) -> str:
    if value != "localhost":
        try:
            ipaddress.ip_address(value)
        except ValueError:
            raise ValueError("must be an IP address of this machine, or localhost") from None
    return value


def _file_to_write(value: Path | None) -> Path | None:
    if value is not None and not value.absolute().parent.is_dir():
        raise ValueError("its folder does not exist")
    return value


# Names and addresses as DNS and RFC 3986 have them; a path that needs no escaping.
HOST_FORM = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*|[0-9a-f:]+")
PATH_FORM = re.compile(r"[A-Za-z0-9/._~%-]*")
FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type"})


def _no_nul(value: Path) -> Path:
    if "\0" in str(value):
        raise ValueError("a path cannot hold a NUL")
    return value


def _key_header(value: str) -> str:
    if value in FRAMING:
        raise ValueError("is the same for every request or frames it; name a header that identifies a caller")
    return value


Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=3600)]


class Listen(_Strict):
    """Port 0 takes a free one; the ports file says which."""

    host: Annotated[str, AfterValidator(_listen_host)] = "127.0.0.1"
    port: Port = 0


class AdminListen(Listen):
    """``hosts``: further names under which the admin port is asked for; any other Host header is refused."""

    hosts: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,253}$")]] = []


class Timeouts(_Strict):
    """Of one request to an arm, in seconds. ``total_s`` does not apply to streams."""

    connect_s: Seconds = 2.0
    first_byte_s: Seconds = 10.0
    idle_s: Seconds = 30.0
    total_s: Seconds = 60.0


class ArmConfig(_Strict):
    """One arm. ``profile`` says how its readiness and routes look."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    url: Annotated[str, AfterValidator(_arm_url)]
    profile: Literal["ours"] = "ours"
    timeouts: Timeouts = Timeouts()
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] = 256
    max_connections: Annotated[int, Field(ge=1, le=10_000)] = 128
    keepalive_s: Seconds = 30.0

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 80

    @property
    def base_path(self) -> str:
        return urlsplit(self.url).path.rstrip("/")


class Arms(_Strict):
    baseline: ArmConfig
    candidate: ArmConfig


class DrainConfig(_Strict):
    """On SIGTERM: not ready at once, accept for ``delay_s``, then finish within ``limit_s``."""

    delay_s: Annotated[float, Field(ge=0, le=600)] = 5.0
    limit_s: Annotated[float, Field(gt=0, le=3600)] = 30.0


class Limits(_Strict):
    """Sizes in bytes. ``client_read_s``: how long a client may pause while it sends a body."""

    replay_buffer: Annotated[int, Field(ge=1024, le=64 << 20)] = 1 << 20
    replay_buffer_total: Annotated[int, Field(ge=1 << 20, le=4 << 30)] = 64 << 20
    answer_hold: Annotated[int, Field(ge=1024, le=4 << 20)] = 256 << 10
    max_body: Annotated[int, Field(ge=1024, le=1 << 30)] = 16 << 20
    client_read_s: Seconds = 30.0


class Store(_Strict):
    """``evidence_days``: for how long recorded evidence is kept, which a replay and a calibration read."""

    evidence_days: Annotated[float, Field(gt=0, le=366)] = 30


class Key(_Strict):
    """Stickiness: requests with the same value of this header stay on one arm. Without it each request is drawn."""

    header: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$"), AfterValidator(_key_header)]


class GatewayConfig(_Strict):
    """One gateway: one rollout of one model."""

    apiVersion: Literal["canary/v1"]
    kind: Literal["Gateway"]
    rollout: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    model: Annotated[str, Field(min_length=1, max_length=256)]
    listen: Listen = Listen(port=8080)
    admin: AdminListen = AdminListen(port=8081)
    state_dir: Annotated[Path, AfterValidator(_no_nul)]
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    key: Key | None = None
    expose_timings: bool = False
    ports_file: Annotated[Path | None, AfterValidator(_file_to_write)] = None
    access_log: Annotated[Path | None, AfterValidator(_file_to_write)] = None
    drain: DrainConfig = DrainConfig()
    limits: Limits = Limits()
    store: Store = Store()
    arms: Arms


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def describe(error: ValidationError) -> list[str]:
    """One line for each problem: path, value, what is allowed."""
    lines = []
    for problem in error.errors(include_url=False):
        path = ".".join(str(part) for part in problem["loc"]) or "document"
        message = problem["msg"].removeprefix("Value error, ")
        value = "" if problem["type"] in ("missing", "extra_forbidden") else f"{_shown(problem['input'])}: "
        lines.append(f"{path}: {value}{message}")
    return lines


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def load(path: Path) -> GatewayConfig:
    """Reads and checks the file. Raises ConfigError with every problem."""
    source = str(path)
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(source, [f"cannot be read: {error.strerror}"]) from error
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError) as error:  # its tags raise them all
        raise ConfigError(source, [f"is not YAML: {error}"]) from error
    try:
        config = GatewayConfig.model_validate(document)
    except ValidationError as error:
        raise ConfigError(source, describe(error)) from error
    problems = _cross_checks(config)
    if problems:
        raise ConfigError(source, problems)
    return config


def _cross_checks(config: GatewayConfig) -> list[str]:
    problems = []
    baseline, candidate = config.arms.baseline, config.arms.candidate
    if baseline.name == candidate.name:
        problems.append(f"arms.candidate.name: '{candidate.name}' is also the baseline's name; arms need two names")
    if baseline.url == candidate.url:
        problems.append(f"arms.candidate.url: '{candidate.url}' is also the baseline's; a canary needs two endpoints")
    if config.listen.port and config.listen.port == config.admin.port:
        problems.append(f"admin.port: {config.admin.port} is also listen.port; the ports must differ")
    return problems
