"""What ``torch.export.load`` would read from a .pt2 file, checked before torch is imported.

torch says of that function that it uses pickle and must not be given what others made. Read in torch 2.13: weights and
constants marked ``use_pickle`` go to ``torch.load(weights_only=False)``, objects to ``pickle.loads``, and sample inputs
first to ``weights_only=True`` and then, when that fails, to ``weights_only=False``. Beyond pickle, expressions of the
graph go to ``sympy.sympify``, which evaluates Python, and a tree's context may name a module to import. So an archive
may hold raw tensors, one graph of known operators and plain containers, and nothing else; its sample inputs, which the
server does not need, must unpickle to plain tensors by opcodes that call nothing else.
"""

import io
import json
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.plain_zip import check_plain, is_stored

MAX_JSON: Final = 256 * 1024 * 1024
MAX_SAMPLES: Final = 64 * 1024 * 1024
MODEL: Final = "models/model.json"
CONFIGS: Final = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
SAMPLES: Final = "data/sample_inputs/model.pt"
_MEMBERS: Final = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)"
    r"|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
)
_OPERATORS: Final = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)(\.[A-Za-z_]\w*)+|_operator\.(?!attrgetter|methodcaller)[a-z_]+|math\.[a-z0-9_]+"
    r"|torch\.(sym_\w+|_sym_\w+)"
)
# Dimensions such as Symbol('s72', positive=True, integer=True), whole numbers and arithmetic: no attribute, no index.
_EXPRESSION: Final = re.compile(
    r"(?:Symbol\('[su]\d+'(?:, [a-z_]+=(?:True|False))*\)"
    r"|(?:Add|Mul|Pow|Integer|Rational|Max|Min|Mod|PythonMod|FloorDiv|CeilDiv)(?=\()|-?\d++|[(), ])*"
)
_DIMENSION: Final = re.compile(r"[su]\d+")
# torch compiles these as Python: comparisons of sizes of the named inputs.
_GUARD: Final = re.compile(
    r"(?:L(?:\['\w+'\]|\[\d+\])+\.size\(\)\[\d+\]|-?\d++|==|!=|<=|>=|[-+*<>() ]|\b(?:and|or|not)\b)+"
)
# Names become Python code of the graph, and the stack a comment in it: no line may end where torch does not see it.
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*|")
_PRINTABLE: Final = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]*")
_CONTAINERS: Final = ("builtins.tuple", "builtins.list", "builtins.dict", None)
# How torch.save writes tensors; anything else would be a call of the file's choice.
_GLOBALS: Final = re.compile(
    r"torch\._utils _rebuild_(tensor_v2|parameter)"
    r"|torch (Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)Storage"
    r"|collections OrderedDict"
)


def check_archive(path: Path) -> None:
    """Raises EngineFailed, naming what is in the file and what is allowed."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            check_plain(file)
            members = _members(path, archive)
            for config in CONFIGS:
                _check_payloads(path, config, _json(path, archive, members, config))
            _check_samples(path, archive, members)
            _check_graph(path, _json(path, archive, members, MODEL))
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EngineFailed(f"model.path: {path} is no readable .pt2 file: {error!r}") from error


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """By name below the archive's one root folder."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        _, _, name = info.filename.partition("/")
        if not _MEMBERS.fullmatch(name) or name in found or not is_stored(info):
            raise EngineFailed(
                f"model.path: {path} holds {info.filename!r}, allowed is what torch.export.save writes for one model "
                "of plain tensors: graph, weight_N, tensor_N, sample inputs; no pickled objects, no compiled code"
            )
        found[name] = info
    return found


def _json(path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str) -> Any:
    if name not in members:
        raise EngineFailed(f"model.path: {path} lacks {name}: save it again with this version of torch")
    if members[name].file_size > MAX_JSON:
        raise EngineFailed(f"model.path: {path}: {name} has {members[name].file_size} bytes, allowed are {MAX_JSON}")
    return json.loads(archive.read(members[name]))


def _check_payloads(path: Path, config: str, document: Any) -> None:
    for name, payload in document["config"].items():
        if payload["use_pickle"] is not False or not re.fullmatch(r"(weight|tensor)_\d+", payload["path_name"]):
            raise EngineFailed(
                f"model.path: {path}: {config} has {name!r} in {payload['path_name']!r} with use_pickle "
                f"{payload['use_pickle']}, allowed are raw tensors: a tensor subclass or an object is pickled"
            )


def _check_samples(path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> None:
    if SAMPLES not in members or members[SAMPLES].file_size == 0:
        return
    if members[SAMPLES].file_size > MAX_SAMPLES:
        raise EngineFailed(
            f"model.path: {path}: {SAMPLES} has {members[SAMPLES].file_size} bytes, allowed are {MAX_SAMPLES}"
        )
    file = io.BytesIO(archive.read(members[SAMPLES]))
    with zipfile.ZipFile(file) as inner:
        check_plain(file)
        pickles = [info for info in inner.infolist() if info.filename.endswith(".pkl")]
        if len(pickles) != 1 or not is_stored(pickles[0]):
            raise EngineFailed(f"model.path: {path}: {SAMPLES} holds {len(pickles)} pickles, allowed is one as it is")
        for opcode, argument, _ in pickletools.genops(inner.read(pickles[0])):
            calls = opcode.name in (
                "GLOBAL",
                "STACK_GLOBAL",
                "INST",
                "OBJ",
                "NEWOBJ",
                "NEWOBJ_EX",
                "EXT1",
                "EXT2",
                "EXT4",
            )
            if calls and not (opcode.name == "GLOBAL" and _GLOBALS.fullmatch(str(argument))):
                raise EngineFailed(
                    f"model.path: {path}: {SAMPLES} names {argument or opcode.name!r}, allowed are plain tensors: "
                    "export with plain tensors as example inputs"
                )


def _check_graph(path: Path, document: Any) -> None:
    for key, value in _entries(document):
        match key:
            case "target":
                bad = not (isinstance(value, str) and _OPERATORS.fullmatch(value))
                allowed = (
                    "operators of aten and prims: a custom operator needs its library, which is no file of weights"
                )
            case "expr_str":
                bad, allowed = not (isinstance(value, str) and _EXPRESSION.fullmatch(value)), "arithmetic of dimensions"
            case "in_spec" | "out_spec":
                bad, allowed = not _plain_tree(value), "tuples, lists and dicts with names"
            case "metadata":
                bad = not all(isinstance(text, str) and _PRINTABLE.fullmatch(text) for text in value.values())
                allowed = "lines of text"
            case "range_constraints":
                bad, allowed = not all(map(_DIMENSION.fullmatch, value)), "dimensions"
            case "guards_code":
                bad, allowed = not all(map(_GUARD.fullmatch, value)), "comparisons of sizes"
            case "name" | "as_name" | "fqn" | "parameter_name" | "buffer_name" | "tensor_constant_name":
                bad, allowed = not (isinstance(value, str) and _NAME.fullmatch(value)), "names"
            case "forward_arg_names":
                bad, allowed = not all(map(_NAME.fullmatch, value or [])), "names"
            case "treespec_namedtuple_fields":
                bad, allowed = bool(value), "none"
            case _:
                continue
        if bad:
            raise EngineFailed(f"model.path: {path}: {MODEL} has {key} {str(value)[:200]!r}, allowed are {allowed}")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _entries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _entries(inner)


def _plain_tree(spec: Any) -> bool:
    """A tree's description: ``[version, {type, context, children_spec}]``, as text."""
    if spec == "":
        return True
    _, root = json.loads(spec)
    return _plain_node(root)


def _plain_node(node: Any) -> bool:
    context = node["context"]
    names = json.loads(context) if isinstance(context, str) and context else context
    plain = names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))
    return node["type"] in _CONTAINERS and plain and all(map(_plain_node, node["children_spec"]))
