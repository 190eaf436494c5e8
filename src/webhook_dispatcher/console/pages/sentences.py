"""What diagnosis says, for pages: in the reader's words, with links to what it names."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.rendering import delivery_path, merchant_path
from webhook_dispatcher.diagnosis import vocabulary
from webhook_dispatcher.diagnosis.said import Said
from webhook_dispatcher.diagnosis.vocabulary import Part


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a sentence; path: where what it names can be seen."""

    text: str
    path: str | None = None


def sentence(said: Said, reader: Reader) -> Sequence[Stretch]:
    """Say something, with a link where it names an event or a merchant."""
    return [Stretch(part.text, _path(part)) for part in vocabulary.parts(said, reader.language, reader.zone)]


def _path(part: Part) -> str | None:
    if isinstance(part.fact, UUID):
        return delivery_path(part.fact)
    return merchant_path(part.fact) if part.name == "merchant" and isinstance(part.fact, str) else None
