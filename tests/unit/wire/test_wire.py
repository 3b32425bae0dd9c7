"""The wire contract, spelled a second time by hand."""

import inspect
import re

import msgspec
import pytest

from wire import admin, errors, headers, health, metrics, oip, openai

IDENTITY = health.Identity(
    model="m", revision="r", tokenizer="t", truncation="never", output="o", dtype="float32", matmul_precision="highest",
    catalogue="c", device="cpu", emulated=False, compiled=False, strict=True, torch="2.13.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "parsed"),
    [("1", 1), ("250", 250), ("86400000", 86_400_000), ("86400001", None), ("0", None), ("-5", None), ("+5", None),
     ("1.5", None), ("", None), ("１２", None), (" 5", None), ("9" * 30, None)],
)  # fmt: skip
def test_a_deadline_is_a_plain_positive_integer_or_nothing(value: str, parsed: int | None) -> None:
    """Anything else is ignored, never an error."""
    assert headers.parse_deadline_ms(value) == parsed


def test_header_names_are_lower_case_and_ours_share_a_prefix() -> None:
    """ASGI and httptools deliver lower case; what is dropped from clients is found by the prefix."""
    names = [value for name, value in vars(headers).items() if name.isupper() and isinstance(value, str)]
    assert all(name == name.lower() for name in names)
    ours = set(names) - {headers.REQUEST_ID, headers.SERVER_TIMING, headers.TRACE_PARENT, headers.TRACE_STATE}
    assert all(name.startswith(headers.PREFIX) for name in ours)
    assert ours | {headers.SERVER_TIMING} >= headers.TIMINGS


def test_error_bodies_take_the_protocols_shape() -> None:
    """OpenAI nests and names type and code; OIP is flat with a reason."""
    reason = errors.Reason.SHAPE_NOT_SERVED
    assert errors.error_body("/v1/embeddings", reason, "too long", param="input") == (
        b'{"error":{"message":"too long","type":"invalid_request_error","code":"shape_not_served","param":"input"}}'
    )
    assert errors.error_body("/v2/models/m/infer", reason, "too long") == (
        b'{"error":"too long","reason":"shape_not_served"}'
    )
    assert b'"type":"server_error"' in errors.error_body("/v1/embeddings", errors.Reason.NOT_READY, "warming")


def test_every_reason_has_a_status() -> None:
    """4xx is the caller's fault, 5xx ours."""
    assert set(errors.STATUS) == set(errors.Reason)
    assert all(400 <= status < 600 for status in errors.STATUS.values())


def test_openai_base64_is_little_endian_float32() -> None:
    """1.0 and -2.0, by hand."""
    raw = bytes.fromhex("0000803f000000c0")
    assert openai.encode_base64(raw) == "AACAPwAAAMA="
    assert openai.decode_base64("AACAPwAAAMA=") == raw
    with pytest.raises(ValueError, match="base64"):
        openai.decode_base64("not base64!")


def test_an_openai_answer_reads_as_documented() -> None:
    """Field names and constants of the embeddings list."""
    answer = openai.EmbeddingResponse(
        data=[openai.Embedding(index=0, embedding="AACAPw==")], model="m", usage=openai.Usage(3, 3)
    )
    assert msgspec.json.decode(msgspec.json.encode(answer)) == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": "AACAPw=="}],
        "model": "m",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }


def test_an_oip_request_and_answer_read_as_documented() -> None:
    """id and model_version are left out when there are none."""
    request = msgspec.json.decode(
        b'{"id":"7","inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}]}', type=oip.InferRequest
    )
    assert (request.id, request.inputs[0].datatype, request.outputs) == ("7", "BYTES", None)
    answer = oip.InferResponse(model_name="m", outputs=[oip.OutputTensor("e", [1, 1], "FP32", [0.5])])
    assert msgspec.json.encode(answer) == (
        b'{"model_name":"m","outputs":[{"name":"e","shape":[1,1],"datatype":"FP32","data":[0.5]}]}'
    )


def test_the_identity_digest_follows_every_field() -> None:
    """Sixteen hex digits, equal for equal identities, another for any changed field."""
    assert re.fullmatch(r"[0-9a-f]{16}", IDENTITY.digest())
    seen = {IDENTITY.digest()}
    for name in IDENTITY.__struct_fields__:
        value = getattr(IDENTITY, name)
        other = (not value) if isinstance(value, bool) else f"{value}x"
        seen.add(msgspec.structs.replace(IDENTITY, **{name: other}).digest())
    assert len(seen) == len(IDENTITY.__struct_fields__) + 1


def test_metric_names_say_whose_they_are() -> None:
    """A prefix for each program, help for each metric, no name twice."""
    found = [value for value in vars(metrics).values() if isinstance(value, metrics.Metric)]
    assert len({m.name for m in found}) == len(found)
    assert all(m.name.startswith(("canary_gateway_", "canary_server_")) and m.help.endswith(".") for m in found)
    assert list(metrics.SECONDS_EDGES) == sorted(set(metrics.SECONDS_EDGES))
    assert {0.001, 0.01, 0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0} <= set(
        metrics.SECONDS_EDGES
    )


def test_admin_structs_survive_the_round_trip() -> None:
    """A status with everything filled reads back equal."""
    status = admin.Status(
        rollout="r", replica="0", at=1.0, state="stepping", weight=1000, epoch=2, store="ok", snapshot_version=3,
        arms=[admin.ArmView(name="gpu", role="baseline", url="u", ready=True)],
        workers=[admin.WorkerView(name="w0", pid=1, acknowledged_version=3, age_s=0.1, in_flight=0)],
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(status), type=admin.Status) == status
    assert inspect.signature(admin.CommandRequest).parameters["override"].default is False


def test_compiled_shapes_are_read_and_nothing_else() -> None:
    """What an arm says ends up in journals and terminals: only digits and x get through."""
    assert headers.parse_compiled("4x128, 1x64") == ("4x128", "1x64")
    assert headers.parse_compiled("8x3x224x224") == ("8x3x224x224",)
    assert headers.parse_compiled("") == ()
    assert headers.parse_compiled("\x1b[2J,0x1,1x2;3,x,4x" + "9" * 8) == ()
    assert headers.parse_compiled(",".join(["1x2"] * 9)) == ("1x2",) * headers.MAX_COMPILED
    assert headers.parse_compiled("1x2," * 1000) == ()
