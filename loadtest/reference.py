"""Vectors of the known texts, asked of one endpoint before the run: what a right answer is close to."""

import http.client
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadtest.answers import WRONG_COSINE, BadAnswer, Vector, cosine, read_answer, request_body
from loadtest.payloads import Payloads
from wire import openai

# Takes the texts of one call, gives status and body.
Ask = Callable[[Sequence[str]], tuple[int, bytes]]


class NoReference(Exception):
    """The reference endpoint did not give a usable vector for a known text."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One vector a known text, in the order of the pool."""

    vectors: tuple[Vector, ...]

    def compare(self, known: Sequence[int], answer: Sequence[Vector]) -> tuple[float, bool]:
        """The smallest cosine of a row with its reference, and whether the answer is wrong: one wrong row is enough.

        ``known`` and ``answer`` are of one length, above 0.
        """
        smallest = min(cosine(self.vectors[place], row) for place, row in zip(known, answer, strict=True))
        return smallest, smallest < WRONG_COSINE


@dataclass(frozen=True, slots=True)
class Source:
    """Where requests come from, and what right answers to its known texts are; None when nothing is compared."""

    payloads: Payloads
    reference: Reference | None


def gather(ask: Ask, texts: Sequence[str], *, dimension: int | None) -> Reference:
    """Ask for each text in a call of its own. Raises NoReference at the first that fails."""
    vectors = []
    for number, text in enumerate(texts):
        try:
            status, body = ask([text])
            vectors.extend(read_answer(status, body, rows=1, dimension=dimension))
        except (BadAnswer, OSError, http.client.HTTPException) as failed:
            raise NoReference(f"known text {number} of {len(texts)}: {failed}") from failed
    return Reference(tuple(vectors))


def ask_over_http(url: str, model: str, *, timeout_s: float) -> Ask:
    """Calls to the embeddings API at ``url`` over one kept connection; they raise OSError or HTTPException."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)

    def ask(texts: Sequence[str]) -> tuple[int, bytes]:
        connection.request(
            "POST", openai.PATH, body=request_body(model, texts), headers={"content-type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()

    return ask
