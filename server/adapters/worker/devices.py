"""From a device's name to the Device; what it needs is imported here, in the worker, and nothing else is."""

from server.adapters.worker.engine import Device
from server.ports.worker import Start


def choose_device(start: Start) -> Device:
    """The device that the configuration names; not opened yet."""
    match start.device:
        case "cpu":
            from server.adapters.worker.torch_device import CpuDevice

            return CpuDevice(start.threads)
        case "cuda":
            from server.adapters.worker.torch_device import CudaDevice

            return CudaDevice()
        case "tpu":
            from server.adapters.worker.tpu import TpuDevice

            return TpuDevice()
        case "tpu-emulator":
            from server.adapters.worker.tpu_emulator import EmulatedTpuDevice

            return EmulatedTpuDevice(allowed=start.emulator_allowed)
