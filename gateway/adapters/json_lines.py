"""Log records as one JSON object a line."""

import json
import logging


class JsonLines(logging.Formatter):
    """What a caller passes as ``fields`` is merged in."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        line = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage(), **fields}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
