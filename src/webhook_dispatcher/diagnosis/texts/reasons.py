"""What the guard, dispatchers and rejected commands say in English, and the same in other languages.

The English texts are also how such a sentence is recognised (`reasons.py`), so they are what the programs
write. Those that begin with a fact stand behind those that are more exact.
"""

from webhook_dispatcher.diagnosis.texts.form import Texts

TEXTS: Texts = {
    "url_blank": {"en": "the URL is blank", "ru": "URL пуст", "uz": "URL bo‘sh"},
    "url_too_long": {
        "en": "the URL is longer than {most} characters",
        "ru": "URL длиннее {most} символов",
        "uz": "URL {most} belgidan uzun",
    },
    "url_not_ascii": {
        "en": "the URL has characters other than printable ASCII (use punycode, percent-encoding)",
        "ru": "в URL есть символы не из печатных ASCII (нужны punycode и кодирование процентами)",
        "uz": "URLda chop etiladigan ASCIIdan boshqa belgilar bor (punycode va foizli kodlash kerak)",
    },
    "url_fragment": {
        "en": "the URL has a fragment",
        "ru": "в URL есть фрагмент (#)",
        "uz": "URLda fragment (#) bor",
    },
    "url_password": {
        "en": "the URL has a user name or password",
        "ru": "в URL есть имя пользователя или пароль",
        "uz": "URLda foydalanuvchi nomi yoki parol bor",
    },
    "url_malformed": {
        "en": "the URL is not well formed (scheme://host[:port]/path?query, percent-encoded)",
        "ru": "URL составлен неверно (scheme://host[:port]/path?query, с кодированием процентами)",
        "uz": "URL noto‘g‘ri tuzilgan (scheme://host[:port]/path?query, foizli kodlash bilan)",
    },
    "url_unparsable": {
        "en": "the URL cannot be parsed",
        "ru": "URL не удалось разобрать",
        "uz": "URLni tahlil qilib bo‘lmadi",
    },
    "url_scheme": {
        "en": "the URL's scheme is not https",
        "ru": "схема URL не https",
        "uz": "URL sxemasi https emas",
    },
    "url_port": {
        "en": "the URL's port is out of range or belongs to another protocol (Fetch bad ports)",
        "ru": "порт URL вне допустимых значений или принадлежит другому протоколу (Fetch bad ports)",
        "uz": "URL porti ruxsat etilgan oraliqda emas yoki boshqa protokolniki (Fetch bad ports)",
    },
    "http_not_allowed": {
        "en": "http is allowed for allowed networks and hosts only",
        "ru": "http разрешён только для разрешённых сетей и узлов",
        "uz": "http faqat ruxsat etilgan tarmoq va serverlar uchun mumkin",
    },
    "host_not_v6": {
        "en": "the URL's host is not an IPv6 address",
        "ru": "узел в URL не является адресом IPv6",
        "uz": "URLdagi server IPv6 manzil emas",
    },
    "host_dot": {
        "en": "the URL's host ends in a dot",
        "ru": "имя узла в URL заканчивается точкой",
        "uz": "URLdagi server nomi nuqta bilan tugaydi",
    },
    "host_number": {
        "en": "the URL's host ends in a number and is not a plain IPv4 address",
        "ru": "имя узла в URL заканчивается числом и не является обычным адресом IPv4",
        "uz": "URLdagi server nomi son bilan tugaydi va oddiy IPv4 manzil emas",
    },
    "host_invalid": {
        "en": "the URL's host is not a valid name",
        "ru": "имя узла в URL недопустимо",
        "uz": "URLdagi server nomi yaroqsiz",
    },
    "host_single": {
        "en": "the URL's host is a single label, not a public name",
        "ru": "имя узла в URL из одной части, это не публичное имя",
        "uz": "URLdagi server nomi bir qismdan iborat, bu ommaviy nom emas",
    },
    "host_special": {
        "en": "names under {top} are not public",
        "ru": "имена в {top} не публичны",
        "uz": "{top} ichidagi nomlar ommaviy emas",
    },
    "address_none": {
        "en": "what was to be dialled is not an IP address",
        "ru": "соединяться надо было не с IP-адресом",
        "uz": "ulanish kerak bo‘lgan narsa IP manzil emas",
    },
    "use_this_network": {
        "en": "this network, {source}",
        "ru": "эта сеть, {source}",
        "uz": "shu tarmoq, {source}",
    },
    "use_private": {
        "en": "private use, {source}",
        "ru": "для частных сетей, {source}",
        "uz": "xususiy tarmoqlar uchun, {source}",
    },
    "use_shared": {
        "en": "shared address space, {source}",
        "ru": "общее пространство адресов, {source}",
        "uz": "umumiy manzillar maydoni, {source}",
    },
    "use_loopback": {
        "en": "loopback, {source}",
        "ru": "эта же машина, {source}",
        "uz": "shu mashinaning o‘zi, {source}",
    },
    "use_link_local": {
        "en": "link-local and cloud metadata, {source}",
        "ru": "локальные адреса и метаданные облаков, {source}",
        "uz": "mahalliy manzillar va bulut metama’lumotlari, {source}",
    },
    "use_protocols": {
        "en": "IETF protocol assignments, {source}",
        "ru": "выделены протоколам IETF, {source}",
        "uz": "IETF protokollari uchun ajratilgan, {source}",
    },
    "use_documentation": {
        "en": "documentation, {source}",
        "ru": "для документации, {source}",
        "uz": "hujjatlar uchun, {source}",
    },
    "use_benchmarking": {
        "en": "benchmarking, {source}",
        "ru": "для измерений, {source}",
        "uz": "o‘lchovlar uchun, {source}",
    },
    "use_multicast": {
        "en": "multicast, {source}",
        "ru": "групповая рассылка, {source}",
        "uz": "guruhli tarqatish, {source}",
    },
    "use_reserved": {
        "en": "reserved and broadcast, {source}",
        "ru": "зарезервированы и для широковещания, {source}",
        "uz": "zaxiralangan va keng tarqatish uchun, {source}",
    },
    "use_not_global": {
        "en": "not global unicast (2000::/3), {source}",
        "ru": "не глобальный адрес (2000::/3), {source}",
        "uz": "global manzil emas (2000::/3), {source}",
    },
    "own_fault_fleet": {
        "en": "a fault of our own (fleet): attempts fail with {mark}, and none is answered",
        "ru": "собственная неисправность (fleet): попытки не удаются ({mark}), и ни на одну нет ответа",
        "uz": "o‘zimizdagi nosozlik (fleet): urinishlar {mark} bilan tugaydi va birortasiga javob yo‘q",
    },
    "own_fault": {
        "en": "a fault of our own ({kind}): {detail}",
        "ru": "собственная неисправность ({kind}): {detail}",
        "uz": "o‘zimizdagi nosozlik ({kind}): {detail}",
    },
    "clock_off": {
        "en": "this machine's clock is {seconds} s off the database's",
        "ru": "часы этой машины расходятся с часами базы данных на {seconds} с",
        "uz": "bu mashina soati ma’lumotlar bazasi soatidan {seconds} soniya farq qiladi",
    },
    "database_not_reached": {
        "en": "the database was not reached yet",
        "ru": "связи с базой данных ещё не было",
        "uz": "ma’lumotlar bazasiga hali ulanilmagan",
    },
    "database_silent": {
        "en": "the database does not answer",
        "ru": "база данных не отвечает",
        "uz": "ma’lumotlar bazasi javob bermayapti",
    },
    "database_silent_because": {
        "en": "the database does not answer: {error}",
        "ru": "база данных не отвечает: {error}",
        "uz": "ma’lumotlar bazasi javob bermayapti: {error}",
    },
    "database_commits_nothing": {
        "en": "the database answers, but commits nothing",
        "ru": "база данных отвечает, но ничего не фиксирует",
        "uz": "ma’lumotlar bazasi javob beryapti, lekin hech narsani saqlamayapti",
    },
    "database_refuses": {
        "en": "the database refuses claims: {error}",
        "ru": "база данных не даёт брать события: {error}",
        "uz": "ma’lumotlar bazasi hodisalarni olishga ruxsat bermayapti: {error}",
    },
    "outcomes_unwritten": {
        "en": "outcomes cannot be written",
        "ru": "исходы не удаётся записать",
        "uz": "natijalarni yozib bo‘lmayapti",
    },
    "key_missing": {
        "en": "encryption key {key} is missing",
        "ru": "нет ключа шифрования {key}",
        "uz": "{key} shifrlash kaliti yo‘q",
    },
    "key_wrong": {
        "en": "encryption key {key} is not the one that this id stands for",
        "ru": "ключ шифрования {key} не тот, который обозначен этим id",
        "uz": "{key} shifrlash kaliti shu id bildirgan kalit emas",
    },
    "refused_url": {
        "en": "the URL is refused: {reason}",
        "ru": "URL отклонён: {reason}",
        "uz": "URL rad etildi: {reason}",
    },
    "rejected_not_configured": {
        "en": "the merchant has no endpoint",
        "ru": "у мерчанта нет адреса вебхука",
        "uz": "merchantda webhook manzili yo‘q",
    },
    "no_delivery": {
        "en": "no delivery of this event is known",
        "ru": "доставок этого события не найдено",
        "uz": "bu hodisaning yetkazilishi topilmadi",
    },
    "still_in_order": {
        "en": "the event still waits for its first attempt, in order",
        "ru": "событие ещё ждёт своей очереди на первую попытку",
        "uz": "hodisa hali birinchi urinish navbatini kutmoqda",
    },
    "rejected_suspended": {
        "en": "the merchant is suspended since {at}; resume it, or try it by test_event",
        "ru": "мерчант приостановлен с {at}; возобновите его или проверьте тестовым событием",
        "uz": "merchant {at} dan beri to‘xtatib turilgan; uni davom ettiring yoki sinov hodisasini yuboring",
    },
    "was_delivered": {
        "en": "the event was delivered; args.force sends it again",
        "ru": "событие доставлено; args.force отправит его ещё раз",
        "uz": "hodisa yetkazilgan; args.force uni yana yuboradi",
    },
    "id_is_owed": {
        "en": "another event with the same id is owed",
        "ru": "другое событие с тем же ID ещё ждёт доставки",
        "uz": "shu IDli boshqa hodisa hali yetkazilishi kerak",
    },
    "object_is_lost": {
        "en": "its object could not be read when it was due, and is lost",
        "ru": "объект не удалось прочитать в срок, и он утрачен",
        "uz": "obyektni vaqtida o‘qib bo‘lmadi va u yo‘qolgan",
    },
    "state_unknown": {
        "en": "the delivery's state is none that we know",
        "ru": "состояние доставки нам неизвестно",
        "uz": "yetkazish holati bizga noma’lum",
    },
    "nothing_owed": {
        "en": "the delivery is {state}, nothing is owed",
        "ru": "состояние доставки {state}, отправлять нечего",
        "uz": "yetkazish holati {state}, yuboradigan narsa yo‘q",
    },
    "no_longer_owed": {
        "en": "the delivery is no longer owed",
        "ru": "доставка уже не требуется",
        "uz": "yetkazish endi kerak emas",
    },
    "rejected_paused": {
        "en": "the merchant is paused: resume it first",
        "ru": "мерчант на паузе: сначала возобновите его",
        "uz": "merchant pauzada: avval uni davom ettiring",
    },
    "rejected_all_paused": {
        "en": "everything is paused: resume it first",
        "ru": "всё на паузе: сначала возобновите отправку",
        "uz": "hammasi pauzada: avval yuborishni davom ettiring",
    },
    "rejected_secret": {
        "en": "the secret cannot be opened: {error}",
        "ru": "секрет не удаётся расшифровать: {error}",
        "uz": "maxfiy kalitni ochib bo‘lmayapti: {error}",
    },
    "args_no_object": {
        "en": "args must be a JSON object of reasonable size",
        "ru": "args должен быть объектом JSON разумного размера",
        "uz": "args me’yordagi hajmli JSON obyekti bo‘lishi kerak",
    },
    "command_unknown": {
        "en": "unknown command; known are {commands}",
        "ru": "неизвестная команда; есть такие: {commands}",
        "uz": "noma’lum buyruq; mavjudlari: {commands}",
    },
    "progress_malformed": {
        "en": "result is not what a worker wrote: ask anew",
        "ru": "result записан не исполнителем: дайте команду заново",
        "uz": "result ni bajaruvchi yozmagan: buyruqni qaytadan bering",
    },
    "args_instant": {
        "en": "args.{name} is an instant such as 2026-11-20T08:15:30Z",
        "ru": "args.{name} — это время вида 2026-11-20T08:15:30Z",
        "uz": "args.{name} — 2026-11-20T08:15:30Z ko‘rinishidagi vaqt",
    },
    "args_offset": {
        "en": "args.{name} needs an offset, such as Z or +00:00",
        "ru": "args.{name} требует смещения, например Z или +00:00",
        "uz": "args.{name} uchun siljish kerak, masalan Z yoki +00:00",
    },
    "args_flag": {
        "en": "args.{name} is true or false",
        "ru": "args.{name} — это true или false",
        "uz": "args.{name} — true yoki false",
    },
    "args_choice": {
        "en": "args.{name} is a list of some of {known}",
        "ru": "args.{name} — это список из значений {known}",
        "uz": "args.{name} — quyidagilardan iborat ro‘yxat: {known}",
    },
    "args_count": {
        "en": "args.{name} is a whole number from 1 to {highest}",
        "ru": "args.{name} — это целое число от 1 до {highest}",
        "uz": "args.{name} — 1 dan {highest} gacha butun son",
    },
    "address_denied": {
        "en": "{address} is in a denied network (WEBHOOK_EGRESS_DENY_NETWORKS)",
        "ru": "{address} в запрещённой сети (WEBHOOK_EGRESS_DENY_NETWORKS)",
        "uz": "{address} taqiqlangan tarmoqda (WEBHOOK_EGRESS_DENY_NETWORKS)",
    },
    "address_not_public": {
        "en": "{address} is not a public address ({reason})",
        "ru": "{address} не публичный адрес ({reason})",
        "uz": "{address} ommaviy manzil emas ({reason})",
    },
    "args_text": {
        "en": "{command} needs args.{name}, a string",
        "ru": "команде {command} нужна строка args.{name}",
        "uz": "{command} buyrug‘iga args.{name} matni kerak",
    },
    "args_scope": {
        "en": "{command} needs merchant_id or args.since",
        "ru": "команде {command} нужен merchant_id или args.since",
        "uz": "{command} buyrug‘iga merchant_id yoki args.since kerak",
    },
    "args_whom": {
        "en": "{command} needs either merchant_id or args.all = true",
        "ru": "команде {command} нужен либо merchant_id, либо args.all = true",
        "uz": "{command} buyrug‘iga merchant_id yoki args.all = true kerak",
    },
    "args_before": {
        "en": "{command} needs args.before, an instant",
        "ru": "команде {command} нужно время args.before",
        "uz": "{command} buyrug‘iga args.before vaqti kerak",
    },
    "args_needs": {
        "en": "{command} needs {name}",
        "ru": "команде {command} нужен {name}",
        "uz": "{command} buyrug‘iga {name} kerak",
    },
    "another_database_silent": {
        "en": "{database} does not answer: {error}",
        "ru": "{database} не отвечает: {error}",
        "uz": "{database} javob bermayapti: {error}",
    },
    "as_written": {"en": "{text}", "ru": "{text}", "uz": "{text}"},
}
