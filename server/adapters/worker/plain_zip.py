"""Whether Python and torch see the same zip file.

Python finds the directory by counting back from the end and takes whatever stands before the file for a prefix; torch's
reader goes to the offset that the end names, and takes a file that does not begin like a zip for a bare pickle. What is
checked by one and loaded by the other must leave neither a choice.
"""

import io
import struct
import zipfile
from typing import IO, Final

_BEGIN: Final = b"PK\x03\x04"
_END: Final = struct.Struct("<4s8xLLH")
_LOCATOR: Final = struct.Struct("<4sLQL")
_END64: Final = struct.Struct("<4s36xQQ")


def check_plain(file: IO[bytes]) -> None:
    """Raises ValueError unless ``file`` is members, directory and end, without a gap, a prefix or a comment."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    begin = file.read(len(_BEGIN))
    file.seek(max(0, size - _END64.size - _LOCATOR.size - _END.size))
    tail = file.read()
    if begin != _BEGIN or len(tail) < _END64.size + _LOCATOR.size + _END.size:
        raise ValueError("it does not begin as a zip file")
    sign, length, start, comment = _END.unpack_from(tail, len(tail) - _END.size)
    end = size - _END.size
    if sign != b"PK\x05\x06" or comment:
        raise ValueError("bytes follow the end of the zip file")
    locator, _, at, _ = _LOCATOR.unpack_from(tail, _END64.size)
    if locator == b"PK\x06\x07":
        sign, length, start = _END64.unpack_from(tail)
        end = size - len(tail)
        if sign != b"PK\x06\x06" or at != end:
            raise ValueError("the end of the zip file is in two places")
    if start + length != end:
        raise ValueError("the directory of the zip file is in two places")


def is_stored(info: zipfile.ZipInfo) -> bool:
    """Whether the member is there as it is: nothing to decompress, and one size."""
    return info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
