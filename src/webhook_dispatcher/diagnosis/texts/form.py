"""What a text is made of."""

from collections.abc import Mapping

from webhook_dispatcher.diagnosis.amounts import Form
from webhook_dispatcher.domain.language import Language

Text = str | Mapping[Form, str]
"""A template with `{name}` for facts; or one for each form of a plural, by the fact `count`."""
Texts = Mapping[str, Mapping[Language, Text]]
