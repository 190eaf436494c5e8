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
    "backlog_ends": {
        "en": "as it goes now, the first attempts are made in {wait}",
        "ru": "при нынешнем темпе первые попытки будут сделаны за {wait}",
        "uz": "hozirgi sur’atda birinchi urinishlar {wait} ichida tugaydi",
    },
    "backlog_ends_later": {
        "en": "as it goes now, the first attempts are made in {wait} at the earliest",
        "ru": "при нынешнем темпе первые попытки будут сделаны не раньше чем за {wait}",
        "uz": "hozirgi sur’atda birinchi urinishlar kamida {wait} ichida tugaydi",
    },
    "backlog_waits": {
        "en": "nobody can tell when it ends: {merchant}, whose events wait longest, fails",
        "ru": "срок не определить: мерчант {merchant}, чьи события ждут дольше всех, не отвечает как надо",
        "uz": "qachon tugashini aytib bo‘lmaydi: hodisalari eng uzoq kutayotgan {merchant} merchanti "
        "xato qaytarmoqda",
    },
    "backlog_stays": {
        "en": "it does not shrink: {arriving}/s come, {starting}/s are first attempted",
        "ru": "не уменьшается: приходит {arriving} в секунду, первых попыток {starting} в секунду",
        "uz": "kamaymayapti: soniyasiga {arriving} ta keladi, {starting} ta birinchi urinish boshlanadi",
    },
    "late_retry": {
        "en": "due for {late}: event {event} of {merchant}",
        "ru": "срок наступил {late} назад: событие {event} мерчанта {merchant}",
        "uz": "muddati {late} oldin kelgan: {merchant} merchantining {event} hodisasi",
    },
    "next_retry": {
        "en": "the next at {at}: event {event} of {merchant}",
        "ru": "следующий {at}: событие {event} мерчанта {merchant}",
        "uz": "keyingisi {at}: {merchant} merchantining {event} hodisasi",
    },
    "sizes": {"en": "{sizes}", "ru": "{sizes}", "uz": "{sizes}"},
    "size_of": {
        "en": "{table} {megabytes} MB",
        "ru": "{table} {megabytes} МБ",
        "uz": "{table} {megabytes} MB",
    },
    "size_of_days": {
        "en": {
            "one": "{table} {megabytes} MB ({count} day from {since} on)",
            "other": "{table} {megabytes} MB ({count} days from {since} on)",
        },
        "ru": {
            "one": "{table} {megabytes} МБ (секции на {count} день с {since})",
            "few": "{table} {megabytes} МБ (секции на {count} дня с {since})",
            "many": "{table} {megabytes} МБ (секции на {count} дней с {since})",
        },
        "uz": "{table} {megabytes} MB ({since} dan boshlab {count} kunlik bo‘limlar)",
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
    "so_many_more": {"en": "and {more} more", "ru": "и ещё {more}", "uz": "va yana {more} ta"},
    "stranded": {
        "en": "none holds a lane, though {event} of {merchant} waits since {at}",
        "ru": "ни один не ведёт очередь, хотя {event} мерчанта {merchant} ждёт с {at}",
        "uz": "hech biri navbat yuritmayapti, {merchant} merchantining {event} hodisasi esa {at} dan beri "
        "kutmoqda",
    },
    "no_dispatcher": {
        "en": "none has been heard of lately: nothing is delivered, unless one is just starting",
        "ru": "ни один давно не сообщал о себе: ничего не доставляется, если ни один сейчас не запускается",
        "uz": "hech biri anchadan beri o‘zi haqida xabar bermadi: hozir biri ishga tushayotgan bo‘lmasa, "
        "hech narsa yetkazilmaydi",
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
    "several_versions": {
        "en": "several versions are at work: {versions}",
        "ru": "работают разные версии: {versions}",
        "uz": "turli versiyalar ishlamoqda: {versions}",
    },
    "replace_older": {
        "en": "fine during an upgrade; afterwards replace the older ones",
        "ru": "при обновлении это нормально; затем замените старые",
        "uz": "yangilash paytida bu odatiy; keyin eskilarini almashtiring",
    },
    "start_one": {
        "en": "start one: webhook-dispatcher run",
        "ru": "запустите: webhook-dispatcher run",
        "uz": "birini ishga tushiring: webhook-dispatcher run",
    },
    "see_runbooks": {
        "en": "docs/runbooks.md says what to do about each reason",
        "ru": "docs/runbooks.md говорит, что делать в каждом случае",
        "uz": "docs/runbooks.md har bir holatda nima qilishni aytadi",
    },
    "look_at_machine": {
        "en": "look at that machine: its network, clock and open files",
        "ru": "проверьте эту машину: сеть, часы, открытые файлы",
        "uz": "o‘sha mashinani tekshiring: tarmoq, soat, ochiq fayllar",
    },
    "clocks_agree": {
        "en": "agrees with the database's",
        "ru": "совпадают с часами базы данных",
        "uz": "ma’lumotlar bazasi soati bilan mos",
    },
    "machine_ahead": {
        "en": "this machine is {seconds} s ahead of the database: signatures are off too",
        "ru": "эта машина опережает базу данных на {seconds} с: подписи тоже неточны",
        "uz": "bu mashina ma’lumotlar bazasidan {seconds} soniya oldinda: imzolar ham noto‘g‘ri",
    },
    "machine_behind": {
        "en": "this machine is {seconds} s behind the database: signatures are off too",
        "ru": "эта машина отстаёт от базы данных на {seconds} с: подписи тоже неточны",
        "uz": "bu mashina ma’lumotlar bazasidan {seconds} soniya orqada: imzolar ham noto‘g‘ri",
    },
    "console_ahead": {
        "en": "the console's machine is {seconds} s ahead of the database",
        "ru": "машина консоли опережает базу данных на {seconds} с",
        "uz": "konsol mashinasi ma’lumotlar bazasidan {seconds} soniya oldinda",
    },
    "console_behind": {
        "en": "the console's machine is {seconds} s behind the database",
        "ru": "машина консоли отстаёт от базы данных на {seconds} с",
        "uz": "konsol mashinasi ma’lumotlar bazasidan {seconds} soniya orqada",
    },
    "synchronise": {
        "en": "synchronise both with NTP",
        "ru": "синхронизируйте обе по NTP",
        "uz": "ikkalasini ham NTP orqali sinxronlang",
    },
    "all_is_paused": {
        "en": "everything is paused",
        "ru": "всё на паузе",
        "uz": "hammasi pauzada",
    },
    "all_is_paused_by": {
        "en": "everything is paused (since {at}, by {person})",
        "ru": "всё на паузе (с {at}, {person})",
        "uz": "hammasi pauzada ({at} dan beri, {person})",
    },
    "resume_all": {
        "en": "webhook-dispatcher resume --all",
        "ru": "webhook-dispatcher resume --all",
        "uz": "webhook-dispatcher resume --all",
    },
    "named": {"en": "{names}", "ru": "{names}", "uz": "{names}"},
    "suspended_since": {
        "en": "{merchant} since {at}, next try at {next_at}",
        "ru": "{merchant} с {at}, следующая проба {next_at}",
        "uz": "{merchant} {at} dan beri, keyingi sinov {next_at} da",
    },
    "resume_one": {
        "en": "webhook-dispatcher resume MERCHANT",
        "ru": "webhook-dispatcher resume MERCHANT",
        "uz": "webhook-dispatcher resume MERCHANT",
    },
    "other_installation": {
        "en": "WEBHOOK_INSTALLATION: the database belongs to {found}, not to {wanted}",
        "ru": "WEBHOOK_INSTALLATION: база данных принадлежит {found}, а не {wanted}",
        "uz": "WEBHOOK_INSTALLATION: ma’lumotlar bazasi {wanted} ga emas, {found} ga tegishli",
    },
    "connect_to_it": {
        "en": "connect to the database of {wanted}; if this is a copy that is to become it, "
        "`webhook-dispatcher adopt` shows what it owes and renames it",
        "ru": "подключитесь к базе данных {wanted}; если это копия, которая должна ею стать, "
        "`webhook-dispatcher adopt` покажет, что в ней ждёт отправки, и переименует её",
        "uz": "{wanted} ma’lumotlar bazasiga ulaning; agar bu o‘sha bo‘lishi kerak bo‘lgan nusxa bo‘lsa, "
        "`webhook-dispatcher adopt` unda nima kutayotganini ko‘rsatadi va nomini o‘zgartiradi",
    },
    "no_installation": {
        "en": "it has no name yet: `webhook-dispatcher migrate` gives it one",
        "ru": "имени ещё нет: его даст `webhook-dispatcher migrate`",
        "uz": "hali nomi yo‘q: uni `webhook-dispatcher migrate` beradi",
    },
    "has_moved": {
        "en": "{name}; this server is {server}, it was on {known}: is this a copy? docs/operations.md; "
        "`adopt` notes the new one",
        "ru": "{name}; этот сервер — {server}, прежде был {known}: это копия? docs/operations.md; "
        "`adopt` запишет новый",
        "uz": "{name}; bu server {server}, avval {known} edi: bu nusxami? docs/operations.md; "
        "`adopt` yangisini qayd etadi",
    },
    "is_installation": {"en": "{name}", "ru": "{name}", "uz": "{name}"},
    "day_of": {"en": "{table}: {day}", "ru": "{table}: {day}", "uz": "{table}: {day}"},
    "days_missing": {
        "en": "{number} missing ({days})",
        "ru": "не хватает {number} ({days})",
        "uz": "{number} ta yetishmaydi ({days})",
    },
    "events_lost": {
        "en": {
            "one": "{count} event of {merchants} was sent and is not here since another server took over "
            "(numbers {low} to {high}, sent from {first} to {last}, noted at {noted})",
            "other": "{count} events of {merchants} were sent and are not here since another server took "
            "over (numbers {low} to {high}, sent from {first} to {last}, noted at {noted})",
        },
        "ru": {
            "one": "{count} событие ({merchants}) отправлено, но после смены сервера его здесь нет "
            "(номера с {low} по {high}, отправлено с {first} по {last}, замечено {noted})",
            "few": "{count} события ({merchants}) отправлены, но после смены сервера их здесь нет "
            "(номера с {low} по {high}, отправлены с {first} по {last}, замечено {noted})",
            "many": "{count} событий ({merchants}) отправлены, но после смены сервера их здесь нет "
            "(номера с {low} по {high}, отправлены с {first} по {last}, замечено {noted})",
        },
        "uz": "{count} ta hodisa ({merchants}) yuborilgan, lekin server almashgandan beri bu yerda yo‘q "
        "(raqamlari {low} dan {high} gacha, {first} dan {last} gacha yuborilgan, {noted} da aniqlangan)",
    },
    "compare_lost": {
        "en": "compare what merchants, charge service and this database have: docs/runbooks.md, "
        "WebhookEventsLost",
        "ru": "сверьте, что есть у мерчантов, в сервисе платежей и в этой базе: docs/runbooks.md, "
        "WebhookEventsLost",
        "uz": "merchantlarda, to‘lov xizmatida va shu bazada nima borligini solishtiring: docs/runbooks.md, "
        "WebhookEventsLost",
    },
    "partitions_are_made": {
        "en": "start a dispatcher (it makes them ahead of time), and look in its log for why it did not",
        "ru": "запустите диспетчер (он создаёт их заранее) и найдите в его журнале, почему их нет",
        "uz": "dispetcherni ishga tushiring (u ularni oldindan yaratadi), sababi esa uning jurnalida",
    },
    "may_not_be_sent_to": {
        "en": "{merchant}: {reason}",
        "ru": "{merchant}: {reason}",
        "uz": "{merchant}: {reason}",
    },
    "set_or_allow": {
        "en": "webhook-dispatcher endpoint set {merchant} URL, or allow it by WEBHOOK_EGRESS_*",
        "ru": "webhook-dispatcher endpoint set {merchant} URL или разрешите его в WEBHOOK_EGRESS_*",
        "uz": "webhook-dispatcher endpoint set {merchant} URL yoki WEBHOOK_EGRESS_* orqali ruxsat bering",
    },
    "more_endpoints": {
        "en": "and {more} more endpoints",
        "ru": "и ещё адресов: {more}",
        "uz": "va yana {more} ta manzil",
    },
    "as_above": {"en": "as above", "ru": "как выше", "uz": "yuqoridagidek"},
    "all_allowed": {
        "en": "all may be sent to",
        "ru": "отправлять можно на все",
        "uz": "hammasiga yuborish mumkin",
    },
    "first_allowed": {
        "en": {
            "one": "the first {count} may be sent to; `check` looks at all",
            "other": "the first {count} may be sent to; `check` looks at all",
        },
        "ru": {
            "one": "на первый {count} отправлять можно; все проверяет `check`",
            "few": "на первые {count} отправлять можно; все проверяет `check`",
            "many": "на первые {count} отправлять можно; все проверяет `check`",
        },
        "uz": "dastlabki {count} tasiga yuborish mumkin; hammasini `check` tekshiradi",
    },
    "seals_by": {
        "en": "secrets can be sealed, by the key {key}",
        "ru": "секреты можно шифровать ключом {key}",
        "uz": "maxfiy kalitlarni {key} kaliti bilan shifrlash mumkin",
    },
    "no_sealing_key": {
        "en": "nothing to seal secrets with: merchants cannot be configured here",
        "ru": "нечем шифровать секреты: настраивать мерчантов здесь нельзя",
        "uz": "maxfiy kalitlarni shifrlaydigan narsa yo‘q: bu yerda merchantlarni sozlab bo‘lmaydi",
    },
    "key_is_published": {
        "en": "a dispatcher publishes its key when it starts: is one running?",
        "ru": "диспетчер публикует ключ при запуске: работает ли он?",
        "uz": "dispetcher ishga tushganda kalitini e’lon qiladi: u ishlayaptimi?",
    },
    "charges_indexed": {
        "en": "indexed: deliveries are found by them",
        "ru": "проиндексированы: по ним можно искать",
        "uz": "indekslangan: ular bo‘yicha qidirish mumkin",
    },
    "charges_not_indexed": {
        "en": "not indexed: deliveries cannot be found by them",
        "ru": "не индексируются: искать по ним нельзя",
        "uz": "indekslanmagan: ular bo‘yicha qidirib bo‘lmaydi",
    },
    "migrate_indexes": {
        "en": "webhook-dispatcher migrate makes the index beside a system that runs",
        "ru": "webhook-dispatcher migrate создаст индекс, не останавливая систему",
        "uz": "webhook-dispatcher migrate tizimni to‘xtatmasdan indeks yaratadi",
    },
    "server_and_schema": {
        "en": "PostgreSQL {version}, schema version {schema}",
        "ru": "PostgreSQL {version}, версия схемы {schema}",
        "uz": "PostgreSQL {version}, sxema versiyasi {schema}",
    },
    "server_schema_log": {
        "en": "PostgreSQL {version}, schema version {schema}, the log has its days from {since} to {until}",
        "ru": "PostgreSQL {version}, версия схемы {schema}, в журнале есть дни с {since} по {until}",
        "uz": "PostgreSQL {version}, sxema versiyasi {schema}, jurnalda {since} dan {until} gacha kunlar bor",
    },
}
