"""From a checked folder to a Model; each format's library is imported with its loader."""

from server.adapters.worker.engine import EngineFailed, Model
from server.adapters.worker.folder import ModelFolder
from server.ports.worker import Start


def load_model(folder: ModelFolder, start: Start) -> Model:
    """The model on the CPU in float32. Raises EngineFailed."""
    match start.model_format:
        case "sentence-transformers":
            from server.adapters.worker.sentence_transformers import SentenceTransformersModel

            return SentenceTransformersModel(folder)
        case "sequence-classification":
            from server.adapters.worker.sequence_classification import SequenceClassificationModel

            return SequenceClassificationModel(folder)
        case "torch-export":
            from server.adapters.worker.torch_export import ExportedModel

            return ExportedModel(folder)
        case "python-factory":
            from server.adapters.worker.python_factory import FactoryModel

            if start.factory is None:
                raise EngineFailed("model.factory: is missing, format python-factory needs module:function")
            return FactoryModel(folder, start.factory)
