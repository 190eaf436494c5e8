"""What there is to say of an installation's health."""

from webhook_dispatcher.diagnosis.texts.form import Texts

TEXTS: Texts = {
    "none": {"en": "none", "ru": "нет", "uz": "yo‘q"},
    "everything_paused": {
        "en": "everything; not by a command",
        "ru": "всё; не по команде",
        "uz": "hammasi; buyruq bilan emas",
    },
    "everything_paused_by": {
        "en": "everything, since {at} by {person}",
        "ru": "всё, с {at}, {person}",
        "uz": "hammasi, {at} dan beri, {person}",
    },
    "backlog": {
        "en": "{pending} wait for their first attempt, {retries} for a retry",
        "ru": "первой попытки ждут {pending}, повтора — {retries}",
        "uz": "{pending} ta birinchi urinishni, {retries} ta takroriy urinishni kutmoqda",
    },
    "nothing_waits": {
        "en": "nothing waits for its first attempt",
        "ru": "первой попытки ничто не ждёт",
        "uz": "birinchi urinishni hech narsa kutmayapti",
    },
    "oldest_waits": {
        "en": "waits for {waits}: event {event} of {merchant}",
        "ru": "ждёт {waits}: событие {event} мерчанта {merchant}",
        "uz": "{waits} kutmoqda: {merchant} merchantining {event} hodisasi",
    },
    "no_lag": {
        "en": "no first attempts lately",
        "ru": "в последнее время первых попыток не было",
        "uz": "so‘nggi paytda birinchi urinishlar bo‘lmadi",
    },
    "lag": {
        "en": {
            "one": "{median} ms at the median, {high} ms at 95 % ({count} first attempt)",
            "other": "{median} ms at the median, {high} ms at 95 % ({count} first attempts)",
        },
        "ru": {
            "one": "медиана {median} мс, 95 % — {high} мс ({count} первая попытка)",
            "few": "медиана {median} мс, 95 % — {high} мс ({count} первые попытки)",
            "many": "медиана {median} мс, 95 % — {high} мс ({count} первых попыток)",
        },
        "uz": "mediana {median} ms, 95 % — {high} ms ({count} ta birinchi urinish)",
    },
    "no_attempts": {
        "en": "none in the last {window}",
        "ru": "за последние {window} — ни одной",
        "uz": "oxirgi {window} ichida bitta ham yo‘q",
    },
    "attempts_made": {
        "en": "{rate}/s in the last {window}: {outcomes}{more}",
        "ru": "{rate} в секунду за последние {window}: {outcomes}{more}",
        "uz": "oxirgi {window} ichida soniyasiga {rate}: {outcomes}{more}",
    },
    "and_more": {"en": " (and more)", "ru": " (и больше)", "uz": " (va ko‘proq)"},
    "merchants": {
        "en": {"one": "{count} merchant", "other": "{count} merchants"},
        "ru": {"one": "{count} мерчант", "few": "{count} мерчанта", "many": "{count} мерчантов"},
        "uz": "{count} ta merchant",
    },
    "merchants_failing": {
        "en": {
            "one": "{count} merchant, the longest: {worst}",
            "other": "{count} merchants, the longest: {worst}",
        },
        "ru": {
            "one": "{count} мерчант, дольше всех: {worst}",
            "few": "{count} мерчанта, дольше всех: {worst}",
            "many": "{count} мерчантов, дольше всех: {worst}",
        },
        "uz": "{count} ta merchant, eng uzoqdan beri: {worst}",
    },
    "merchant_since": {
        "en": "{merchant} since {at}",
        "ru": "{merchant} с {at}",
        "uz": "{merchant} ({at} dan beri)",
    },
    "merchants_suspended": {
        "en": {
            "one": "{count} merchant, the next try at {at}",
            "other": "{count} merchants, the next try at {at}",
        },
        "ru": {
            "one": "{count} мерчант, следующая проба {at}",
            "few": "{count} мерчанта, следующая проба {at}",
            "many": "{count} мерчантов, следующая проба {at}",
        },
        "uz": "{count} ta merchant, keyingi sinov {at} da",
    },
    "merchants_named": {
        "en": {"one": "{count} merchant: {names}{further}", "other": "{count} merchants: {names}{further}"},
        "ru": {
            "one": "{count} мерчант: {names}{further}",
            "few": "{count} мерчанта: {names}{further}",
            "many": "{count} мерчантов: {names}{further}",
        },
        "uz": "{count} ta merchant: {names}{further}",
    },
    "merchants_named_or_more": {
        "en": {
            "one": "{count} merchant or more: {names}{further}",
            "other": "{count} merchants or more: {names}{further}",
        },
        "ru": {
            "one": "{count} мерчант или больше: {names}{further}",
            "few": "{count} мерчанта или больше: {names}{further}",
            "many": "{count} мерчантов или больше: {names}{further}",
        },
        "uz": "kamida {count} ta merchant: {names}{further}",
    },
    "merchant_waits": {
        "en": "{merchant} ({waits})",
        "ru": "{merchant} ({waits})",
        "uz": "{merchant} ({waits})",
    },
    "and_further": {"en": ", …", "ru": ", …", "uz": ", …"},
    "holds": {
        "en": {"one": "{owner} holds {count} lane", "other": "{owner} holds {count} lanes"},
        "ru": {
            "one": "{owner} ведёт {count} очередь",
            "few": "{owner} ведёт {count} очереди",
            "many": "{owner} ведёт {count} очередей",
        },
        "uz": "{owner} {count} ta navbatni yuritmoqda",
    },
    "more_dispatchers": {"en": "and {more} more", "ru": "и ещё {more}", "uz": "va yana {more} ta"},
    "stranded": {
        "en": "none holds a lane, though {event} of {merchant} waits since {at}",
        "ru": "ни один не ведёт очередь, хотя {event} мерчанта {merchant} ждёт с {at}",
        "uz": "hech biri navbat yuritmayapti, {merchant} merchantining {event} hodisasi esa {at} dan beri "
        "kutmoqda",
    },
    "no_dispatcher": {
        "en": "none has been heard of lately: nothing is delivered until one runs",
        "ru": "ни один давно не сообщал о себе: пока ни один не работает, ничего не доставляется",
        "uz": "hech biri anchadan beri o‘zi haqida xabar bermadi: biri ishlamaguncha hech narsa "
        "yetkazilmaydi",
    },
    "dispatcher_works": {
        "en": {
            "one": "{owner}, version {version}, works for {since} and holds {count} lane",
            "other": "{owner}, version {version}, works for {since} and holds {count} lanes",
        },
        "ru": {
            "one": "{owner}, версия {version}, работает {since} и ведёт {count} очередь",
            "few": "{owner}, версия {version}, работает {since} и ведёт {count} очереди",
            "many": "{owner}, версия {version}, работает {since} и ведёт {count} очередей",
        },
        "uz": "{owner}, {version} versiyasi, {since} ishlamoqda va {count} ta navbatni yuritmoqda",
    },
    "dispatcher_silent": {
        "en": "{owner} was last heard of {ago} ago",
        "ru": "{owner} в последний раз сообщал о себе {ago} назад",
        "uz": "{owner} o‘zi haqida oxirgi marta {ago} oldin xabar bergan",
    },
    "dispatcher_unready": {
        "en": "{owner} is not ready: {reason}",
        "ru": "{owner} не готов: {reason}",
        "uz": "{owner} tayyor emas: {reason}",
    },
    "dispatcher_faulty": {
        "en": "{owner} has a fault of its own: {faults}",
        "ru": "у {owner} своя неисправность: {faults}",
        "uz": "{owner} o‘zida nosozlik bor: {faults}",
    },
    "all_there": {"en": "all there", "ru": "все на месте", "uz": "hammasi joyida"},
    "table_of": {"en": "{table} of {day}", "ru": "{table} за {day}", "uz": "{table}, {day}"},
    "partitions_missing": {
        "en": "MISSING: {missing}; see `check`",
        "ru": "НЕ ХВАТАЕТ: {missing}; см. `check`",
        "uz": "YETISHMAYDI: {missing}; `check` ga qarang",
    },
    "no_command_waits": {
        "en": "none waits, {running} running",
        "ru": "ни одна не ждёт, выполняется: {running}",
        "uz": "hech biri kutmayapti, bajarilmoqda: {running}",
    },
    "commands_wait": {
        "en": {
            "one": "{count} command waiting, the oldest for {wait}; {running} running",
            "other": "{count} commands waiting, the oldest for {wait}; {running} running",
        },
        "ru": {
            "one": "ждёт {count} команда, самая старая — {wait}; выполняется: {running}",
            "few": "ждут {count} команды, самая старая — {wait}; выполняется: {running}",
            "many": "ждут {count} команд, самая старая — {wait}; выполняется: {running}",
        },
        "uz": "{count} ta buyruq kutmoqda, eng eskisi — {wait}; bajarilmoqda: {running}",
    },
}
