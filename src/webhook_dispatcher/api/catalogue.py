"""Every error that the Partner API answers with: code, HTTP status, label, message in three languages.

Data alone. The codes from -1007 to -12004 and the ranges are the charge service's. Our own choice are the
labels, the words, -11004, the statuses of -14001 to -14004 and the range from -16001 on. That range is for
requests that reached no operation, and for our own failures.

A code within a known range that has no row is the charge service's: the client gets it with the charge
service's status and the words of its range. Every other code that has no row is told as an internal error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from webhook_dispatcher.domain.language import Language

VALIDATION_FAILED = -1007
WRONG_CREDENTIALS = -10001
INVALID_TOKEN = -10002
KEY_REVOKED = -10003
KEY_MISSING = -11001
KEY_REUSED = -11002
STILL_RUNNING = -11003
TOKEN_MISSING = -11004
LIMIT_EXCEEDED = -11005
CARD_OF_ANOTHER = -8006
INVALID_URL = -14001
NOT_CONFIGURED = -14002
DELIVERY_NOT_FOUND = -14003
STATE_FORBIDS = -14004
NO_SUCH_PATH = -16001
METHOD_NOT_ALLOWED = -16002
NOT_JSON = -16003
BODY_TOO_LARGE = -16004
TOO_SLOW = -16005
WRONG_CONTENT_TYPE = -16006
MALFORMED_REQUEST = -16007
HEAD_TOO_LARGE = -16008
UNKNOWN_EXPECTATION = -16009
INTERNAL = -16010
UPSTREAM_AWAY = -16011
UPSTREAM_TOO_SLOW = -16012
UNAVAILABLE = -16013
NOT_FOUND = -16014

STATE, TOO_MANY_COMMANDS, NOT_HELD = "state", "too_many_commands", "not_held"
REPEATED_NAME, TOO_DEEP, TOO_MANY_MEMBERS = "repeated_name", "too_deep", "too_many_members"
COMPRESSED, CHARSET, BODY_NOT_ALLOWED = "compressed", "charset", "body_not_allowed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the catalogue. status: None where it is the upstream's. messages: safe to show to a user."""

    status: int | None
    type: str
    messages: Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class CodeRange:
    """Codes of one topic. first: nearest to zero; last: furthest."""

    first: int
    last: int
    type: str
    messages: Mapping[Language, str]

    def __contains__(self, code: int) -> bool:
        return self.last <= code <= self.first


def _said(en: str, ru: str, uz: str) -> Mapping[Language, str]:
    return MappingProxyType({"en": en, "ru": ru, "uz": uz})


RANGES = (
    CodeRange(
        -1001,
        -1009,
        "validation",
        _said(
            "Some of the values are not valid.",
            "Некоторые значения недопустимы.",
            "Ayrim qiymatlar yaroqsiz.",
        ),
    ),
    CodeRange(
        -2001,
        -2009,
        "shares",
        _said(
            "The fee or the shares are not valid.",
            "Комиссия или доли указаны неверно.",
            "Komissiya yoki ulushlar noto‘g‘ri ko‘rsatilgan.",
        ),
    ),
    CodeRange(
        -3001,
        -3007,
        "charge",
        _said(
            "The charge does not allow this.",
            "Платёж не допускает этого действия.",
            "To‘lov bu amalni bajarishga imkon bermaydi.",
        ),
    ),
    CodeRange(
        -4001,
        -4004,
        "business",
        _said(
            "The business does not allow this.",
            "Организация не допускает этого действия.",
            "Tashkilot bu amalni bajarishga imkon bermaydi.",
        ),
    ),
    CodeRange(
        -5001,
        -5006,
        "merchant",
        _said(
            "The merchant does not allow this.",
            "Мерчант не допускает этого действия.",
            "Merchant bu amalni bajarishga imkon bermaydi.",
        ),
    ),
    CodeRange(
        -6001,
        -6007,
        "recipient",
        _said(
            "The recipient does not allow this.",
            "Получатель не допускает этого действия.",
            "Qabul qiluvchi bu amalni bajarishga imkon bermaydi.",
        ),
    ),
    CodeRange(
        -7001,
        -7002,
        "customer",
        _said(
            "The customer was not found or is not valid.",
            "Клиент не найден или указан неверно.",
            "Mijoz topilmadi yoki noto‘g‘ri ko‘rsatilgan.",
        ),
    ),
    CodeRange(
        -8001,
        -8008,
        "card",
        _said(
            "The card cannot be used for this.",
            "Карту нельзя использовать для этого.",
            "Kartadan bu maqsadda foydalanib bo‘lmaydi.",
        ),
    ),
    CodeRange(
        -9001,
        -9009,
        "provider",
        _said(
            "The payment provider refused the operation.",
            "Платёжный провайдер отклонил операцию.",
            "To‘lov provayderi amalni rad etdi.",
        ),
    ),
    CodeRange(
        -10001,
        -10003,
        "authentication",
        _said(
            "Authentication failed.",
            "Не удалось пройти аутентификацию.",
            "Autentifikatsiya amalga oshmadi.",
        ),
    ),
    CodeRange(
        -11001,
        -11005,
        "request",
        _said(
            "The request cannot be accepted.",
            "Запрос не может быть принят.",
            "So‘rovni qabul qilib bo‘lmaydi.",
        ),
    ),
    CodeRange(
        -12001,
        -12004,
        "fiscal",
        _said(
            "The fiscal data are missing or not valid.",
            "Фискальные данные отсутствуют или указаны неверно.",
            "Fiskal ma’lumotlar yo‘q yoki noto‘g‘ri.",
        ),
    ),
    CodeRange(
        -14001,
        -14005,
        "webhook",
        _said(
            "The webhook operation is not possible.",
            "Операция с вебхуком невозможна.",
            "Webhook bilan bu amalni bajarib bo‘lmaydi.",
        ),
    ),
)

CATALOGUE: Mapping[int, Entry] = MappingProxyType(
    {
        VALIDATION_FAILED: Entry(
            422,
            "validation",
            _said(
                "Some fields are not valid; see details.",
                "Некоторые поля заполнены неверно; подробности — в поле details.",
                "Ayrim maydonlar noto‘g‘ri to‘ldirilgan; batafsil ma’lumot details maydonida.",
            ),
        ),
        WRONG_CREDENTIALS: Entry(
            401,
            "authentication",
            _said(
                "The client id or the client secret is wrong.",
                "Неверный clientId или clientSecret.",
                "clientId yoki clientSecret noto‘g‘ri.",
            ),
        ),
        INVALID_TOKEN: Entry(
            401,
            "authentication",
            _said(
                "The token is not valid or has expired; fetch a new one.",
                "Токен недействителен или истёк; получите новый.",
                "Token yaroqsiz yoki muddati tugagan; yangisini oling.",
            ),
        ),
        KEY_REVOKED: Entry(
            401,
            "authentication",
            _said(
                "This API key was revoked.",
                "Этот API-ключ отозван.",
                "Bu API kaliti bekor qilingan.",
            ),
        ),
        KEY_MISSING: Entry(
            400,
            "request",
            _said(
                "The header Idempotency-Key is required: 1 to 255 printable ASCII characters.",
                "Требуется заголовок Idempotency-Key: от 1 до 255 печатных символов ASCII.",
                "Idempotency-Key sarlavhasi talab qilinadi: 1 tadan 255 tagacha chop etiladigan ASCII belgi.",
            ),
        ),
        KEY_REUSED: Entry(
            422,
            "request",
            _said(
                "This Idempotency-Key was used with another request body.",
                "Этот Idempotency-Key уже использован с другим телом запроса.",
                "Bu Idempotency-Key boshqa so‘rov tanasi bilan ishlatilgan.",
            ),
        ),
        STILL_RUNNING: Entry(
            409,
            "request",
            _said(
                "A request with this Idempotency-Key is still running; try again later.",
                "Запрос с этим Idempotency-Key ещё выполняется; повторите позже.",
                "Bu Idempotency-Key bilan so‘rov hali bajarilmoqda; keyinroq qayta urinib ko‘ring.",
            ),
        ),
        TOKEN_MISSING: Entry(
            401,
            "request",
            _said(
                "A token is required: Authorization: Bearer <token>.",
                "Требуется токен: Authorization: Bearer <token>.",
                "Token talab qilinadi: Authorization: Bearer <token>.",
            ),
        ),
        LIMIT_EXCEEDED: Entry(
            429,
            "request",
            _said(
                "Too many requests; try again later.",
                "Слишком много запросов; повторите позже.",
                "So‘rovlar juda ko‘p; keyinroq qayta urinib ko‘ring.",
            ),
        ),
        -2006: Entry(
            422,
            "shares",
            _said(
                "The shares do not add up to 10000 basis points.",
                "Сумма долей не равна 10000 базисных пунктов.",
                "Ulushlar yig‘indisi 10000 bazis punktga teng emas.",
            ),
        ),
        -3004: Entry(
            409,
            "charge",
            _said(
                "This externalId is already used; no second charge was created.",
                "Этот externalId уже использован; второй платёж не создан.",
                "Bu externalId allaqachon ishlatilgan; ikkinchi to‘lov yaratilmadi.",
            ),
        ),
        -3006: Entry(
            422,
            "charge",
            _said(
                "The operating day is closed; the charge can no longer be reversed.",
                "Операционный день закрыт; отмена платежа больше невозможна.",
                "Operatsion kun yopilgan; to‘lovni endi bekor qilib bo‘lmaydi.",
            ),
        ),
        -3007: Entry(
            409,
            "charge",
            _said(
                "The charge was changed by another request; reload it and try again.",
                "Платёж изменён другим запросом; загрузите его заново и повторите.",
                "To‘lov boshqa so‘rov bilan o‘zgartirildi; uni qayta yuklab, yana urinib ko‘ring.",
            ),
        ),
        -6004: Entry(
            422,
            "recipient",
            _said(
                "The recipient is not approved and cannot receive money.",
                "Получатель не одобрен и не может получать деньги.",
                "Qabul qiluvchi tasdiqlanmagan va pul ola olmaydi.",
            ),
        ),
        -8004: Entry(
            422,
            "card",
            _said(
                "The card is not active: its binding was never confirmed.",
                "Карта не активна: её привязка не подтверждена.",
                "Karta faol emas: uni bog‘lash tasdiqlanmagan.",
            ),
        ),
        CARD_OF_ANOTHER: Entry(
            403,
            "card",
            _said(
                "The card belongs to a different merchant.",
                "Карта принадлежит другому мерчанту.",
                "Karta boshqa merchantga tegishli.",
            ),
        ),
        -9002: Entry(
            422,
            "provider",
            _said(
                "The bank rejected the card.",
                "Банк отклонил карту.",
                "Bank kartani rad etdi.",
            ),
        ),
        -9004: Entry(
            422,
            "provider",
            _said(
                "The bank declined the payment.",
                "Банк отклонил платёж.",
                "Bank to‘lovni rad etdi.",
            ),
        ),
        -12004: Entry(
            422,
            "fiscal",
            _said(
                "The merchant has no fiscal profile, so no receipt can be issued.",
                "У мерчанта нет фискального профиля, поэтому чек выдать нельзя.",
                "Merchantda fiskal profil yo‘q, shuning uchun chek berib bo‘lmaydi.",
            ),
        ),
        INVALID_URL: Entry(
            422,
            "webhook",
            _said(
                "Events cannot be sent to this URL.",
                "На этот URL нельзя отправлять события.",
                "Bu URL manziliga hodisalarni yuborib bo‘lmaydi.",
            ),
        ),
        NOT_CONFIGURED: Entry(
            404,
            "webhook",
            _said(
                "No webhook is configured.",
                "Вебхук не настроен.",
                "Webhook sozlanmagan.",
            ),
        ),
        DELIVERY_NOT_FOUND: Entry(
            404,
            "webhook",
            _said(
                "There is no such delivery.",
                "Такой доставки нет.",
                "Bunday yetkazib berish topilmadi.",
            ),
        ),
        STATE_FORBIDS: Entry(
            409,
            "webhook",
            _said(
                "The state of the delivery or of the webhook does not allow this.",
                "Состояние доставки или вебхука не допускает этого действия.",
                "Yetkazib berish yoki webhook holati bu amalni bajarishga imkon bermaydi.",
            ),
        ),
        NO_SUCH_PATH: Entry(
            404,
            "service",
            _said(
                "There is nothing at this path.",
                "По этому пути ничего нет.",
                "Bu manzilda hech narsa yo‘q.",
            ),
        ),
        METHOD_NOT_ALLOWED: Entry(
            405,
            "service",
            _said(
                "This method is not allowed here; see the header Allow.",
                "Этот метод здесь не разрешён; см. заголовок Allow.",
                "Bu yerda bunday metodga ruxsat yo‘q; Allow sarlavhasiga qarang.",
            ),
        ),
        NOT_JSON: Entry(
            400,
            "service",
            _said(
                "The body is not valid JSON.",
                "Тело запроса не является корректным JSON.",
                "So‘rov tanasi yaroqli JSON emas.",
            ),
        ),
        BODY_TOO_LARGE: Entry(
            413,
            "service",
            _said(
                "The body is too large; maxBytes says how many bytes it may have.",
                "Тело запроса слишком большое; допустимое число байтов — в поле maxBytes.",
                "So‘rov tanasi juda katta; ruxsat etilgan baytlar soni maxBytes maydonida.",
            ),
        ),
        TOO_SLOW: Entry(
            408,
            "service",
            _said(
                "The request took too long to arrive.",
                "Запрос передавался слишком долго.",
                "So‘rov juda sekin uzatildi.",
            ),
        ),
        WRONG_CONTENT_TYPE: Entry(
            415,
            "service",
            _said(
                "This content type is not accepted; send application/json.",
                "Этот тип содержимого не поддерживается; отправьте application/json.",
                "Bu kontent turi qabul qilinmaydi; application/json yuboring.",
            ),
        ),
        MALFORMED_REQUEST: Entry(
            400,
            "service",
            _said(
                "This is not a valid HTTP request.",
                "Это некорректный HTTP-запрос.",
                "Bu yaroqli HTTP so‘rovi emas.",
            ),
        ),
        HEAD_TOO_LARGE: Entry(
            431,
            "service",
            _said(
                "The request line or the headers are too large.",
                "Строка запроса или заголовки слишком велики.",
                "So‘rov satri yoki sarlavhalar juda katta.",
            ),
        ),
        UNKNOWN_EXPECTATION: Entry(
            417,
            "service",
            _said(
                "This Expect header is not understood.",
                "Этот заголовок Expect не поддерживается.",
                "Bu Expect sarlavhasi qo‘llab-quvvatlanmaydi.",
            ),
        ),
        INTERNAL: Entry(
            500,
            "service",
            _said(
                "An internal error; it is safe to try again with the same Idempotency-Key.",
                "Внутренняя ошибка; запрос можно безопасно повторить с тем же Idempotency-Key.",
                "Ichki xato; xuddi shu Idempotency-Key bilan qayta urinish xavfsiz.",
            ),
        ),
        UPSTREAM_AWAY: Entry(
            502,
            "service",
            _said(
                "The service behind this API is away; try again with the same Idempotency-Key.",
                "Сервис за этим API недоступен; повторите запрос с тем же Idempotency-Key.",
                "API ortidagi xizmat ishlamayapti; shu Idempotency-Key bilan qayta urinib ko‘ring.",
            ),
        ),
        UPSTREAM_TOO_SLOW: Entry(
            504,
            "service",
            _said(
                "The service behind this API was too slow; try again with the same Idempotency-Key.",
                "Сервис за этим API не ответил вовремя; повторите запрос с тем же Idempotency-Key.",
                "API ortidagi xizmat javob bermadi; shu Idempotency-Key bilan qayta urinib ko‘ring.",
            ),
        ),
        UNAVAILABLE: Entry(
            503,
            "service",
            _said(
                "The service is not available at the moment; try again later.",
                "Сервис временно недоступен; повторите позже.",
                "Xizmat vaqtincha ishlamayapti; keyinroq qayta urinib ko‘ring.",
            ),
        ),
        NOT_FOUND: Entry(
            404,
            "service",
            _said(
                "There is no such object.",
                "Такой объект не найден.",
                "Bunday obyekt topilmadi.",
            ),
        ),
    }
)
"""By code; a row within a range has its range's label."""

CAUSES: Mapping[int, Mapping[str, Mapping[Language, str]]] = MappingProxyType(
    {
        STATE_FORBIDS: {
            STATE: CATALOGUE[STATE_FORBIDS].messages,
            TOO_MANY_COMMANDS: _said(
                "Too many of your commands have not ended yet; try again later.",
                "Слишком много ваших команд ещё не завершено; повторите позже.",
                "Juda ko‘p buyruqlaringiz hali yakunlanmagan; keyinroq qayta urinib ko‘ring.",
            ),
            NOT_HELD: _said(
                "Something is still being sent; try again with the same Idempotency-Key.",
                "Отправка ещё не завершена; повторите с тем же Idempotency-Key.",
                "Yuborish hali tugamagan; shu Idempotency-Key bilan qayta urinib ko‘ring.",
            ),
        },
        NOT_JSON: {
            REPEATED_NAME: _said(
                "An object of the body has the same name twice.",
                "В объекте тела запроса одно имя указано дважды.",
                "So‘rov tanasidagi obyektda bir nom ikki marta ko‘rsatilgan.",
            ),
            TOO_DEEP: _said(
                "The body is nested too deeply.",
                "Слишком глубокая вложенность тела запроса.",
                "So‘rov tanasi juda chuqur joylashtirilgan.",
            ),
            TOO_MANY_MEMBERS: _said(
                "The objects of the body have too many members.",
                "В объектах тела запроса слишком много полей.",
                "So‘rov tanasidagi obyektlarda maydonlar juda ko‘p.",
            ),
        },
        WRONG_CONTENT_TYPE: {
            COMPRESSED: _said(
                "The body must not be compressed.",
                "Тело запроса не должно быть сжатым.",
                "So‘rov tanasi siqilmagan bo‘lishi kerak.",
            ),
            CHARSET: _said(
                "The body must be in UTF-8.",
                "Тело запроса должно быть в кодировке UTF-8.",
                "So‘rov tanasi UTF-8 kodlashida bo‘lishi kerak.",
            ),
        },
        MALFORMED_REQUEST: {
            BODY_NOT_ALLOWED: _said(
                "This method takes no body.",
                "Этот метод не принимает тело запроса.",
                "Bu metod so‘rov tanasini qabul qilmaydi.",
            ),
        },
    }
)
"""By code: what `error.cause` may say where a code has several meanings, and the words for each."""


def entry_of(code: int) -> Entry:
    """Return a code's row; within a known range that one's words; otherwise the internal error's."""
    if (entry := CATALOGUE.get(code)) is not None:
        return entry
    for known in RANGES:
        if code in known:
            return Entry(None, known.type, known.messages)
    return CATALOGUE[INTERNAL]
