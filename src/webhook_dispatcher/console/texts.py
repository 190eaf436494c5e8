"""The console's own words, in three languages: data. Words of closed lists are the diagnosis's (`label`).

What others wrote is a fact's value and never read as a template.
"""

from collections.abc import Mapping
from types import MappingProxyType

from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.diagnosis.amounts import Form
from webhook_dispatcher.domain.language import LANGUAGES, Language

Text = str | Mapping[Form, str]
"""A template with `{name}` for facts; or one for each form of a plural, by the fact `count`."""


def say(key: str, language: Language, /, **facts: object) -> str:
    """Say something; numbers among the facts are written as the language writes them."""
    text = TEXTS[key][LANGUAGES.index(language)]
    shown = {
        name: amounts.number(fact, language) if isinstance(fact, int) and not isinstance(fact, bool) else fact
        for name, fact in facts.items()
    }
    if isinstance(text, str):
        return text.format_map(shown)
    count = facts["count"]
    assert isinstance(count, int)
    return text[amounts.form(count, language)].format_map(shown)


TEXTS: Mapping[str, tuple[Text, Text, Text]] = MappingProxyType(
    {
        "nav.pages": ("Pages", "Страницы", "Sahifalar"),
        "nav.overview": ("Overview", "Обзор", "Umumiy holat"),
        "nav.deliveries": ("Deliveries", "Доставки", "Yetkazishlar"),
        "nav.merchants": ("Merchants", "Мерчанты", "Merchantlar"),
        "nav.commands": ("Commands", "Команды", "Buyruqlar"),
        "nav.health": ("Health", "Состояние", "Tizim holati"),
        "nav.account": ("Account", "Учётная запись", "Hisob"),
        "nav.sign_out": ("Sign out", "Выйти", "Chiqish"),
        "nav.search": ("Search", "Поиск", "Qidirish"),
        "nav.skip": ("Skip to content", "К содержимому", "Asosiy qismga o‘tish"),
        "page.as_of": ("As of", "По состоянию на", "Holat vaqti:"),
        "page.pause": ("Stop refreshing", "Не обновлять", "Yangilanmasin"),
        "page.away": (
            "The console or its database does not answer. What stands here is as of the time above.",
            "Консоль или её база данных не отвечает. Здесь показано состояние на указанное выше время.",
            "Konsol yoki uning bazasi javob bermayapti. Bu yerda yuqoridagi vaqtdagi holat turibdi.",
        ),
        "page.nobody_alive": (
            "No dispatcher is noted within half a minute: nothing is delivered, unless one is just starting.",
            "За полминуты нет отметки ни одного диспетчера: ничего не доставляется, "
            "если ни один сейчас не запускается.",
            "Yarim daqiqada birorta dispetcher belgisi yo‘q: hozir biri ishga tushayotgan bo‘lmasa, "
            "hech narsa yetkazilmaydi.",
        ),
        "common.any": ("Any", "Любое", "Istalgan"),
        "common.all": ("Show all", "Показать все", "Hammasi"),
        "common.filter": ("Filter", "Отобрать", "Saralash"),
        "common.filters": ("Filters", "Фильтры", "Filtrlar"),
        "common.filters_set": ("{count} set", "задано: {count}", "tanlangan: {count}"),
        "common.clear": ("Clear", "Сбросить", "Tozalash"),
        "common.show": ("Show", "Показать", "Ko‘rsatish"),
        "common.save": ("Save", "Сохранить", "Saqlash"),
        "common.copy": ("Copy", "Копировать", "Nusxalash"),
        "common.copied": ("Copied", "Скопировано", "Nusxalandi"),
        "common.details": ("Details", "Подробнее", "Batafsil"),
        "common.yes": ("yes", "да", "ha"),
        "common.no": ("no", "нет", "yo‘q"),
        "common.never": ("Never", "Никогда", "Hech qachon"),
        "common.next_page": ("Next page", "Следующая страница", "Keyingi sahifa"),
        "common.first_page": ("First page", "Первая страница", "Birinchi sahifa"),
        "common.ms": ("ms", "мс", "ms"),
        "common.saved": ("Saved.", "Сохранено.", "Saqlandi."),
        "sign_in.title": ("Sign in", "Вход", "Kirish"),
        "sign_in.name": ("Name", "Имя", "Nom"),
        "sign_in.password": ("Password", "Пароль", "Parol"),
        "sign_in.do": ("Sign in", "Войти", "Kirish"),
        "sign_in.with_code": (
            "Sign in with a one-time code",
            "Войти по одноразовому коду",
            "Bir martalik kod bilan kirish",
        ),
        "sign_in.code": ("Code", "Код", "Kod"),
        "sign_in.code_hint": (
            "webhook-dispatcher account code NAME prints one; it works once, for sixty seconds.",
            "Его выдаёт webhook-dispatcher account code NAME; код действует один раз, шестьдесят секунд.",
            (
                "Uni webhook-dispatcher account code NAME beradi; kod bir marta, oltmish soniya ichida "
                "ishlaydi."
            ),
        ),
        "sign_in.refused": (
            "The name or the password is wrong.",
            "Неверное имя или пароль.",
            "Nom yoki parol noto‘g‘ri.",
        ),
        "sign_in.code_refused": (
            "This code is wrong, was used, or is older than sixty seconds.",
            "Код неверен, уже использован или старше шестидесяти секунд.",
            "Kod noto‘g‘ri, ishlatilgan yoki oltmish soniyadan eski.",
        ),
        "sign_in.locked": (
            "Too many wrong tries. Try again in {wait}.",
            "Слишком много неверных попыток. Повторите через {wait}.",
            "Noto‘g‘ri urinishlar juda ko‘p. {wait}dan keyin qayta urinib ko‘ring.",
        ),
        "sign_in.disabled": (
            "This account is disabled. An administrator can enable it: webhook-dispatcher account enable.",
            "Учётная запись отключена. Администратор может её включить: webhook-dispatcher account enable.",
            "Hisob o‘chirilgan. Administrator uni yoqishi mumkin: webhook-dispatcher account enable.",
        ),
        "sign_in.busy": (
            "Too many people are signing in. Try again in a moment.",
            "Сейчас входит слишком много людей. Повторите чуть позже.",
            "Hozir juda ko‘p odam kirmoqda. Birozdan keyin qayta urinib ko‘ring.",
        ),
        "sign_in.over": (
            "The session is over. Sign in to go on.",
            "Сеанс завершён. Войдите, чтобы продолжить.",
            "Seans tugagan. Davom etish uchun kiring.",
        ),
        "sign_in.idle": (
            "Nothing was done for fifteen minutes. Sign in to go on; nothing was changed.",
            "Пятнадцать минут ничего не происходило. Войдите, чтобы продолжить; ничего не изменено.",
            "O‘n besh daqiqa hech narsa qilinmadi. Davom etish uchun kiring; hech narsa o‘zgarmadi.",
        ),
        "message.back": ("Go back", "Вернуться", "Orqaga"),
        "not_found.title": ("Not found", "Не найдено", "Topilmadi"),
        "not_found.text": ("There is no such page.", "Такой страницы нет.", "Bunday sahifa yo‘q."),
        "no_delivery.title": ("No such delivery", "Такой доставки нет", "Bunday yetkazish yo‘q"),
        "no_delivery.text": (
            "There is no event {event}. The log is kept since {since}; what ended before is gone.",
            "События {event} нет. Журнал хранится с {since}; завершённое раньше удалено.",
            "{event} hodisasi yo‘q. Jurnal {since} dan beri saqlanadi; undan oldin tugaganlari o‘chirilgan.",
        ),
        "no_command.title": ("No such command", "Такой команды нет", "Bunday buyruq yo‘q"),
        "no_command.text": (
            "There is no command of this number; they are kept for a year.",
            "Команды с таким номером нет; команды хранятся год.",
            "Bu raqamli buyruq yo‘q; buyruqlar bir yil saqlanadi.",
        ),
        "denied.title": ("Not allowed", "Нет доступа", "Ruxsat yo‘q"),
        "denied.text": (
            "Viewers look, and change nothing. An administrator can make an operator of an account.",
            (
                "Наблюдатели смотрят и ничего не меняют. Администратор может сделать учётную запись "
                "операторской."
            ),
            "Kuzatuvchilar faqat ko‘radi. Administrator hisobni operatorga aylantirishi mumkin.",
        ),
        "denied_by_proxy.title": ("Not signed in", "Вход не выполнен", "Kirilmagan"),
        "denied_by_proxy.text": (
            (
                "The proxy before this console named nobody who has an account here: webhook-dispatcher "
                "account add NAME --by-proxy."
            ),
            (
                "Прокси перед консолью не назвал никого, у кого здесь есть учётная запись: "
                "webhook-dispatcher account add NAME --by-proxy."
            ),
            (
                "Konsol oldidagi proksi bu yerda hisobi bor hech kimni aytmadi: webhook-dispatcher account "
                "add NAME --by-proxy."
            ),
        ),
        "forged.title": ("Not taken", "Не принято", "Qabul qilinmadi"),
        "forged.text": (
            (
                "This did not come from a page of this session, so nothing was changed. Open the page again "
                "and repeat it."
            ),
            (
                "Запрос пришёл не со страницы этого сеанса, поэтому ничего не изменено. Откройте страницу "
                "заново и повторите."
            ),
            (
                "So‘rov bu seans sahifasidan kelmagan, shuning uchun hech narsa o‘zgarmadi. Sahifani qayta "
                "ochib takrorlang."
            ),
        ),
        "wrong_host.title": ("Not here", "Не здесь", "Bu yerda emas"),
        "wrong_host.text": (
            "The console answers at {origin} alone (WEBHOOK_CONSOLE_ORIGIN).",
            "Консоль отвечает только по адресу {origin} (WEBHOOK_CONSOLE_ORIGIN).",
            "Konsol faqat {origin} manzilida javob beradi (WEBHOOK_CONSOLE_ORIGIN).",
        ),
        "method.title": ("Not possible", "Невозможно", "Imkonsiz"),
        "method.text": (
            "This address cannot be asked in this way.",
            "К этому адресу так обращаться нельзя.",
            "Bu manzilga bunday murojaat qilib bo‘lmaydi.",
        ),
        "malformed.title": ("Malformed request", "Неверный запрос", "Noto‘g‘ri so‘rov"),
        "malformed.text": (
            "The request could not be read.",
            "Запрос не удалось прочитать.",
            "So‘rovni o‘qib bo‘lmadi.",
        ),
        "too_large.title": ("Too large", "Слишком много данных", "Juda katta"),
        "too_large.text": (
            "More was sent than a page of ours ever sends.",
            "Прислано больше, чем отправляет любая наша страница.",
            "Sahifalarimiz yuboradigandan ko‘proq ma’lumot keldi.",
        ),
        "crowded.title": (
            "Too many requests at once",
            "Слишком много запросов сразу",
            "Bir vaqtda so‘rovlar ko‘p",
        ),
        "crowded.text": (
            "Your address asks for too much at a time. Nothing was done; try again in a moment.",
            "С вашего адреса запрошено слишком много сразу. Ничего не сделано; повторите чуть позже.",
            "Manzilingizdan birdan juda ko‘p so‘raldi. Hech narsa qilinmadi; birozdan keyin qayta urining.",
        ),
        "unavailable.title": (
            "The database does not answer",
            "База данных не отвечает",
            "Ma’lumotlar bazasi javob bermayapti",
        ),
        "unavailable.text": (
            (
                "Deliveries go on as soon as it is back. Whether a change was made is not known: look "
                "before you repeat it."
            ),
            (
                "Доставки продолжатся, как только она вернётся. Внесено ли изменение, неизвестно: "
                "проверьте, прежде чем повторять."
            ),
            (
                "U qaytishi bilan yetkazishlar davom etadi. O‘zgarish kiritilgani noma’lum: takrorlashdan "
                "oldin tekshiring."
            ),
        ),
        "failed.title": ("Something went wrong", "Что-то пошло не так", "Xatolik yuz berdi"),
        "failed.text": (
            "It is in the console's log, as request {request}.",
            "Подробности в журнале консоли, запрос {request}.",
            "Tafsilotlar konsol jurnalida, so‘rov {request}.",
        ),
        "overview.delivered": ("Delivered, last hour", "Доставлено за час", "Bir soatda yetkazildi"),
        "overview.attempts_failed": (
            "Failed attempts, last hour",
            "Неудачных попыток за час",
            "Bir soatdagi muvaffaqiyatsiz urinishlar",
        ),
        "overview.failed": ("Failed, 24 hours", "Не доставлено за сутки", "24 soatda yetkazilmadi"),
        "overview.failing": ("Merchants failing", "Мерчанты не принимают", "Qabul qilmayotgan merchantlar"),
        "overview.waiting": ("Waiting", "Ожидает отправки", "Kutmoqda"),
        "overview.retrying": ("Waiting for a retry", "Ожидает повтора", "Qayta urinishni kutmoqda"),
        "overview.oldest": ("oldest", "самое старое", "eng eskisi"),
        "overview.lag": ("Lag, median", "Задержка, медиана", "Kechikish, mediana"),
        "overview.lag_note": ("95 %: {p95}", "95 %: {p95}", "95 %: {p95}"),
        "overview.alive": ("Dispatchers alive", "Работает диспетчеров", "Ishlayotgan dispetcherlar"),
        "overview.suspended": ("suspended: {count}", "приостановлено: {count}", "to‘xtatilgan: {count}"),
        "overview.paused_merchants": ("paused: {count}", "на паузе: {count}", "pauzada: {count}"),
        "overview.everything_paused": (
            "Everything is paused: nothing is sent to anybody.",
            "Всё на паузе: никому ничего не отправляется.",
            "Hammasi pauzada: hech kimga hech narsa yuborilmayapti.",
        ),
        "overview.everything_paused_by": (
            "Everything is paused by {who}: nothing is sent to anybody.",
            "Всё на паузе ({who}): никому ничего не отправляется.",
            "Hammasi pauzada ({who}): hech kimga hech narsa yuborilmayapti.",
        ),
        "overview.own_fault": (
            "{host} has a fault of its own, and sending is held up: {fault}",
            "У {host} собственная неисправность, отправка задерживается: {fault}",
            "{host} o‘zida nosozlik bor, yuborish kechikmoqda: {fault}",
        ),
        "overview.attempts_hour": ("Attempts, last hour", "Попытки за час", "Bir soatdagi urinishlar"),
        "overview.attempts_day": ("Attempts, last day", "Попытки за сутки", "Bir kundagi urinishlar"),
        "overview.class_delivered": ("Delivered", "Доставлено", "Yetkazildi"),
        "overview.class_refused": ("Refused", "Отказ", "Rad etildi"),
        "overview.class_unanswered": ("Not answered", "Нет ответа", "Javob yo‘q"),
        "overview.class_unreached": ("Not reached", "Нет связи", "Ulanib bo‘lmadi"),
        "overview.class_unsent": ("Not sent", "Не отправлено", "Yuborilmadi"),
        "overview.plot": (
            "A plot of attempts over time: {good} delivered, {bad} failed",
            "График попыток по времени: доставлено {good}, неудачно {bad}",
            "Urinishlar grafigi: yetkazildi {good}, muvaffaqiyatsiz {bad}",
        ),
        "overview.dispatchers": ("Dispatchers", "Диспетчеры", "Dispetcherlar"),
        "overview.host": ("Host", "Узел", "Server"),
        "overview.version": ("Version", "Версия", "Versiya"),
        "overview.lanes": ("Lanes", "Очереди", "Navbatlar"),
        "overview.in_flight": ("In flight", "В пути", "Yo‘lda"),
        "overview.beat": ("Last noted", "Отметился", "Oxirgi belgi"),
        "overview.ready": ("Ready", "Готов", "Tayyor"),
        "overview.not_ready": ("Not ready", "Не готов", "Tayyor emas"),
        "overview.away": ("Away", "Пропал", "Yo‘qolgan"),
        "overview.no_dispatchers": (
            "No dispatcher has noted itself",
            "Ни один диспетчер не отметился",
            "Birorta dispetcher belgi bermagan",
        ),
        "overview.no_dispatchers_about": (
            "Start one with webhook-dispatcher run; it notes itself here within ten seconds.",
            "Запустите его: webhook-dispatcher run; он появится здесь за десять секунд.",
            "Uni ishga tushiring: webhook-dispatcher run; o‘n soniyada shu yerda ko‘rinadi.",
        ),
        "deliveries.about": (
            "Every event and what became of it, the newest first.",
            "Каждое событие и что с ним стало, новые сверху.",
            "Har bir hodisa va uning taqdiri, yangilari birinchi.",
        ),
        "deliveries.event": ("Event", "Событие", "Hodisa"),
        "deliveries.event_id": ("Event id", "ID события", "Hodisa ID"),
        "deliveries.type": ("Type", "Тип", "Turi"),
        "deliveries.state": ("State", "Состояние", "Holati"),
        "deliveries.merchant": ("Merchant", "Мерчант", "Merchant"),
        "deliveries.charge": ("Charge", "Платёж", "To‘lov"),
        "deliveries.outcome": ("Outcome", "Исход", "Natija"),
        "deliveries.status": ("HTTP status", "HTTP-статус", "HTTP status"),
        "deliveries.last": ("Last answer", "Последний ответ", "Oxirgi javob"),
        "deliveries.attempts": ("Attempts", "Попытки", "Urinishlar"),
        "deliveries.created": ("Created", "Создано", "Yaratilgan"),
        "deliveries.since": ("From", "С", "Dan"),
        "deliveries.until": ("To", "По", "Gacha"),
        "deliveries.pick": ("Select {event}", "Выбрать {event}", "{event} ni tanlash"),
        "deliveries.pick_page": ("Select this page", "Выбрать страницу", "Sahifani tanlash"),
        "deliveries.ticked": ("Selected", "Выбрано", "Tanlangan"),
        "deliveries.all_matching": ("All that match:", "Все подходящие:", "Barcha mos kelganlar:"),
        "deliveries.none": ("No deliveries", "Доставок нет", "Yetkazishlar yo‘q"),
        "deliveries.none_yet": (
            "None among those looked at",
            "Среди просмотренных нет",
            "Ko‘rilganlar orasida yo‘q",
        ),
        "deliveries.none_filtered": (
            "None matches this filter. Widen it, or go on to older ones.",
            "Под условия ничего не подходит. Ослабьте их или перейдите к более старым.",
            "Bu shartlarga hech narsa mos kelmadi. Ularni kengaytiring yoki eskilariga o‘ting.",
        ),
        "deliveries.none_at_all": (
            (
                "When the charge service writes its first event into webhook.outbox, it appears here within "
                "a second."
            ),
            (
                "Первое событие, которое платёжный сервис запишет в webhook.outbox, появится здесь через "
                "секунду."
            ),
            (
                "To‘lov xizmati webhook.outbox ga birinchi hodisani yozganda, u bir soniyada shu yerda "
                "ko‘rinadi."
            ),
        ),
        "deliveries.time": ("From and until are of", "С и по относятся к", "Oraliq nimaga tegishli"),
        "deliveries.ended": ("Ended", "Завершено", "Tugagan"),
        "deliveries.looked_back": ("Looked back to", "Просмотрено до", "Ko‘rilgan vaqt:"),
        "deliveries.unindexed": (
            (
                "This installation does not index charges, so they cannot be searched for: run "
                "webhook-dispatcher migrate."
            ),
            (
                "Эта установка не индексирует платежи, искать по ним нельзя: выполните webhook-dispatcher "
                "migrate."
            ),
            (
                "Bu o‘rnatma to‘lovlarni indekslamaydi, ular bo‘yicha qidirib bo‘lmaydi: webhook-dispatcher "
                "migrate bajaring."
            ),
        ),
        "filter.instant_beyond": (
            "must be a time in the years 2000 to 2099",
            "должно быть временем с 2000 по 2099 год",
            "2000–2099-yillar oralig‘idagi vaqt bo‘lishi kerak",
        ),
        "filter.range_is_empty": (
            "must be later than the beginning",
            "должно быть позже начала",
            "boshlanishidan keyin bo‘lishi kerak",
        ),
        "filter.too_long": ("is too long", "слишком длинное значение", "juda uzun"),
        "filter.unreadable": (
            "cannot be stored as text",
            "не может храниться как текст",
            "matn sifatida saqlab bo‘lmaydi",
        ),
        "filter.unknown": ("is none of those that there are", "нет такого значения", "bunday qiymat yo‘q"),
        "filter.not_a_cursor": (
            "is no place in this list: begin at its first page",
            "нет такого места в списке: начните с первой страницы",
            "ro‘yxatda bunday joy yo‘q: birinchi sahifadan boshlang",
        ),
        "filter.not_an_event": (
            "must be an id such as 0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11",
            "должен иметь вид 0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11",
            "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11 ko‘rinishida bo‘lishi kerak",
        ),
        "filter.said": ("{field}: {problem}", "{field}: {problem}", "{field}: {problem}"),
        "filter.after": ("Page", "Страница", "Sahifa"),
        "delivery.story": ("What happened", "Что произошло", "Nima bo‘ldi"),
        "delivery.advice": ("What can be done", "Что можно сделать", "Nima qilish mumkin"),
        "delivery.facts": ("Delivery", "Доставка", "Yetkazish"),
        "delivery.by_hand": ("({count} by hand)", "({count} вручную)", "({count} tasi qo‘lda)"),
        "delivery.next": ("Next attempt", "Следующая попытка", "Keyingi urinish"),
        "delivery.finished": ("Ended", "Завершено", "Tugagan"),
        "delivery.number": ("Number", "Номер", "Raqami"),
        "delivery.why": ("Why", "Причина", "Sababi"),
        "delivery.trigger": ("Made", "Как сделана", "Qanday qilingan"),
        "delivery.took": ("Took", "Заняла", "Davomiyligi"),
        "delivery.began": ("Began", "Начата", "Boshlangan"),
        "delivery.answer": ("Answer", "Ответ", "Javob"),
        "delivery.no_attempts": (
            "No attempt was made yet.",
            "Попыток ещё не было.",
            "Hali urinish bo‘lmagan.",
        ),
        "delivery.request": ("Request", "Запрос", "So‘rov"),
        "delivery.headers": ("Headers", "Заголовки", "Sarlavhalar"),
        "delivery.headers_note": (
            "The signature is made for each attempt anew and is not kept.",
            "Подпись создаётся для каждой попытки заново и не хранится.",
            "Imzo har bir urinish uchun qaytadan yaratiladi va saqlanmaydi.",
        ),
        "delivery.payload": ("Body", "Тело", "Tanasi"),
        "delivery.raw": (
            "As sent, byte for byte",
            "Как отправлено, байт в байт",
            "Yuborilgan holida, baytma-bayt",
        ),
        "delivery.payload_hidden": (
            "What is sent is shown to operators alone.",
            "Отправляемое видят только операторы.",
            "Yuboriladigan ma’lumotni faqat operatorlar ko‘radi.",
        ),
        "delivery.others": (
            "Other deliveries with this id",
            "Другие доставки с этим ID",
            "Shu ID bilan boshqa yetkazishlar",
        ),
        "delivery.command": (
            "{command}, command {number}:",
            "{command}, команда {number}:",
            "{command}, {number}-buyruq:",
        ),
        "delivery.retry": ("Retry", "Повторить", "Takrorlash"),
        "delivery.retry_now": ("Retry now", "Повторить сейчас", "Hozir takrorlash"),
        "delivery.send_again": ("Send again", "Отправить ещё раз", "Yana yuborish"),
        "delivery.send_again_about": (
            "It was delivered. It is sent once more, and stays delivered whatever comes of it.",
            "Уже доставлено. Отправляется ещё раз и останется доставленным при любом исходе.",
            "Yetkazilgan. Yana bir marta yuboriladi va natijasidan qat’i nazar yetkazilgan bo‘lib qoladi.",
        ),
        "delivery.send_again_do": ("Send it again", "Отправить ещё раз", "Yana yuborish"),
        "delivery.cancel": ("Cancel", "Отменить", "Bekor qilish"),
        "delivery.cancel_about": (
            (
                "It is given up: nothing more is attempted. An attempt under way ends and counts. A retry "
                "takes it back."
            ),
            (
                "Доставка прекращается: попыток больше не будет. Начатая попытка завершится и "
                "засчитается. Вернуть можно повтором."
            ),
            (
                "Yetkazish to‘xtatiladi: boshqa urinish bo‘lmaydi. Boshlangan urinish tugaydi va "
                "hisobga olinadi. Takrorlash bilan qaytarish mumkin."
            ),
        ),
        "delivery.cancel_do": ("Give it up", "Прекратить", "To‘xtatish"),
        "act.retry": ("Retry", "Повторить", "Takrorlash"),
        "act.retry_about": (
            (
                "Each of these is attempted once more now. What waits for a retry keeps its schedule, and "
                "what was delivered already is left as it is."
            ),
            (
                "Для каждого будет сделана ещё одна попытка сейчас. Расписание ожидающих повтора не "
                "изменится, доставленное останется как есть."
            ),
            (
                "Har biri uchun hozir yana bitta urinish qilinadi. Takrorni kutayotganlarning jadvali "
                "o‘zgarmaydi, yetkazilganlari ham."
            ),
        ),
        "act.retry_do": (
            {"one": "Retry {count} delivery", "other": "Retry {count} deliveries"},
            {
                "one": "Повторить {count} доставку",
                "few": "Повторить {count} доставки",
                "many": "Повторить {count} доставок",
            },
            {"other": "{count} ta yetkazishni takrorlash"},
        ),
        "act.cancel": ("Cancel", "Отменить", "Bekor qilish"),
        "act.cancel_about": (
            (
                "These are given up: nothing more is attempted. What was delivered or has failed is left as "
                "it is."
            ),
            "Эти доставки прекращаются: попыток больше не будет. Завершённые останутся как есть.",
            "Bu yetkazishlar to‘xtatiladi: boshqa urinish bo‘lmaydi. Tugaganlari o‘zgarmaydi.",
        ),
        "act.cancel_do": (
            {"one": "Cancel {count} delivery", "other": "Cancel {count} deliveries"},
            {
                "one": "Отменить {count} доставку",
                "few": "Отменить {count} доставки",
                "many": "Отменить {count} доставок",
            },
            {"other": "{count} ta yetkazishni bekor qilish"},
        ),
        "act.retry_all": ("Retry failed", "Повторить недоставленные", "Yetkazilmaganlarni takrorlash"),
        "act.retry_all_about": (
            (
                "Every delivery that matches and has failed for good is attempted once more, paced so that "
                "new events do not suffer."
            ),
            (
                "Для каждой подходящей окончательно недоставленной будет ещё одна попытка, без ущерба новым "
                "событиям."
            ),
            (
                "Mos keladigan har bir yetkazilmagan hodisa uchun yana bitta urinish qilinadi, yangi "
                "hodisalarga zarar yetkazmasdan."
            ),
        ),
        "act.recover_all": ("Send again", "Отправить заново", "Qayta yuborish"),
        "act.recover_all_about": (
            (
                "What you tick is attempted once now. What waits for a retry keeps its schedule: if this "
                "attempt fails, the next one stays due when it was. Cancelled and test events are left out."
            ),
            (
                "Отмеченное отправляется один раз сейчас. У ожидающего повтора расписание не меняется: "
                "если попытка не удастся, следующая останется в своё время. Отменённые и тестовые не "
                "затрагиваются."
            ),
            (
                "Belgilanganlar hozir bir marta yuboriladi. Takrorni kutayotganlarning jadvali "
                "o‘zgarmaydi: bu urinish muvaffaqiyatsiz bo‘lsa, keyingisi o‘z vaqtida qoladi. Bekor "
                "qilingan va sinov hodisalari kirmaydi."
            ),
        ),
        "act.skip_all": ("Skip", "Пропустить", "O‘tkazib yuborish"),
        "act.skip_all_about": (
            (
                "What waits and matches is given up as skipped, and nothing of it is sent. Sending again "
                "takes it back."
            ),
            (
                "Подходящее из ожидающего помечается пропущенным и не отправляется. Вернуть можно повторной "
                "отправкой."
            ),
            (
                "Kutayotganlardan mos kelganlari o‘tkazib yuboriladi va yuborilmaydi. Qayta yuborish bilan "
                "qaytarish mumkin."
            ),
        ),
        "act.delivered_too": (
            "Delivered ones as well: their merchants accepted these already, and get them a second time.",
            "И доставленные: мерчанты их уже приняли и получат второй раз.",
            "Yetkazilganlari ham: merchantlar ularni qabul qilgan, ikkinchi marta oladi.",
        ),
        "act.last_attempts_too": (
            "Those that wait for the last attempt of their schedule as well: {found}.",
            "И ожидающие последней попытки по расписанию: {found}.",
            "Jadval bo‘yicha oxirgi urinishni kutayotganlar ham: {found}.",
        ),
        "act.failing_too": (
            {
                "one": "Those of a merchant that fails now as well: {found}.",
                "other": "Those of {count} merchants that fail now as well: {found}.",
            },
            {
                "one": "И доставки {count} мерчанта, который сейчас не принимает: {found}.",
                "few": "И доставки {count} мерчантов, которые сейчас не принимают: {found}.",
                "many": "И доставки {count} мерчантов, которые сейчас не принимают: {found}.",
            },
            {"other": "Hozir qabul qilmayotgan {count} ta merchantnikilar ham: {found}."},
        ),
        "act.failing_included": (
            {
                "one": "Of these, {found} are of a merchant that fails now.",
                "other": "Of these, {found} are of {count} merchants that fail now.",
            },
            {
                "one": "Из них {found} — {count} мерчанта, который сейчас не принимает.",
                "few": "Из них {found} — {count} мерчантов, которые сейчас не принимают.",
                "many": "Из них {found} — {count} мерчантов, которые сейчас не принимают.",
            },
            {"other": "Shulardan {found} tasi hozir qabul qilmayotgan {count} ta merchantniki."},
        ),
        "act.everybody": (
            "Yes, this is about all merchants.",
            "Да, это касается всех мерчантов.",
            "Ha, bu barcha merchantlarga tegishli.",
        ),
        "act.everybody_missing": (
            "Tick the box to confirm that all merchants are meant.",
            "Отметьте, что имеются в виду все мерчанты.",
            "Barcha merchantlar nazarda tutilganini belgilang.",
        ),
        "act.counted": (
            (
                "A plus: there are more, or may be. What comes after this preview is left out, and the "
                "command counts exactly as it goes."
            ),
            (
                "Плюс: есть или возможно ещё. Появившееся после этого просмотра не затрагивается, а по "
                "ходу команда считает точно."
            ),
            (
                "Plyus: yana bor yoki bo‘lishi mumkin. Shu ko‘rinishdan keyingilarga tegilmaydi, buyruq "
                "esa jarayonda aniq sanaydi."
            ),
        ),
        "act.times": (
            "Times are of when deliveries ended; what waits for a retry is meant whenever it began.",
            "Время — когда доставки завершились; ожидающее повтора входит независимо от начала.",
            "Vaqt — yetkazishlar tugagan payt; takrorni kutayotganlar boshlanishidan qat’i nazar kiradi.",
        ),
        "act.times_created": (
            "Times are of when events were created.",
            "Время — когда события созданы.",
            "Vaqt — hodisalar yaratilgan payt.",
        ),
        "act.last": ("Last {span}", "Последние {span}", "Oxirgi {span}"),
        "act.changed": (
            "Nothing was done: what you chose is not what was counted before. Below is the new count.",
            "Ничего не сделано: выбрано не то, что было посчитано. Ниже — новый подсчёт.",
            "Hech narsa qilinmadi: tanlangani avval sanalgani emas. Quyida yangi hisob.",
        ),
        "act.count_again": ("Count again", "Пересчитать", "Qayta sanash"),
        "act.matches_none": (
            "Nothing matches just now.",
            "Сейчас ничего не подходит.",
            "Hozircha mos keladigani yo‘q.",
        ),
        "act.more_merchants": (
            {"one": "and {count} more merchant", "other": "and {count} more merchants"},
            {
                "one": "и ещё {count} мерчант",
                "few": "и ещё {count} мерчанта",
                "many": "и ещё {count} мерчантов",
            },
            {"other": "va yana {count} ta merchant"},
        ),
        "act.none_ticked": (
            "Nothing is selected. Tick the deliveries that are meant.",
            "Ничего не выбрано. Отметьте нужные доставки.",
            "Hech narsa tanlanmagan. Kerakli yetkazishlarni belgilang.",
        ),
        "act.none_possible": (
            "This cannot be done to any of those that are ticked, as they stand now.",
            "Ни с одной из отмеченных доставок в их нынешнем состоянии этого сделать нельзя.",
            "Belgilanganlarning hech biri bilan hozirgi holatida buni qilib bo‘lmaydi.",
        ),
        "act.left_out": (
            {
                "one": "{count} more is ticked, to which this cannot be done as it stands now: left out.",
                "other": "{count} more are ticked, to which this cannot be done as they stand now: left out.",
            },
            {
                "one": "Отмечена ещё {count}, с которой этого сейчас сделать нельзя: она не войдёт.",
                "few": "Отмечены ещё {count}, с которыми этого сейчас сделать нельзя: они не войдут.",
                "many": "Отмечено ещё {count}, с которыми этого сейчас сделать нельзя: они не войдут.",
            },
            {"other": "Yana {count} tasi belgilangan, lekin hozir buni qilib bo‘lmaydi: ular kirmaydi."},
        ),
        "act.too_many": (
            "At most {count} can be selected at once.",
            "За один раз можно выбрать не больше {count}.",
            "Bir vaqtda ko‘pi bilan {count} ta tanlash mumkin.",
        ),
        "act.cannot_filter": (
            "This cannot be done by {fields}. Take these out of the filter, or select deliveries one by one.",
            "Нельзя отобрать по: {fields}. Уберите эти условия или выберите доставки по одной.",
            (
                "Buni quyidagilar bo‘yicha qilib bo‘lmaydi: {fields}. Ularni shartlardan olib tashlang yoki "
                "yetkazishlarni bittalab tanlang."
            ),
        ),
        "act.needs_scope": (
            "Choose a merchant or a beginning in time first: all of everything is never meant.",
            "Сначала выберите мерчанта или начало периода: «всё и за всё время» не бывает нужно.",
            "Avval merchant yoki boshlanish vaqtini tanlang: «hamma narsa» hech qachon nazarda tutilmaydi.",
        ),
        "act.unknown": ("There is no such action.", "Такого действия нет.", "Bunday amal yo‘q."),
        "act.given": (
            {"one": "{count} command was given.", "other": "{count} commands were given."},
            {"one": "Дана {count} команда.", "few": "Даны {count} команды.", "many": "Дано {count} команд."},
            {"other": "{count} ta buyruq berildi."},
        ),
        "merchants.about": (
            "How each fares, and what waits for it.",
            "Как дела у каждого и что его ждёт.",
            "Har birining ahvoli va uni nima kutayotgani.",
        ),
        "merchants.new": ("Configure a merchant", "Настроить мерчанта", "Merchantni sozlash"),
        "merchants.open": ("Open", "Открыть", "Ochish"),
        "merchants.keys_about": (
            "Of all merchants, the newest first. A key is revoked on its merchant's page.",
            "Всех мерчантов, новые сначала. Ключ отзывается на странице мерчанта.",
            "Barcha merchantlarniki, yangilari birinchi. Kalit merchant sahifasida bekor qilinadi.",
        ),
        "merchants.no_keys": ("No API keys", "Ключей API нет", "API kalitlari yo‘q"),
        "merchants.prefix": ("Id begins with", "ID начинается с", "ID boshlanishi"),
        "merchants.order": ("Order", "Порядок", "Tartib"),
        "merchants.order_id": ("By id", "По ID", "ID bo‘yicha"),
        "merchants.order_behind": (
            "Behind: oldest waiting first",
            "Отстающие: самые старые первыми",
            "Orqada qolganlar: eng eskisi birinchi",
        ),
        "merchants.order_failing": (
            "Failing, longest first",
            "Не принимают, дольше всех первыми",
            "Qabul qilmayotganlar, eng uzog‘i birinchi",
        ),
        "merchants.order_volume": ("By volume", "По объёму", "Hajm bo‘yicha"),
        "merchants.order_paused": ("Paused", "На паузе", "Pauzadagilar"),
        "merchants.waiting": ("Waiting", "Ожидает", "Kutmoqda"),
        "merchants.oldest": ("Oldest waits", "Старейшее ждёт", "Eng eskisi kutadi"),
        "merchants.failed": ("Failed, 24 h", "Не доставлено за 24 ч", "24 soatda yetkazilmadi"),
        "merchants.volume": ("Events", "События", "Hodisalar"),
        "merchants.last_success": ("Last success", "Последний успех", "Oxirgi muvaffaqiyat"),
        "merchants.attempts_failed": (
            {
                "one": "{failed} of {count} attempt failed lately",
                "other": "{failed} of the latest {count} attempts failed",
            },
            {
                "one": "не удалось {failed} из последней {count} попытки",
                "few": "не удалось {failed} из последних {count} попыток",
                "many": "не удалось {failed} из последних {count} попыток",
            },
            {"other": "oxirgi {count} urinishdan {failed} tasi muvaffaqiyatsiz"},
        ),
        "merchants.in_a_row": (
            {"one": "{count} failure in a row", "other": "{count} failures in a row"},
            {
                "one": "{count} неудача подряд",
                "few": "{count} неудачи подряд",
                "many": "{count} неудач подряд",
            },
            {"other": "ketma-ket {count} ta muvaffaqiyatsizlik"},
        ),
        "merchants.incomplete": (
            "Only part of what there is was looked at: those that stand out most are here.",
            "Просмотрена только часть: здесь самые заметные.",
            "Faqat bir qismi ko‘rildi: bu yerda eng ko‘zga tashlanadiganlari.",
        ),
        "merchants.looked_at": (
            "Of the newest events: {count}",
            "Из новейших событий: {count}",
            "Eng yangi hodisalardan: {count}",
        ),
        "merchants.none": ("No merchants", "Мерчантов нет", "Merchantlar yo‘q"),
        "merchants.none_like_this": (
            "None matches. Clear the filter to see all.",
            "Ничего не подходит. Сбросьте условия.",
            "Mos keladigani yo‘q. Shartlarni tozalang.",
        ),
        "merchants.none_at_all": (
            "Configure the first: give its id above, then its URL.",
            "Настройте первого: укажите выше его ID, затем URL.",
            "Birinchisini sozlang: yuqorida ID sini, so‘ng URL ni kiriting.",
        ),
        "merchant.deliveries": ("Deliveries", "Доставки", "Yetkazishlar"),
        "merchant.test": ("Send test event", "Тестовое событие", "Sinov hodisasi"),
        "merchant.test_event": (
            "Show the test event",
            "Показать тестовое событие",
            "Sinov hodisasini ko‘rsatish",
        ),
        "merchant.pause": ("Pause", "Пауза", "Pauza"),
        "merchant.resume": ("Resume", "Возобновить", "Davom ettirish"),
        "merchant.webhooks": ("Webhook", "Вебхук", "Webhook"),
        "merchant.retrying": ("Waiting for a retry", "Ожидает повтора", "Qayta urinishni kutmoqda"),
        "merchant.suspended": ("next try", "следующая попытка", "keyingi urinish"),
        "merchant.since": ("since", "с", "beri:"),
        "merchant.everything_paused": (
            "Everything is paused, so this merchant too gets nothing.",
            "Всё на паузе, поэтому и этот мерчант ничего не получает.",
            "Hammasi pauzada, shuning uchun bu merchant ham hech narsa olmaydi.",
        ),
        "merchant.unknown": (
            "There is no merchant of this id: it never had an endpoint, an event or a key. Is it mistyped?",
            "Мерчанта с таким ID нет: у него не было ни адреса, ни событий, ни ключей. Нет ли опечатки?",
            "Bunday ID li merchant yo‘q: manzili, hodisasi, kaliti bo‘lmagan. Xato yozilmaganmi?",
        ),
        "merchant.like_it": ("Ids like it", "Похожие ID", "O‘xshash ID lar"),
        "merchant.not_configured": (
            (
                "Nothing is sent to this merchant yet. Enter the URL that its events go to; its secret is "
                "made then, and shown once."
            ),
            (
                "Этому мерчанту пока ничего не отправляется. Укажите URL для событий; секрет будет создан и "
                "показан один раз."
            ),
            (
                "Bu merchantga hali hech narsa yuborilmaydi. Hodisalar boradigan URLni kiriting; maxfiy "
                "kalit yaratiladi va bir marta ko‘rsatiladi."
            ),
        ),
        "merchant.not_configured_viewer": (
            "Nothing is sent to this merchant yet: an operator has to enter its URL.",
            "Этому мерчанту пока ничего не отправляется: URL должен указать оператор.",
            "Bu merchantga hali hech narsa yuborilmaydi: URLni operator kiritishi kerak.",
        ),
        "merchant.url_hint": (
            "https, and reachable from the internet.",
            "https и доступен из интернета.",
            "https va internetdan ochiq.",
        ),
        "merchant.url_good": (
            "Events may be sent here.",
            "Сюда можно отправлять события.",
            "Bu yerga hodisalarni yuborish mumkin.",
        ),
        "merchant.url_refused": (
            "Events cannot be sent here: {reason}",
            "Сюда нельзя отправлять события: {reason}",
            "Bu yerga hodisalarni yuborib bo‘lmaydi: {reason}",
        ),
        "merchant.url_other": (
            "This is another receiver: what is known of the one before no longer counts.",
            "Это другой получатель: сведения о прежнем больше не учитываются.",
            "Bu boshqa qabul qiluvchi: avvalgisi haqidagi ma’lumot endi hisobga olinmaydi.",
        ),
        "merchant.configure": ("Configure", "Настроить", "Sozlash"),
        "merchant.save_url": ("Change URL", "Сменить URL", "URLni almashtirish"),
        "merchant.secret": ("Signing secret", "Секрет подписи", "Imzo maxfiy kaliti"),
        "merchant.secret_hidden": (
            "It was shown when it was made, and cannot be shown again.",
            "Он был показан при создании и больше не показывается.",
            "U yaratilganda ko‘rsatilgan va boshqa ko‘rsatilmaydi.",
        ),
        "merchant.secret_made": (
            "This is the signing secret. It is shown now, and never again: give it to the merchant.",
            "Это секрет подписи. Он показывается только сейчас: передайте его мерчанту.",
            "Bu imzo maxfiy kaliti. U faqat hozir ko‘rsatiladi: uni merchantga bering.",
        ),
        "merchant.key_made": (
            (
                "This is the key's secret. It is shown now, and never again: give it to the merchant with "
                "the client id."
            ),
            "Это секрет ключа. Он показывается только сейчас: передайте его мерчанту вместе с client id.",
            (
                "Bu kalitning maxfiy qismi. U faqat hozir ko‘rsatiladi: uni client id bilan birga "
                "merchantga bering."
            ),
        ),
        "merchant.secret_held": (
            (
                "This is the signing secret. It is shown now, and never again: give it to the merchant. "
                "Nothing is sent meanwhile: then send a test event, and resume."
            ),
            (
                "Это секрет подписи. Он показывается только сейчас: передайте его мерчанту. Пока ничего не "
                "отправляется: затем отправьте тестовое событие и возобновите."
            ),
            (
                "Bu imzo maxfiy kaliti. U faqat hozir ko‘rsatiladi: uni merchantga bering. Hozircha hech "
                "narsa yuborilmaydi: keyin sinov hodisasini yuboring va davom ettiring."
            ),
        ),
        "merchant.not_held": (
            "The pause is not in force yet, or something is being sent. Nothing was changed: try again.",
            "Пауза ещё не действует, или что-то отправляется. Ничего не изменено: повторите.",
            "Pauza hali kuchga kirmagan yoki nimadir yuborilmoqda. Hech narsa o‘zgarmadi: qayta urining.",
        ),
        "merchant.secret_kept": ("I have kept it: close", "Сохранено, закрыть", "Saqlab oldim, yopish"),
        "merchant.secret_again": (
            (
                "The secret was made already, at {at}, and is not shown again. Nothing was changed. Rotate "
                "it if it was lost."
            ),
            (
                "Секрет уже был создан {at} и повторно не показывается. Ничего не изменено. Если он "
                "потерян, смените его."
            ),
            (
                "Maxfiy kalit {at} da yaratilgan va qayta ko‘rsatilmaydi. Hech narsa o‘zgarmadi. Yo‘qolgan "
                "bo‘lsa, almashtiring."
            ),
        ),
        "merchant.no_key": (
            "No dispatcher has published a key to seal secrets with. Start one, and try again.",
            "Ни один диспетчер не опубликовал ключ для шифрования секретов. Запустите его и повторите.",
            (
                "Birorta dispetcher maxfiy kalitlarni shifrlash uchun kalit e’lon qilmagan. Uni ishga "
                "tushirib, qayta urinib ko‘ring."
            ),
        ),
        "merchant.not_there": (
            "This merchant has no endpoint any more.",
            "У этого мерчанта больше нет адреса вебхука.",
            "Bu merchantda endi webhook manzili yo‘q.",
        ),
        "merchant.id_refused": (
            "This cannot be a merchant's id: {reason}",
            "Таким ID мерчанта быть не может: {reason}",
            "Bunday merchant ID bo‘lishi mumkin emas: {reason}",
        ),
        "merchant.created": ("Made", "Создан", "Yaratilgan:"),
        "merchant.previous": ("Previous secret", "Прежний секрет", "Avvalgi maxfiy kalit"),
        "merchant.previous_until": (
            "also signs until",
            "подписывает также до",
            "quyidagi vaqtgacha ham imzolaydi:",
        ),
        "merchant.rotate": ("Rotate the secret", "Сменить секрет", "Maxfiy kalitni almashtirish"),
        "merchant.rotate_about": (
            (
                "A new secret is made and shown once. Without an overlap the old one stops signing at once; "
                "with one, both sign until it ends."
            ),
            (
                "Создаётся новый секрет и показывается один раз. Без перекрытия старый сразу перестаёт "
                "подписывать; с ним подписывают оба."
            ),
            (
                "Yangi maxfiy kalit yaratiladi va bir marta ko‘rsatiladi. Oraliqsiz eskisi darhol "
                "to‘xtaydi; oraliq bilan ikkalasi ham imzolaydi."
            ),
        ),
        "merchant.rotate_waiting": (
            "{count} wait to be sent, and {retries} for a retry: without the new secret they are refused.",
            "Ожидают отправки: {count}, повтора: {retries}. Без нового секрета мерчант их отклонит.",
            "Yuborishni kutmoqda: {count}, takrorni: {retries}. Yangi kalitsiz merchant ularni rad etadi.",
        ),
        "merchant.overlap": (
            "The old secret goes on signing",
            "Старый секрет подписывает ещё",
            "Eski kalit imzolashda davom etadi",
        ),
        "merchant.overlap_hold": (
            "Not at all, and nothing is sent until it is resumed",
            "Нисколько, и до возобновления ничего не отправляется",
            "Umuman yo‘q, va davom ettirilguncha hech narsa yuborilmaydi",
        ),
        "merchant.overlap_none": ("Not at all", "Нисколько", "Umuman yo‘q"),
        "merchant.overlap_hour": ("For an hour", "Час", "Bir soat"),
        "merchant.overlap_day": ("For a day", "Сутки", "Bir kun"),
        "merchant.overlap_week": ("For a week", "Неделю", "Bir hafta"),
        "merchant.rotate_do": ("Rotate", "Сменить", "Almashtirish"),
        "merchant.remove": ("Remove the endpoint", "Удалить адрес вебхука", "Webhook manzilini o‘chirish"),
        "merchant.remove_about": (
            (
                "URL and secret are deleted. What is owed fails as not configured: {count} at once, and "
                "{retries} when their retry is due, unless a URL is entered before."
            ),
            (
                "URL и секрет удаляются. Ожидающее завершится неудачей: {count} сразу, а {retries} — к "
                "сроку повтора, если до него не указать URL."
            ),
            (
                "URL va maxfiy kalit o‘chiriladi. Kutayotganlar yetkazilmagan bo‘ladi: {count} darhol, "
                "{retries} esa takror muddatida, ungacha URL kiritilmasa."
            ),
        ),
        "merchant.remove_do": ("Remove", "Удалить", "O‘chirish"),
        "merchant.removed": (
            "The endpoint was removed.",
            "Адрес вебхука удалён.",
            "Webhook manzili o‘chirildi.",
        ),
        "merchant.url_changed": ("The URL was changed.", "URL изменён.", "URL almashtirildi."),
        "merchant.url_unchanged": (
            "It was this URL already.",
            "Этот URL уже был указан.",
            "Bu URL allaqachon kiritilgan.",
        ),
        "merchant.latest": ("Latest attempts", "Последние попытки", "Oxirgi urinishlar"),
        "merchant.no_attempts": (
            "Nothing was sent yet. A test event shows whether the receiver answers.",
            "Ещё ничего не отправлялось. Тестовое событие покажет, отвечает ли получатель.",
            "Hali hech narsa yuborilmagan. Sinov hodisasi qabul qiluvchi javob berishini ko‘rsatadi.",
        ),
        "merchant.keys": ("API keys", "Ключи API", "API kalitlari"),
        "merchant.no_keys": (
            "No key yet: with one the merchant uses the Partner API.",
            "Ключей нет: с ключом мерчант работает с Partner API.",
            "Kalit yo‘q: kalit bilan merchant Partner API dan foydalanadi.",
        ),
        "merchant.key_name": ("Name", "Название", "Nomi"),
        "merchant.key_name_hint": ("online shop", "интернет-магазин", "onlayn do‘kon"),
        "merchant.key_create": ("Create a key", "Создать ключ", "Kalit yaratish"),
        "merchant.key_created": ("Created", "Создан", "Yaratilgan"),
        "merchant.key_used": ("Last used", "Использован", "Oxirgi foydalanish"),
        "merchant.key_refused": (
            "The name must have 1 to 100 characters.",
            "Название: от 1 до 100 символов.",
            "Nom 1 tadan 100 tagacha belgidan iborat bo‘lsin.",
        ),
        "merchant.key_again": (
            "This key was created already; its secret was shown then, and is not shown again.",
            "Этот ключ уже создан; его секрет был показан и повторно не показывается.",
            "Bu kalit allaqachon yaratilgan; uning maxfiy qismi ko‘rsatilgan va qayta ko‘rsatilmaydi.",
        ),
        "merchant.key_revoked": ("The key was revoked.", "Ключ отозван.", "Kalit bekor qilindi."),
        "merchant.client_id": ("Client id", "Client id", "Client id"),
        "merchant.revoked": ("Revoked", "Отозван", "Bekor qilingan"),
        "merchant.revoke": ("Revoke", "Отозвать", "Bekor qilish"),
        "merchant.revoke_about": (
            "For good, with all its access tokens, within a second.",
            "Навсегда, вместе со всеми токенами, в течение секунды.",
            "Butunlay, barcha tokenlari bilan, bir soniya ichida.",
        ),
        "merchant.revoke_do": ("Revoke for good", "Отозвать навсегда", "Butunlay bekor qilish"),
        "merchant.verify": ("Verify signatures", "Проверка подписи", "Imzoni tekshirish"),
        "merchant.verify_about": (
            "For the merchant's receiver, in Python; others are in docs/verify.",
            "Для получателя мерчанта, на Python; другие языки в docs/verify.",
            "Merchantning qabul qiluvchisi uchun, Pythonda; boshqalari docs/verify da.",
        ),
        "commands.about": (
            "Who asked for what, when, and what came of it.",
            "Кто, когда и о чём попросил и что из этого вышло.",
            "Kim, qachon, nima so‘ragan va natijasi.",
        ),
        "commands.given": ("Commands", "Команды", "Buyruqlar"),
        "commands.changes": ("Changes", "Изменения", "O‘zgarishlar"),
        "commands.command": ("Command", "Команда", "Buyruq"),
        "commands.change": ("Change", "Изменение", "O‘zgarish"),
        "commands.about_whom": ("About", "О чём", "Kimga tegishli"),
        "commands.result": ("Result", "Результат", "Natija"),
        "commands.details": ("Details", "Подробности", "Tafsilotlar"),
        "commands.by": ("By", "Кто", "Kim"),
        "commands.at": ("When", "Когда", "Qachon"),
        "commands.handled": ("Ended", "Завершена", "Tugagan"),
        "commands.args": ("Arguments", "Параметры", "Parametrlar"),
        "commands.error": ("Error", "Ошибка", "Xato"),
        "commands.everybody": ("everybody", "все", "hamma"),
        "commands.withdraw": ("Withdraw", "Отозвать", "Qaytarib olish"),
        "commands.stop": ("Stop", "Остановить", "To‘xtatish"),
        "commands.stop_about": (
            "It ends after its present chunk. What it has done stays done; it does not go on later.",
            "Команда закончится после текущей части. Сделанное остаётся; продолжить её потом нельзя.",
            "Buyruq joriy qismdan keyin tugaydi. Bajarilgani qoladi; keyin davom ettirib bo‘lmaydi.",
        ),
        "commands.stop_do": ("Stop it", "Остановить", "To‘xtatish"),
        "commands.asked_for": ("Attempts asked for", "Попытки запрошены", "Urinishlar so‘raldi"),
        "commands.stopping": ("is stopping", "останавливается", "to‘xtatilmoqda"),
        "commands.progress": ("Progress", "Ход", "Jarayon"),
        "commands.so_far": ("{count} so far", "пока {count}", "hozircha {count}"),
        "commands.matched": ("Matched: {count}", "Подошло: {count}", "Mos keldi: {count}"),
        "commands.done": ("done: {count}", "сделано: {count}", "bajarildi: {count}"),
        "commands.in_flight": ("It is in flight.", "Уже в пути.", "U yo‘lda."),
        "commands.none": ("No commands", "Команд нет", "Buyruqlar yo‘q"),
        "commands.none_about": (
            "What people ask for, here or on the command line, is listed for a year.",
            "Всё, о чём просят здесь или из командной строки, хранится год.",
            "Bu yerda yoki buyruq satrida so‘ralganlar bir yil saqlanadi.",
        ),
        "commands.withdrawn": ("The command was withdrawn.", "Команда отозвана.", "Buyruq qaytarib olindi."),
        "commands.not_withdrawn": (
            "It was taken up already.",
            "Команда уже выполняется.",
            "Buyruq allaqachon boshlangan.",
        ),
        "commands.stopped": (
            "It ends after its present chunk.",
            "Остановится после текущей части.",
            "Joriy qismdan keyin to‘xtaydi.",
        ),
        "commands.not_stopped": (
            "It had ended already.",
            "Команда уже завершена.",
            "Buyruq allaqachon tugagan.",
        ),
        "commands.events": ("Which ones", "Какие именно", "Qaysilari"),
        "commands.only_failed": ("Only those that failed", "Только неудачные", "Faqat muvaffaqiyatsizlari"),
        "commands.became": ("Became", "Чем кончилось", "Natijasi"),
        "commands.became_delivered": ("Delivered", "Доставлено", "Yetkazildi"),
        "commands.became_failed": ("Failed", "Неудачно", "Muvaffaqiyatsiz"),
        "commands.became_waiting": ("Waiting", "Ожидает", "Kutmoqda"),
        "commands.became_gone": ("Gone", "Удалено", "O‘chirilgan"),
        "health.about": (
            "What webhook-dispatcher check says, as far as the database and this process know.",
            "То, что говорит webhook-dispatcher check, насколько это известно базе данных и этому процессу.",
            "webhook-dispatcher check aytadiganlari, ma’lumotlar bazasi va bu jarayonga ma’lum bo‘lganicha.",
        ),
        "health.findings": ("Findings", "Проверки", "Tekshiruvlar"),
        "health.rest": (
            (
                "Where the keys are, webhook-dispatcher check tells the rest: whether keys are missing or "
                "wrong, secrets that do not open, rows that cannot be read, the limit of open files."
            ),
            (
                "Остальное скажет webhook-dispatcher check там, где лежат ключи: все ли ключи на месте и "
                "верны, какие секреты не расшифровать, какие строки не прочитать, хватает ли файлов."
            ),
            (
                "Qolganini kalitlar turgan joyda webhook-dispatcher check aytadi: kalitlar to‘liqmi, "
                "qaysi maxfiy kalitlar ochilmaydi, qaysi qatorlar o‘qilmaydi, ochiq fayllar yetarlimi."
            ),
        ),
        "health.settings": ("Settings of the console", "Настройки консоли", "Konsol sozlamalari"),
        "health.settings_about": (
            "As this process reads them; secrets are left out.",
            "Как их читает этот процесс; секреты скрыты.",
            "Bu jarayon o‘qiganicha; maxfiy qiymatlar yashirilgan.",
        ),
        "health.chosen_settings": (
            "Settings of the dispatchers",
            "Настройки диспетчеров",
            "Dispetcherlar sozlamalari",
        ),
        "health.chosen_settings_about": (
            "What is not as by default, as they say it themselves; without secrets.",
            "Что отличается от значений по умолчанию, по их собственным словам; без секретов.",
            "Standartdan farq qiladiganlari, o‘zlari aytganicha; maxfiy qiymatlarsiz.",
        ),
        "health.none_chosen": (
            "No dispatcher that is alive says that anything is not as by default.",
            "Ни один работающий диспетчер не сообщает об отличиях от значений по умолчанию.",
            "Ishlayotgan dispetcherlarning birortasi standartdan farq haqida aytmayapti.",
        ),
        "health.differ": ("they differ", "различаются", "farq qiladi"),
        "health.default": ("as by default", "по умолчанию", "standart"),
        "health.setting": ("Setting", "Настройка", "Sozlama"),
        "health.value": ("Value", "Значение", "Qiymat"),
        "health.chosen": ("set", "задано", "berilgan"),
        "health.secret": ("(hidden)", "(скрыто)", "(yashirilgan)"),
        "health.unset": ("not set", "не задано", "berilmagan"),
        "account.preferences": ("Preferences", "Предпочтения", "Sozlamalar"),
        "account.language": ("Language", "Язык", "Til"),
        "account.as_browser": ("As the browser says", "Как в браузере", "Brauzerdagidek"),
        "account.zone": ("Time zone", "Часовой пояс", "Vaqt mintaqasi"),
        "account.zone_hint": (
            "Such as Asia/Tashkent. Hover over a time to see it in UTC.",
            "Например, Asia/Tashkent. Наведите на время, чтобы увидеть UTC.",
            "Masalan, Asia/Tashkent. UTC ni ko‘rish uchun vaqt ustiga boring.",
        ),
        "account.zone_refused": (
            "There is no such time zone.",
            "Такого часового пояса нет.",
            "Bunday vaqt mintaqasi yo‘q.",
        ),
        "account.theme": ("Theme", "Тема", "Mavzu"),
        "account.theme_system": ("As the system", "Как в системе", "Tizimdagidek"),
        "account.theme_light": ("Light", "Светлая", "Yorug‘"),
        "account.theme_dark": ("Dark", "Тёмная", "Qorong‘i"),
        "account.password": ("Password", "Пароль", "Parol"),
        "account.old_password": ("Present password", "Текущий пароль", "Joriy parol"),
        "account.new_password": ("New password", "Новый пароль", "Yangi parol"),
        "account.password_hint": (
            "Its strength is its length: a few words are good.",
            "Главное длина: несколько слов подойдут.",
            "Asosiysi uzunligi: bir nechta so‘z yaxshi.",
        ),
        "account.change_password": ("Change password", "Сменить пароль", "Parolni almashtirish"),
        "account.password_changed": (
            "The password was changed, and other sessions were ended.",
            "Пароль изменён, другие сеансы завершены.",
            "Parol almashtirildi, boshqa seanslar tugatildi.",
        ),
        "account.password_fault": (
            "The new password must have {least} to {most} printable characters.",
            "Новый пароль: от {least} до {most} печатных символов.",
            "Yangi parol {least} tadan {most} tagacha chop etiladigan belgidan iborat bo‘lsin.",
        ),
        "account.password_refused": (
            "The present password is wrong.",
            "Текущий пароль неверен.",
            "Joriy parol noto‘g‘ri.",
        ),
        "account.no_password": (
            "This account signs in without a password: by codes or by a proxy.",
            "Эта учётная запись входит без пароля: по коду или через прокси.",
            "Bu hisob parolsiz kiradi: kod bilan yoki proksi orqali.",
        ),
        "account.sessions": ("Sessions", "Сеансы", "Seanslar"),
        "account.sessions_about": (
            (
                "A session ends after twelve hours. For an operator it also ends after fifteen minutes "
                "without a request."
            ),
            (
                "Сеанс длится двенадцать часов. У оператора он заканчивается и после пятнадцати минут без "
                "запросов."
            ),
            "Seans o‘n ikki soat davom etadi. Operatorda o‘n besh daqiqa so‘rovsiz qolsa ham tugaydi.",
        ),
        "account.browser": ("Browser", "Браузер", "Brauzer"),
        "account.address": ("Address", "Адрес", "Manzil"),
        "account.began": ("Began", "Начат", "Boshlangan"),
        "account.last_active": ("Last active", "Последняя активность", "Oxirgi faollik"),
        "account.this_session": ("This one", "Этот", "Shu seans"),
        "account.end_session": ("End", "Завершить", "Tugatish"),
        "account.session_ended": ("The session was ended.", "Сеанс завершён.", "Seans tugatildi."),
        "account.session_was_over": (
            "That session was over already.",
            "Этот сеанс уже был завершён.",
            "Bu seans allaqachon tugagan edi.",
        ),
        "account.end_others": (
            "End my other sessions",
            "Завершить другие сеансы",
            "Boshqa seanslarni tugatish",
        ),
        "account.ended": (
            {"one": "{count} other session was ended.", "other": "{count} other sessions were ended."},
            {
                "one": "Завершён {count} другой сеанс.",
                "few": "Завершены {count} других сеанса.",
                "many": "Завершено {count} других сеансов.",
            },
            {"other": "Boshqa seanslardan {count} tasi tugatildi."},
        ),
        "account.role_operator": (
            "Operator: may change things",
            "Оператор: может вносить изменения",
            "Operator: o‘zgartira oladi",
        ),
        "account.role_viewer": (
            "Viewer: looks, and changes nothing",
            "Наблюдатель: смотрит и ничего не меняет",
            "Kuzatuvchi: ko‘radi, o‘zgartirmaydi",
        ),
        "search.title": ("Search", "Поиск", "Qidirish"),
        "search.none": ("Nothing found", "Ничего не найдено", "Hech narsa topilmadi"),
        "search.empty": ("What are you looking for?", "Что вы ищете?", "Nimani qidiryapsiz?"),
        "search.about": (
            "An id of a merchant (or how it begins), event, charge or API client, or a command's number.",
            "ID мерчанта или его начало, ID события, платежа или клиента API, номер команды.",
            "Merchant ID si yoki uning boshi, hodisa, to‘lov yoki API mijozining ID si, buyruq raqami.",
        ),
    }
)
