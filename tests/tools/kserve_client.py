"""KServe's REST client, run by the interpreter that has it: asks the server at argv[1] for the model argv[2].

Prints what the client made of each answer, as JSON: truth of the health calls, output or error of the others.
"""

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

TEXTS = np.array([b"Hello world", "naïve café".encode()], dtype=np.object_)
IDS = np.array([[101, 7592, 2088, 102]], dtype=np.int64)
OUTPUT = "embedding"


def tensor(name, values, datatype, binary):
    given = InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, binary_data=binary)
    return given


def question(name, inputs, model, outputs=None, **parameters):
    asked = None if outputs is None else [RequestedOutput(OUTPUT, {"binary_data": outputs})]
    return InferRequest(model, inputs, request_id=name, request_outputs=asked, parameters=parameters or None)


def questions(model):
    """By name. The client knows no BF16."""
    for binary in (True, False):
        for outputs in (None, True, False):
            name = f"text {binary} {outputs}"
            yield question(name, [tensor("text", TEXTS, "BYTES", binary)], model, outputs)
    for datatype, kind in (("INT64", np.int64), ("INT32", np.int32), ("FP32", np.float32), ("FP16", np.float16)):
        ones = np.ones_like(IDS).astype(kind)
        inputs = [tensor("input_ids", IDS, "INT64", True), tensor("attention_mask", ones, datatype, True)]
        yield question(f"mask {datatype}", inputs, model)
    ids = [tensor("input_ids", IDS, "INT64", True)]
    yield question("narrow", ids, model, True, output_datatype="FP16")
    yield question("deadline", ids, model, None, timeout=60_000_000)


async def ask(url, model):
    found = {}
    async with InferenceRESTClient(RESTConfig(protocol="v2", retries=0, timeout=60)) as client:
        found["live"] = await client.is_server_live(url)
        found["ready"] = await client.is_server_ready(url)
        found["model ready"] = await client.is_model_ready(url, model)
        found["other ready"] = await client.is_model_ready(url, "other")
        for asked in questions(model):
            answer = await client.infer(url, asked, model_name=model)
            (output,) = answer.outputs
            values = output.as_numpy()
            found[asked.id] = {
                "id": answer.id,
                "datatype": output.datatype,
                "shape": list(values.shape),
                "values": values.astype(np.float64).tolist(),
            }
        wrong = question("wrong", [tensor("input_ids", np.array([[99999]]), "INT64", True)], model)
        for name, of_model in (("unknown model", "other"), ("unknown token", model)):
            try:
                await client.infer(url, wrong, model_name=of_model)
                found[name] = "answered"
            except Exception as error:
                found[name] = str(error)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(ask(*sys.argv[1:]))))
