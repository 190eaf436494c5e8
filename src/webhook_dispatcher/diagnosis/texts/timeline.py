"""A delivery's story, one sentence a moment; the page shows the instant beside it."""

from webhook_dispatcher.diagnosis.texts.form import Texts

TEXTS: Texts = {
    "moment_written": {
        "en": "The charge service wrote it.",
        "ru": "Сервис платежей записал его.",
        "uz": "To‘lov xizmati uni yozdi.",
    },
    "moment_overtaken": {
        "en": "Number {number} (event {event}) was attempted first: this one was committed late.",
        "ru": "Раньше была попытка номера {number} (событие {event}): транзакция этого завершилась поздно.",
        "uz": "Avval {number}-raqam (hodisa {event}) yuborildi: buning tranzaksiyasi kech yakunlandi.",
    },
    "moment_waited": {
        "en": "It waited {waited} for its first attempt.",
        "ru": "Первой попытки оно ждало {waited}.",
        "uz": "U birinchi urinishni {waited} kutdi.",
    },
    "moment_waited_behind": {
        "en": "It waited {waited} for its first attempt, behind number {number} (event {event}), whose first "
        "attempt ended at {until}.",
        "ru": "Первой попытки оно ждало {waited}, за номером {number} (событие {event}), первая попытка "
        "которого закончилась {until}.",
        "uz": "U birinchi urinishni {number}-raqam (hodisa {event}) ortida {waited} kutdi, uning birinchi "
        "urinishi {until} da tugadi.",
    },
    "moment_changed": {
        "en": "{person}: {change}.",
        "ru": "{person}: {change}.",
        "uz": "{person}: {change}.",
    },
    "moment_retry": {
        "en": "{person} asked for a retry (command {number}, {status}).",
        "ru": "{person}: повторить эту доставку (команда {number}, {status}).",
        "uz": "{person}: shu yetkazishni takrorlash (buyruq {number}, {status}).",
    },
    "moment_cancel": {
        "en": "{person} asked to cancel it (command {number}, {status}).",
        "ru": "{person}: отменить эту доставку (команда {number}, {status}).",
        "uz": "{person}: shu yetkazishni bekor qilish (buyruq {number}, {status}).",
    },
    "moment_retry_failed": {
        "en": "{person} asked to retry what had failed (command {number}, {status}).",
        "ru": "{person}: повторить всё недоставленное (команда {number}, {status}).",
        "uz": "{person}: yetkazilmaganlarning hammasini takrorlash (buyruq {number}, {status}).",
    },
    "moment_recover": {
        "en": "{person} asked to recover a range of time (command {number}, {status}).",
        "ru": "{person}: восстановить доставки за период (команда {number}, {status}).",
        "uz": "{person}: bir davr yetkazishlarini tiklash (buyruq {number}, {status}).",
    },
    "moment_skip": {
        "en": "{person} asked to skip what was owed (command {number}, {status}).",
        "ru": "{person}: пропустить всё ещё не доставленное (команда {number}, {status}).",
        "uz": "{person}: hali yetkazilmaganlarni o‘tkazib yuborish (buyruq {number}, {status}).",
    },
    "moment_pause": {
        "en": "{person} asked for a pause (command {number}, {status}).",
        "ru": "{person}: поставить отправку на паузу (команда {number}, {status}).",
        "uz": "{person}: yuborishni pauzaga qo‘yish (buyruq {number}, {status}).",
    },
    "moment_resume": {
        "en": "{person} asked to end the pause (command {number}, {status}).",
        "ru": "{person}: закончить паузу (команда {number}, {status}).",
        "uz": "{person}: pauzani tugatish (buyruq {number}, {status}).",
    },
    "moment_command": {
        "en": "{person} gave a command: {command} (command {number}, {status}).",
        "ru": "{person}: {command} (команда {number}, {status}).",
        "uz": "{person}: {command} (buyruq {number}, {status}).",
    },
    "moment_asked": {"en": " ({asked})", "ru": " ({asked})", "uz": " ({asked})"},
    "moment_delivered": {
        "en": "Attempt {number}{asked} delivered it in {took}: {result}{reason}.",
        "ru": "Попытка {number}{asked}: доставлено за {took}, {result}{reason}.",
        "uz": "{number}-urinish{asked}: {took} ichida yetkazildi, {result}{reason}.",
    },
    "moment_failed": {
        "en": "Attempt {number}{asked} failed after {took}: {result}{reason}.",
        "ru": "Попытка {number}{asked} не удалась через {took}: {result}{reason}.",
        "uz": "{number}-urinish{asked} {took} dan keyin muvaffaqiyatsiz tugadi: {result}{reason}.",
    },
    "moment_ended": {
        "en": "It was delivered.",
        "ru": "Оно доставлено.",
        "uz": "U yetkazildi.",
    },
    "moment_first": {
        "en": "Its first attempt is next in line.",
        "ru": "Его первая попытка — следующая в очереди.",
        "uz": "Uning birinchi urinishi navbatda keyingisi.",
    },
    "moment_first_in_flight": {
        "en": "Its first attempt is in flight, or about to begin.",
        "ru": "Его первая попытка идёт или вот-вот начнётся.",
        "uz": "Uning birinchi urinishi bajarilmoqda yoki hozir boshlanadi.",
    },
    "moment_first_behind": {
        "en": {
            "one": "Its first attempt follows {count} earlier event of the merchant.",
            "other": "Its first attempt follows {count} earlier events of the merchant.",
        },
        "ru": {
            "one": "Его первая попытка будет после {count} более раннего события мерчанта.",
            "few": "Его первая попытка будет после {count} более ранних событий мерчанта.",
            "many": "Его первая попытка будет после {count} более ранних событий мерчанта.",
        },
        "uz": "Uning birinchi urinishi merchantning {count} ta oldingi hodisasidan keyin bo‘ladi.",
    },
    "moment_first_behind_or_more": {
        "en": "Its first attempt follows {count} or more earlier events of the merchant.",
        "ru": "Более ранних событий мерчанта до его первой попытки — {count} или больше.",
        "uz": "Uning birinchi urinishi merchantning kamida {count} ta oldingi hodisasidan keyin bo‘ladi.",
    },
    "moment_due": {
        "en": "Attempt {number}{by_hand} is due, in {wait}.",
        "ru": "Назначена попытка {number}{by_hand}, через {wait}.",
        "uz": "{number}-urinish{by_hand} belgilangan, {wait} dan keyin.",
    },
    "moment_overdue": {
        "en": "Attempt {number}{by_hand} has been due for {wait}.",
        "ru": "Время попытки {number}{by_hand} наступило {wait} назад.",
        "uz": "{number}-urinish{by_hand} vaqti {wait} oldin keldi.",
    },
}
