"""What a worker of an embedding model gives back, from plain float32 numbers."""

from server.core.tensors import Raw


def embeddings(data: bytes, dim: int = 2) -> dict[str, Raw]:
    """Rows of ``dim`` numbers."""
    return {"embedding": Raw("FP32", (len(data) // 4 // dim, dim), data)}
