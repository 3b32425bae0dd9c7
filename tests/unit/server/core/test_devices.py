"""Which device may be used."""

from server.core.devices import TpuHardware, refuse_device

NONE, CHIP = TpuHardware(), TpuHardware(pci=("0000:00:05.0",))


def test_a_tpu_without_hardware_is_refused_with_the_choices() -> None:
    """The sentence says what was looked for and what else there is."""
    refusal = refuse_device("tpu", NONE, emulator_allowed=False)
    assert refusal is not None
    for part in ("0x1ae0", "/dev/accel", "cpu", "cuda", "tpu-emulator for tests"):
        assert part in refusal


def test_a_tpu_with_hardware_may_be_tried() -> None:
    """A PCI function or an accelerator node is enough."""
    assert refuse_device("tpu", CHIP, emulator_allowed=False) is None
    assert refuse_device("tpu", TpuHardware(nodes=("/dev/accel0",)), emulator_allowed=False) is None


def test_the_emulator_needs_a_persons_word() -> None:
    """Without the variable it is refused, naming the variable."""
    refusal = refuse_device("tpu-emulator", NONE, emulator_allowed=False)
    assert refusal is not None
    assert "CANARY_ALLOW_EMULATOR=1" in refusal
    assert refuse_device("tpu-emulator", NONE, emulator_allowed=True) is None


def test_the_emulator_is_refused_beside_real_hardware() -> None:
    """Nobody should serve from it by mistake where a TPU stands."""
    refusal = refuse_device("tpu-emulator", CHIP, emulator_allowed=True)
    assert refusal is not None
    assert "0000:00:05.0" in refusal


def test_cpu_and_cuda_are_not_the_fronts_decision() -> None:
    """Their libraries know best."""
    assert refuse_device("cpu", CHIP, emulator_allowed=False) is None
    assert refuse_device("cuda", NONE, emulator_allowed=False) is None
