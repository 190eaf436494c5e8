"""The words of closed lists, as tables and filters show them; in the order in which a filter offers them."""

from collections.abc import Mapping
from types import MappingProxyType

from webhook_dispatcher.domain.language import Language


def _word(en: str, ru: str, uz: str) -> Mapping[Language, str]:
    return MappingProxyType({"en": en, "ru": ru, "uz": uz})


WORDS: Mapping[str, Mapping[str, Mapping[Language, str]]] = {
    "state": {
        "pending": _word("Waiting", "Ожидает отправки", "Yuborilishini kutmoqda"),
        "pending_retry": _word("Waiting for a retry", "Ожидает повтора", "Takroriy urinishni kutmoqda"),
        "delivered": _word("Delivered", "Доставлено", "Yetkazildi"),
        "failed": _word("Failed", "Не доставлено", "Yetkazilmadi"),
    },
    "failed_reason": {
        "exhausted": _word("No attempts left", "Попытки исчерпаны", "Urinishlar tugadi"),
        "not_configured": _word("No endpoint", "Нет адреса вебхука", "Webhook manzili yo‘q"),
        "unsendable": _word("Cannot be sent", "Невозможно отправить", "Yuborib bo‘lmaydi"),
        "cancelled": _word("Cancelled", "Отменено", "Bekor qilindi"),
        "skipped": _word("Skipped", "Пропущено", "O‘tkazib yuborildi"),
    },
    "outcome": {
        "delivered": _word("Delivered", "Доставлено", "Yetkazildi"),
        "status": _word("Refused with a status", "Отказ со статусом", "Status bilan rad etildi"),
        "timeout": _word("No answer in time", "Нет ответа вовремя", "O‘z vaqtida javob kelmadi"),
        "dns": _word("Host not found", "Узел не найден (DNS)", "Server nomi topilmadi (DNS)"),
        "connect": _word("No connection", "Нет соединения", "Ulanib bo‘lmadi"),
        "tls": _word("Not secure (TLS)", "Защита не установлена (TLS)", "Himoya o‘rnatilmadi (TLS)"),
        "disconnected": _word("Connection lost", "Соединение прервано", "Aloqa uzildi"),
        "bad_response": _word("Unreadable answer", "Непонятный ответ", "Tushunarsiz javob"),
        "blocked": _word("Address not allowed", "Адрес не разрешён", "Manzilga ruxsat yo‘q"),
        "unsendable": _word("Cannot be sent", "Невозможно отправить", "Yuborib bo‘lmaydi"),
    },
    "trigger": {
        "schedule": _word("By the schedule", "По расписанию", "Jadval bo‘yicha"),
        "manual": _word("By hand", "Вручную", "Qo‘lda"),
        "replay": _word("By a recovery", "При восстановлении", "Tiklash paytida"),
    },
    "command": {
        "retry": _word("Retry", "Повторить", "Takrorlash"),
        "retry_failed": _word("Retry failed", "Повторить недоставленные", "Yetkazilmaganlarni takrorlash"),
        "recover": _word("Recover", "Восстановить", "Tiklash"),
        "skip": _word("Skip", "Пропустить", "O‘tkazib yuborish"),
        "test_event": _word("Test event", "Тестовое событие", "Sinov hodisasi"),
        "set_url": _word("Change URL", "Сменить URL", "URLni almashtirish"),
        "pause": _word("Pause", "Поставить на паузу", "Pauzaga qo‘yish"),
        "resume": _word("Resume", "Возобновить", "Davom ettirish"),
        "cancel": _word("Cancel", "Отменить", "Bekor qilish"),
    },
    "command_status": {
        "pending": _word("Waiting", "Ожидает", "Kutmoqda"),
        "running": _word("Running", "Выполняется", "Bajarilmoqda"),
        "done": _word("Done", "Выполнено", "Bajarildi"),
        "rejected": _word("Rejected", "Отклонено", "Rad etildi"),
        "withdrawn": _word("Withdrawn", "Отозвано", "Qaytarib olindi"),
    },
    "rejection": {
        "-14001": _word(
            "The URL is not allowed", "На этот URL отправлять нельзя", "Bu URLga yuborib bo‘lmaydi"
        ),
        "-14002": _word("No endpoint", "Нет адреса вебхука", "Webhook manzili yo‘q"),
        "-14003": _word("Not found", "Не найдено", "Topilmadi"),
        "-14004": _word(
            "The state does not allow it", "Состояние этого не допускает", "Holati bunga imkon bermaydi"
        ),
        "-14005": _word("Malformed", "Неверно составлено", "Noto‘g‘ri tuzilgan"),
    },
    "fact": {
        "since": _word("From", "С", "Dan"),
        "until": _word("To", "По", "Gacha"),
        "before": _word("Created before", "Созданные до", "Shu vaqtdan oldin yaratilgan"),
        "states": _word("States", "Состояния", "Holatlar"),
        "types": _word("Types", "Типы", "Turlar"),
        "charge": _word("Charge", "Платёж", "To‘lov"),
        "leave_out": _word("Left out", "Не затронуты", "Kirmaydi"),
        "limit": _word("At most", "Не больше", "Ko‘pi bilan"),
        "force": _word("Even if delivered", "Даже если доставлено", "Yetkazilgan bo‘lsa ham"),
        "all": _word("All merchants", "Все мерчанты", "Barcha merchantlar"),
        "url": _word("URL", "URL", "URL"),
        "matched": _word("Matched", "Подошло", "Mos keldi"),
        "states_before": _word("States before", "Состояния до этого", "Avvalgi holatlari"),
        "retried": _word("Retried", "Повторено", "Takrorlandi"),
        "recovered": _word("Sent again", "Отправлено заново", "Qayta yuborildi"),
        "skipped": _word("Skipped", "Пропущено", "O‘tkazib yuborildi"),
        "counted": _word("Counted before", "Насчитано заранее", "Oldindan sanaldi"),
        "passed": _word("Looked at", "Просмотрено", "Ko‘rildi"),
        "stopped": _word("Stopped", "Остановлено", "To‘xtatildi"),
        "in_flight": _word("In flight", "Уже в пути", "Yo‘lda"),
        "outcome": _word("Outcome", "Исход", "Natija"),
        "status": _word("HTTP status", "HTTP-статус", "HTTP status"),
        "reason": _word("Why", "Причина", "Sababi"),
        "event_id": _word("Event", "Событие", "Hodisa"),
        "args": _word("Arguments", "Параметры", "Parametrlar"),
        "id": _word("Number", "Номер", "Raqami"),
        "secret_created_at": _word("Secret made", "Секрет создан", "Maxfiy kalit yaratilgan"),
        "key_id": _word("Sealed by", "Зашифрован ключом", "Shifrlagan kalit"),
        "previous_until": _word("Previous secret until", "Прежний секрет до", "Avvalgi maxfiy kalit muddati"),
        "previous_key_id": _word("Previous secret sealed by", "Прежний зашифрован", "Avvalgisini shifrlagan"),
        "client_id": _word("Client id", "Client id", "Client id"),
        "name": _word("Name", "Имя", "Nomi"),
        "role": _word("Role", "Роль", "Roli"),
        "is_by_proxy": _word("By a proxy", "Через прокси", "Proksi orqali"),
        "by": _word("By means of", "Способ", "Usuli"),
        "address": _word("Address", "Адрес", "Manzil"),
        "agent": _word("Browser", "Браузер", "Brauzer"),
        "began_at": _word("Began", "Начат", "Boshlangan"),
        "sessions": _word("Sessions", "Сеансов", "Seanslar"),
        "sessions_ended": _word("Sessions ended", "Завершено сеансов", "Tugatilgan seanslar"),
        "locked_seconds": _word("Locked, seconds", "Закрыт, секунд", "Yopilgan, soniya"),
        "installation": _word("Installation", "Установка", "O‘rnatma"),
    },
    "left_out": {
        "last_attempts": _word("Last attempts", "Последние попытки", "Oxirgi urinishlar"),
        "failing": _word(
            "Failing merchants", "Мерчанты, которые не принимают", "Qabul qilmayotgan merchantlar"
        ),
    },
    "merchant": {
        "healthy": _word("Healthy", "Исправен", "Soz"),
        "slow": _word("Slow", "Отвечает медленно", "Sekin javob bermoqda"),
        "failing": _word("Failing", "Не принимает", "Qabul qilmayapti"),
        "suspended": _word("Suspended", "Приостановлен", "To‘xtatib turilgan"),
        "paused": _word("Paused", "На паузе", "Pauzada"),
        "not_configured": _word("No endpoint", "Нет адреса вебхука", "Webhook manzili yo‘q"),
        "new": _word("Nothing delivered yet", "Доставок ещё не было", "Hali yetkazilmagan"),
    },
    "change": {
        "endpoint set": _word("Endpoint set", "Адрес вебхука задан", "Webhook manzili kiritildi"),
        "endpoint removed": _word("Endpoint removed", "Адрес вебхука удалён", "Webhook manzili o‘chirildi"),
        "endpoint moved": _word(
            "Endpoint moved to another merchant",
            "Адрес вебхука передан другому мерчанту",
            "Webhook manzili boshqa merchantga o‘tkazildi",
        ),
        "endpoint changed": _word(
            "Endpoint changed", "Адрес вебхука изменён", "Webhook manzili o‘zgartirildi"
        ),
        "url changed": _word("URL changed", "URL изменён", "URL almashtirildi"),
        "secret rotated": _word("Secret rotated", "Секрет сменён", "Maxfiy kalit almashtirildi"),
        "secret changed": _word("Secret changed", "Секрет изменён", "Maxfiy kalit o‘zgartirildi"),
        "secret rekeyed": _word(
            "Secret encrypted anew", "Секрет зашифрован заново", "Maxfiy kalit qayta shifrlandi"
        ),
        "api key created": _word("API key created", "Ключ API создан", "API kaliti yaratildi"),
        "api key revoked": _word("API key revoked", "Ключ API отозван", "API kaliti bekor qilindi"),
        "command withdrawn": _word("Command withdrawn", "Команда отозвана", "Buyruq qaytarib olindi"),
        "command stopped": _word("Command stopped", "Команда остановлена", "Buyruq to‘xtatildi"),
        "signed in": _word("Signed in", "Вход", "Kirish"),
        "signed out": _word("Signed out", "Выход", "Chiqish"),
        "sign-in refused": _word("Sign-in refused", "Во входе отказано", "Kirish rad etildi"),
        "session ended": _word("Session ended", "Сеанс завершён", "Seans tugatildi"),
        "sessions ended": _word(
            "Other sessions ended", "Другие сеансы завершены", "Boshqa seanslar tugatildi"
        ),
        "sign-in code made": _word("Sign-in code made", "Создан код входа", "Kirish kodi yaratildi"),
        "password set": _word("Password set", "Пароль задан", "Parol o‘rnatildi"),
        "password changed": _word("Password changed", "Пароль изменён", "Parol almashtirildi"),
        "password change refused": _word(
            "Password change refused", "В смене пароля отказано", "Parolni almashtirish rad etildi"
        ),
        "account added": _word("Account added", "Учётная запись добавлена", "Hisob qo‘shildi"),
        "account role changed": _word("Role changed", "Роль изменена", "Roli o‘zgartirildi"),
        "account disabled": _word("Account disabled", "Учётная запись отключена", "Hisob o‘chirib qo‘yildi"),
        "account enabled": _word("Account enabled", "Учётная запись включена", "Hisob yoqildi"),
        "installation adopted": _word("Installation adopted", "Установка принята", "O‘rnatma qabul qilindi"),
    },
    "part": {
        "attempts": _word("Its attempts", "Его попытки", "Uning urinishlari"),
        "commands": _word("Commands about it", "Команды о нём", "U haqidagi buyruqlar"),
        "pauses": _word("Who paused", "Кто поставил на паузу", "Kim pauza qilgani"),
        "order": _word("What overtook it", "Что его обогнало", "Undan nima o‘zib ketgani"),
        "latest attempts": _word(
            "The merchant's latest attempts", "Последние попытки мерчанту", "Merchantga so‘nggi urinishlar"
        ),
    },
    "subject": {
        "everything": _word("Everything", "Всё", "Hammasi"),
        "backlog": _word("Backlog", "Ожидают", "Kutayotganlar"),
        "oldest": _word("Oldest", "Самое старое", "Eng eskisi"),
        "retries": _word("Retries", "Повторы", "Takroriy urinishlar"),
        "lag": _word("Lag", "Задержка", "Kechikish"),
        "attempts": _word("Attempts", "Попытки", "Urinishlar"),
        "failing": _word("Failing", "Не принимают", "Qabul qilmayotganlar"),
        "suspended": _word("Suspended", "Приостановлены", "To‘xtatib turilganlar"),
        "behind": _word("Behind", "Отстают", "Ortda qolganlar"),
        "no_endpoint": _word("No endpoint", "Без адреса вебхука", "Webhook manzilsizlar"),
        "held": _word("Held by a pause", "Ждут конца паузы", "Pauza tugashini kutayotganlar"),
        "paused": _word("Paused", "На паузе", "Pauzadagilar"),
        "dispatchers": _word("Dispatchers", "Диспетчеры", "Dispetcherlar"),
        "partitions": _word("Partitions", "Разделы таблиц", "Jadval bo‘limlari"),
        "sizes": _word("Sizes", "Размеры", "Hajmlar"),
        "lost": _word("Lost", "Утрачены", "Yo‘qolganlar"),
        "commands": _word("Commands", "Команды", "Buyruqlar"),
        "clock": _word("Clock", "Часы", "Soat"),
        "pause": _word("Pause", "Пауза", "Pauza"),
        "installation": _word("Installation", "Установка", "O‘rnatma"),
        "endpoints": _word("Endpoints", "Адреса вебхуков", "Webhook manzillari"),
        "sealing_key": _word("Sealing key", "Ключ шифрования", "Shifrlash kaliti"),
        "charges": _word("Charges", "Платежи", "To‘lovlar"),
        "database": _word("Database", "База данных", "Ma’lumotlar bazasi"),
    },
}
