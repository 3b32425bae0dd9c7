"""Who takes part: the processes of one demo, with what each is told. Nothing here waits for any of them."""

import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from demo import documents
from demo.arms import Arm
from demo.options import Options
from demo.processes import Crew
from demo.sizing import Sizing
from demo.weights import Weights

_FOLDER: Final = Path(__file__).resolve().parent.parent


class Cast:
    """Starts the processes of ``options``. Every method that starts one gives the file in which it tells its ports.

    ``work`` is an empty private folder. Each method raises OSError when its process cannot be started.
    """

    def __init__(self, options: Options, weights: Weights, *, work: Path) -> None:
        self._options = options
        self._weights = weights
        self._work = work
        self._logs = options.results / "logs"
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONUNBUFFERED": "1"}
        environment.pop("CANARY_ALLOW_EMULATOR", None)
        self.crew = Crew(self._logs, folder=_FOLDER, environment=environment)
        self.new_traffic = work / "new-traffic"
        """When this file appears clients send the scenario's second mix."""

    def server(self, arm: Arm) -> Path:
        ports = self._work / f"{arm.role}.ports.json"
        document = documents.server(
            arm,
            self._options.scenario,
            weights=self._weights,
            cache_dir=self._options.cache_dir,
            ports_file=ports,
            access_log=self._logs / f"{arm.role}-access.log",
        )
        config = self._write(f"{arm.role}.yaml", document)
        allowed = {"CANARY_ALLOW_EMULATOR": "1"} if arm.device == "tpu-emulator" else {}
        self.crew.start(arm.role, python("server", "--config", str(config)), environment=allowed)
        return ports

    def proxy(self, *, port: int) -> Path:
        """The fault proxy before the candidate, which listens on ``port``."""
        ports = self._work / "proxy.ports.json"
        words = ["--upstream", f"127.0.0.1:{port}", "--ports-file", str(ports)]
        self.crew.start("fault-proxy", python("demo.fault_proxy", *words))
        return ports

    def gateway(self, *, baseline_url: str, candidate_url: str, sized: Sizing) -> Path:
        ports = self._work / "gateway.ports.json"
        state_dir = self._work / "state"
        state_dir.mkdir(mode=0o700)
        document = documents.gateway(
            self._options.arms,
            model=self._weights.name,
            limit_ms=sized.limit_ms,
            baseline_url=baseline_url,
            candidate_url=candidate_url,
            state_dir=state_dir,
            ports_file=ports,
            access_log=self._logs / "gateway-access.log",
        )
        self.crew.start("gateway", python("gateway", "--config", str(self._write("gateway.yaml", document))))
        return ports

    def load(self, *, host: str, reference: str, rate: float, seconds: float) -> Path:
        """The load generator; gives the folder of its statistics."""
        out = self._options.results / "load"
        words = ["run", "--host", host, "--reference", reference, "--rate", str(rate), "--seconds", str(seconds)]
        words += ["--seed", str(self._options.seed), "--model", self._weights.name, "--out", str(out)]
        words += self._mix_words()
        if (then_mix := self._options.scenario.then_mix) is not None:
            words += ["--then-mix", str(self._write("then-mix.json", then_mix)), "--then-when", str(self.new_traffic)]
        self.crew.start("load", python("loadtest", *words))
        return out

    def mix(self) -> Path:
        """The load generator once more, only to say what it will send; gives the file of its answer."""
        told = self._work / "mix-shares.json"
        catalogue = documents.catalogue(self._options.arms.candidate, self._options.scenario)
        words = ["mix", "--seed", str(self._options.seed), "--catalogue", catalogue, *self._mix_words()]
        self.crew.start("mix", python("loadtest", *words), output=told, may_end=True)
        return told

    def _mix_words(self) -> list[str]:
        mix = self._options.scenario.mix
        return [] if mix is None else ["--mix", str(self._write("mix.json", mix))]

    def _write(self, name: str, document: dict[str, Any]) -> Path:
        path = self._work / name
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
        return path


def python(module: str, *words: str) -> list[str]:
    """The command line of one of our programs."""
    return [sys.executable, "-m", module, *words]
