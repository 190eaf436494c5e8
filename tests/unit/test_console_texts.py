"""The console's words: what others wrote among them, and numbers."""

from webhook_dispatcher.console import texts


def test_what_others_wrote_is_no_template() -> None:
    said = texts.say("filter.said", "en", field="{problem.__class__}", problem="<b>{field}</b>")
    assert said == "{problem.__class__}: <b>{field}</b>"


def test_counts_take_the_form_of_the_language() -> None:
    said = {count: texts.say("act.retry_do", "ru", count=count) for count in (1, 3, 1005)}
    assert (said[1], said[3]) == ("Повторить 1 доставку", "Повторить 3 доставки")
    assert said[1005] == "Повторить 1\N{NO-BREAK SPACE}005 доставок"
