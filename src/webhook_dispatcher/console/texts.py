"""The console's own words. Words of closed lists are the diagnosis's (`label`).

What others wrote is a fact's value and never read as a template.
"""

from webhook_dispatcher import words
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.domain.language import Language


def say(key: str, language: Language, /, **facts: object) -> str:
    """Say something; numbers among the facts are written as the language writes them. count: its form."""
    written = {
        name: amounts.number(fact, language) if isinstance(fact, int) and not isinstance(fact, bool) else fact
        for name, fact in facts.items()
    }
    count = facts.get("count")
    template = words.template(f"console.{key}", language, count if isinstance(count, int) else None)
    return template.format_map(written)
