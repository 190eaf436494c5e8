"""The languages that people are spoken to in."""

from typing import Literal, get_args

Language = Literal["en", "ru", "uz"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
DEFAULT: Language = "en"
