"""What becomes of a delivery and why, in sentences.

A lane is a merchant's queue; in Russian and Uzbek it is called so, and an endpoint a webhook's address.
"""

from webhook_dispatcher.diagnosis.texts.form import Texts

TEXTS: Texts = {
    "nothing": {"en": "", "ru": "", "uz": ""},
    "title": {
        "en": "Event {event}: {type}, merchant {merchant}, number {number}",
        "ru": "Событие {event}: {type}, мерчант {merchant}, номер {number}",
        "uz": "Hodisa {event}: {type}, merchant {merchant}, raqami {number}",
    },
    "title_of_charge": {
        "en": "Event {event}: {type} of charge {charge}, merchant {merchant}, number {number}",
        "ru": "Событие {event}: {type}, платёж {charge}, мерчант {merchant}, номер {number}",
        "uz": "Hodisa {event}: {type}, to‘lov {charge}, merchant {merchant}, raqami {number}",
    },
    "written": {
        "en": "It was written at {at} ({ago} ago).",
        "ru": "Оно записано {at} ({ago} назад).",
        "uz": "U {at} da yozilgan ({ago} oldin).",
    },
    "overtaken": {
        "en": "It was committed late: number {number} of the same merchant (event {event}) was attempted at "
        "{at}, when this one could not be read yet. Such an event is sent as soon as it can be read, after "
        "later ones.",
        "ru": "Его транзакция завершилась поздно: попытка номера {number} того же мерчанта (событие {event}) "
        "была {at}, когда это ещё нельзя было прочитать. Такое событие отправляется, как только его можно "
        "прочитать, после более поздних.",
        "uz": "Uning tranzaksiyasi kech yakunlandi: o‘sha merchantning {number}-raqami (hodisa {event}) {at} "
        "da yuborildi, u paytda buni hali o‘qib bo‘lmasdi. Bunday hodisa o‘qish mumkin bo‘lishi bilan, "
        "keyingilaridan so‘ng yuboriladi.",
    },
    # What waits for its first attempt.
    "waits": {
        "en": "It waits for its first attempt.",
        "ru": "Оно ожидает первой попытки.",
        "uz": "U birinchi urinishni kutmoqda.",
    },
    "ahead": {
        "en": {
            "one": "{count} earlier event of {merchant} comes before it: first attempts at one merchant go "
            "one after the other.",
            "other": "{count} earlier events of {merchant} come before it: first attempts at one merchant go "
            "one after the other.",
        },
        "ru": {
            "one": "Перед ним {count} более раннее событие мерчанта {merchant}: первые попытки у одного "
            "мерчанта идут одна за другой.",
            "few": "Перед ним {count} более ранних события мерчанта {merchant}: первые попытки у одного "
            "мерчанта идут одна за другой.",
            "many": "Перед ним {count} более ранних событий мерчанта {merchant}: первые попытки у одного "
            "мерчанта идут одна за другой.",
        },
        "uz": "Undan oldin {merchant} merchantining {count} ta hodisasi bor: bir merchantga birinchi "
        "urinishlar ketma-ket bo‘ladi.",
    },
    "ahead_or_more": {
        "en": "{count} or more earlier events of {merchant} come before it: first attempts at one merchant "
        "go one after the other.",
        "ru": "Более ранних событий мерчанта {merchant} перед ним — {count} или больше: первые попытки у "
        "одного мерчанта идут одна за другой.",
        "uz": "Undan oldin {merchant} merchantining kamida {count} ta hodisasi bor: bir merchantga birinchi "
        "urinishlar ketma-ket bo‘ladi.",
    },
    "first_ahead": {
        "en": "The first of them is number {number} (event {event}), written at {at}.",
        "ru": "Первое из них — номер {number} (событие {event}), записано {at}.",
        "uz": "Ulardan birinchisi — {number}-raqam (hodisa {event}), {at} da yozilgan.",
    },
    "held_ahead": {
        "en": "There {holder}: {attempt}.",
        "ru": "Там {holder}: {attempt}.",
        "uz": "U yerda {holder}: {attempt}.",
    },
    "held": {
        "en": "It is the first in line, and {holder}: {attempt}.",
        "ru": "Оно первое в очереди, и {holder}: {attempt}.",
        "uz": "U navbatda birinchi, va {holder}: {attempt}.",
    },
    "holder": {
        "en": "dispatcher {owner} holds the lane",
        "ru": "диспетчер {owner} ведёт очередь",
        "uz": "navbatni {owner} dispetcheri yuritmoqda",
    },
    "holder_since": {
        "en": "dispatcher {owner} holds the lane since {at}",
        "ru": "диспетчер {owner} ведёт очередь с {at}",
        "uz": "navbatni {at} dan beri {owner} dispetcheri yuritmoqda",
    },
    "in_flight": {
        "en": "its first attempt is in flight, or about to begin",
        "ru": "его первая попытка идёт или вот-вот начнётся",
        "uz": "uning birinchi urinishi bajarilmoqda yoki hozir boshlanadi",
    },
    "in_flight_since": {
        "en": "its first attempt is in flight since about {at} ({ago} ago), or about to begin",
        "ru": "его первая попытка идёт примерно с {at} ({ago}) или вот-вот начнётся",
        "uz": "uning birinchi urinishi taxminan {at} dan beri ({ago}) bajarilmoqda yoki hozir boshlanadi",
    },
    "in_flight_ahead": {
        "en": "the first attempt of that one is in flight, or about to begin",
        "ru": "первая попытка того события идёт или вот-вот начнётся",
        "uz": "o‘sha hodisaning birinchi urinishi bajarilmoqda yoki hozir boshlanadi",
    },
    "in_flight_ahead_since": {
        "en": "the first attempt of that one is in flight since about {at} ({ago} ago), or about to begin",
        "ru": "первая попытка того события идёт примерно с {at} ({ago}) или вот-вот начнётся",
        "uz": "o‘sha hodisaning birinchi urinishi taxminan {at} dan beri ({ago}) bajarilmoqda yoki hozir "
        "boshlanadi",
    },
    "pace": {
        "en": {
            "one": "The latest {count} attempt at the merchant ({outcomes}) took {pace} each on average.",
            "other": "The latest {count} attempts at the merchant ({outcomes}) took {pace} each on average.",
        },
        "ru": {
            "one": "Последняя {count} попытка у мерчанта ({outcomes}) заняла в среднем {pace}.",
            "few": "Последние {count} попытки у мерчанта ({outcomes}) заняли в среднем по {pace}.",
            "many": "Последние {count} попыток у мерчанта ({outcomes}) заняли в среднем по {pace}.",
        },
        "uz": "Merchantga oxirgi {count} ta urinish ({outcomes}) o‘rtacha {pace} dan davom etdi.",
    },
    "count_of": {"en": "{count} {outcome}", "ru": "{count} × {outcome}", "uz": "{count} × {outcome}"},
    "turn": {
        "en": "Its turn comes in about {wait}, if that goes on.",
        "ru": "Если так пойдёт и дальше, его очередь подойдёт примерно через {wait}.",
        "uz": "Shu zaylda davom etsa, uning navbati taxminan {wait} dan keyin keladi.",
    },
    "rests": {
        "en": "It is the first in line, and the lane rests until {until}: a dispatcher could not open the "
        "merchant's secret, or could not read or send the event.",
        "ru": "Оно первое в очереди, и очередь ждёт до {until}: диспетчер не смог открыть секрет мерчанта "
        "либо прочитать или отправить событие.",
        "uz": "U navbatda birinchi, navbat esa {until} gacha kutadi: dispetcher merchantning maxfiy kalitini "
        "ocha olmadi yoki hodisani o‘qiy yoxud yubora olmadi.",
    },
    "free": {
        "en": "It is the first in line, and no dispatcher holds the lane: one takes it up within a second.",
        "ru": "Оно первое в очереди, и очередь никто не ведёт: какой-нибудь диспетчер возьмёт её в течение "
        "секунды.",
        "uz": "U navbatda birinchi, navbatni hech qaysi dispetcher yuritmayapti: biri uni bir soniya ichida "
        "oladi.",
    },
    "free_for_long": {
        "en": "That takes longer already: dispatchers may be stopped, or busy with others.",
        "ru": "Это длится уже дольше: возможно, диспетчеры остановлены или заняты другими.",
        "uz": "Bu allaqachon uzoqroq davom etmoqda: dispetcherlar to‘xtatilgan yoki boshqalar bilan band "
        "bo‘lishi mumkin.",
    },
    # What may keep any event that is owed.
    "all_paused": {
        "en": "Everything is paused{by}: nothing is sent to anybody.",
        "ru": "Всё на паузе{by}: никому ничего не отправляется.",
        "uz": "Hammasi pauzada{by}: hech kimga hech narsa yuborilmaydi.",
    },
    "paused": {
        "en": "{merchant} is paused{by}: nothing is sent to it.",
        "ru": "Мерчант {merchant} на паузе{by}: ему ничего не отправляется.",
        "uz": "{merchant} merchanti pauzada{by}: unga hech narsa yuborilmaydi.",
    },
    "paused_by": {
        "en": " since {at} ({ago} ago) by {person} (command {command})",
        "ru": " с {at} ({ago}), поставил(а) {person} (команда {command})",
        "uz": " ({at} dan beri, {ago}; {person} qo‘ygan, buyruq {command})",
    },
    "paused_otherwise": {
        "en": " (not by a command)",
        "ru": " (не по команде)",
        "uz": " (buyruq bilan emas)",
    },
    "suspended": {
        "en": "{merchant} is suspended since {at} ({ago} ago), because nothing was accepted for too long: "
        "only its oldest event is tried, once an interval; the next try is at {next_at}.",
        "ru": "Мерчант {merchant} приостановлен с {at} ({ago}), потому что слишком долго ничего не принимал: "
        "раз в интервал пробуется только самое старое событие; следующая проба {next_at}.",
        "uz": "{merchant} merchanti {at} dan beri ({ago}) to‘xtatib turilgan, chunki juda uzoq hech narsa "
        "qabul qilmadi: har oraliqda faqat eng eski hodisa sinaladi; keyingi sinov {next_at} da.",
    },
    "suspended_due": {
        "en": "{merchant} is suspended since {at} ({ago} ago), because nothing was accepted for too long: "
        "only its oldest event is tried, once an interval. The next try is to come any moment.",
        "ru": "Мерчант {merchant} приостановлен с {at} ({ago}), потому что слишком долго ничего не принимал: "
        "раз в интервал пробуется только самое старое событие. Следующая проба вот-вот начнётся.",
        "uz": "{merchant} merchanti {at} dan beri ({ago}) to‘xtatib turilgan, chunki juda uzoq hech narsa "
        "qabul qilmadi: har oraliqda faqat eng eski hodisa sinaladi. Keyingi sinov hozir boshlanadi.",
    },
    "endpoint_removed": {
        "en": "{merchant} has no endpoint: its endpoint was removed at {at}, so it fails as not_configured "
        "when a dispatcher looks at it.",
        "ru": "У мерчанта {merchant} нет адреса вебхука: он удалён {at}, поэтому, когда диспетчер дойдёт до "
        "события, оно не будет доставлено (not_configured).",
        "uz": "{merchant} merchantida webhook manzili yo‘q: u {at} da o‘chirilgan, shuning uchun dispetcher "
        "hodisaga yetganda u yetkazilmaydi (not_configured).",
    },
    "endpoint_awaited": {
        "en": "{merchant} has no endpoint: it waits for one until {until} (WEBHOOK_UNCONFIGURED_HOLD: "
        "{hold}), and then fails as not_configured.",
        "ru": "У мерчанта {merchant} нет адреса вебхука: событие ждёт его до {until} "
        "(WEBHOOK_UNCONFIGURED_HOLD: {hold}), а затем не будет доставлено (not_configured).",
        "uz": "{merchant} merchantida webhook manzili yo‘q: hodisa uni {until} gacha kutadi "
        "(WEBHOOK_UNCONFIGURED_HOLD: {hold}), so‘ng yetkazilmaydi (not_configured).",
    },
    "endpoint_missed": {
        "en": "{merchant} has no endpoint: it waited for one until {until}; it fails as not_configured when "
        "a dispatcher looks at it.",
        "ru": "У мерчанта {merchant} нет адреса вебхука: событие ждало его до {until}; когда диспетчер "
        "дойдёт до события, оно не будет доставлено (not_configured).",
        "uz": "{merchant} merchantida webhook manzili yo‘q: hodisa uni {until} gacha kutdi; dispetcher unga "
        "yetganda u yetkazilmaydi (not_configured).",
    },
    "secret_unopened": {
        "en": "The secret of {merchant} cannot be opened with the keys of this environment ({fault}): if the "
        "dispatchers' are the same, it waits for the right one.",
        "ru": "Секрет мерчанта {merchant} не открывается ключами этой среды ({fault}): если у диспетчеров "
        "они те же, событие ждёт верного ключа.",
        "uz": "{merchant} merchantining maxfiy kaliti bu muhit kalitlari bilan ochilmaydi ({fault}): "
        "dispetcherlarda ham shular bo‘lsa, hodisa to‘g‘ri kalitni kutadi.",
    },
    "secret_unread": {
        "en": "Whether the secret of {merchant} opens is not known here: {fault}.",
        "ru": "Открывается ли секрет мерчанта {merchant}, здесь неизвестно: {fault}.",
        "uz": "{merchant} merchantining maxfiy kaliti ochilishi bu yerda noma’lum: {fault}.",
    },
    "refused_since_rotation": {
        "en": "{merchant} answers 401 since the rotation of its secret at {at}; it accepted events before.",
        "ru": "{merchant} отвечает 401 с замены секрета {at}, а до неё принимал события.",
        "uz": "{merchant} maxfiy kalit {at} da almashtirilganidan beri 401 javob bermoqda; "
        "ungacha qabul qilgan.",
    },
    "unread": {
        "en": "Could not be read: {part} ({fault}).",
        "ru": "Не удалось прочитать: {part} ({fault}).",
        "uz": "O‘qib bo‘lmadi: {part} ({fault}).",
    },
    "goes_on": {
        "en": "It goes on, in order, {when}.",
        "ru": "Отправка продолжится по порядку, {when}.",
        "uz": "Yuborish {when}, tartib bilan davom etadi.",
    },
    "is_attempted": {
        "en": "It is attempted {when}.",
        "ru": "Попытка будет, {when}.",
        "uz": "Urinish {when} bo‘ladi.",
    },
    "when_resumed": {"en": "when the pause ends", "ru": "когда закончится пауза", "uz": "pauza tugagach"},
    "when_accepted": {
        "en": "within seconds of the first try that succeeds",
        "ru": "как только удастся первая проба (в течение секунд)",
        "uz": "birinchi muvaffaqiyatli sinovdan so‘ng bir necha soniyada",
    },
    "when_mended": {
        "en": "when that is mended",
        "ru": "когда это будет исправлено",
        "uz": "bu tuzatilgach",
    },
    "not_before_due": {
        "en": "{when}, and not before it is due",
        "ru": "{when}, и не раньше назначенного времени",
        "uz": "{when}, belgilangan vaqtdan oldin emas,",
    },
    # What waits for a retry.
    "asked_by_hand": {
        "en": ", asked for by hand,",
        "ru": " (по запросу вручную)",
        "uz": " (qo‘lda so‘ralgan)",
    },
    "attempt_failed": {
        "en": "Attempt {number} failed ({result})",
        "ru": "Попытка {number} не удалась ({result})",
        "uz": "{number}-urinish muvaffaqiyatsiz ({result})",
    },
    "retry_claimed": {
        "en": "Attempt {number}{by_hand} is in flight, or about to begin: a dispatcher has claimed it until "
        "{until}.",
        "ru": "Попытка {number}{by_hand} идёт или вот-вот начнётся: диспетчер взял её до {until}.",
        "uz": "{number}-urinish{by_hand} bajarilmoqda yoki hozir boshlanadi: dispetcher uni {until} gacha "
        "oldi.",
    },
    "retry_lost": {
        "en": "Attempt {number}{by_hand} was claimed by a dispatcher that did not report until {until}: it "
        "may have been made, and is made again by whoever claims it next.",
        "ru": "Попытку {number}{by_hand} взял диспетчер, который до {until} ничего не сообщил: возможно, она "
        "была сделана; её повторит тот, кто возьмёт её следующим.",
        "uz": "{number}-urinishni{by_hand} olgan dispetcher {until} gacha hech narsa xabar qilmadi: u "
        "bajarilgan bo‘lishi mumkin; keyingi olgan dispetcher uni takrorlaydi.",
    },
    "retry_due": {
        "en": "{failed}; attempt {number}{by_hand} is due since {at}, and begins as soon as one of the "
        "merchant's slots for retries is free.",
        "ru": "{failed}; время попытки {number}{by_hand} наступило {at}, она начнётся, как только "
        "освободится место для повторов этого мерчанта.",
        "uz": "{failed}; {number}-urinish{by_hand} vaqti {at} da keldi, u shu merchantning takrorlari uchun "
        "joy bo‘shashi bilan boshlanadi.",
    },
    "retry_waits": {
        "en": "{failed}; attempt {number}{by_hand} is due at {at}, in {wait}.",
        "ru": "{failed}; попытка {number}{by_hand} назначена на {at}, через {wait}.",
        "uz": "{failed}; {number}-urinish{by_hand} {at} ga belgilangan, {wait} dan keyin.",
    },
    "once_by_hand": {
        "en": "It is attempted once by hand; if that fails, it is failed again.",
        "ru": "Это одна попытка вручную; если она не удастся, доставка снова будет считаться неудавшейся.",
        "uz": "Bu qo‘lda bitta urinish; u muvaffaqiyatsiz bo‘lsa, yetkazish yana amalga oshmagan bo‘ladi.",
    },
    "beside_schedule": {
        "en": "If attempt {number} fails, the schedule goes on as it was: attempt {next} stays due at {at}.",
        "ru": "Если попытка {number} не удастся, расписание не изменится: попытка {next} останется "
        "назначенной на {at}.",
        "uz": "{number}-urinish muvaffaqiyatsiz bo‘lsa, jadval o‘zgarmaydi: {next}-urinish {at} ga "
        "belgilanganicha qoladi.",
    },
    "last_attempt": {
        "en": "Attempt {number} is the last: if it fails, the delivery is failed (exhausted).",
        "ru": "Попытка {number} — последняя: если она не удастся, событие не будет доставлено (exhausted).",
        "uz": "{number}-urinish — oxirgisi: u muvaffaqiyatsiz bo‘lsa, hodisa yetkazilmaydi (exhausted).",
    },
    "next_attempt": {
        "en": "If attempt {number} fails, attempt {next} follows {delay} after its end; attempt {last} is "
        "the last.",
        "ru": "Если попытка {number} не удастся, через {delay} после её конца будет попытка {next}; "
        "последняя — попытка {last}.",
        "uz": "{number}-urinish muvaffaqiyatsiz bo‘lsa, u tugagach {delay} dan keyin {next}-urinish bo‘ladi; "
        "oxirgisi — {last}-urinish.",
    },
    "no_retries": {
        "en": "If its attempt fails, the delivery is failed (exhausted).",
        "ru": "Если попытка не удастся, событие не будет доставлено (exhausted).",
        "uz": "Urinish muvaffaqiyatsiz bo‘lsa, hodisa yetkazilmaydi (exhausted).",
    },
    "retries": {
        "en": "If its first attempt fails, retries follow after {delays}, each after the one before it.",
        "ru": "Если первая попытка не удастся, повторы последуют через {delays}, каждый после предыдущего.",
        "uz": "Birinchi urinish muvaffaqiyatsiz bo‘lsa, {delays} dan keyin takroriy urinishlar bo‘ladi, har "
        "biri oldingisidan so‘ng.",
    },
    # What is over.
    "delivered_by": {
        "en": "It was delivered at {at} by attempt {number}, {took} after it was written.",
        "ru": "Оно доставлено {at} попыткой {number}, через {took} после записи.",
        "uz": "U {at} da {number}-urinish bilan, yozilganidan {took} keyin yetkazildi.",
    },
    "delivered": {
        "en": "It was delivered at {at}.",
        "ru": "Оно доставлено {at}.",
        "uz": "U {at} da yetkazildi.",
    },
    "repeated": {
        "en": {
            "one": "{count} attempt of it succeeded, so the merchant has it {count} time ({cause}): with the "
            "same id and body, by which receivers tell that it is the same.",
            "other": "{count} attempts of it succeeded, so the merchant has it {count} times ({cause}): with "
            "the same id and body, by which receivers tell that it is the same.",
        },
        "ru": {
            "one": "Удалась {count} попытка, поэтому у мерчанта оно {count} раз ({cause}): с тем же id и "
            "телом, по которым получатель видит, что это то же событие.",
            "few": "Удались {count} попытки, поэтому у мерчанта оно {count} раза ({cause}): с тем же id и "
            "телом, по которым получатель видит, что это то же событие.",
            "many": "Удались {count} попыток, поэтому у мерчанта оно {count} раз ({cause}): с тем же id и "
            "телом, по которым получатель видит, что это то же событие.",
        },
        "uz": "{count} ta urinish muvaffaqiyatli bo‘ldi, shuning uchun u merchantda {count} marta bor "
        "({cause}): id va tanasi bir xil, qabul qiluvchi shunga qarab bu o‘sha hodisa ekanini biladi.",
    },
    "by_hand": {"en": "by hand", "ru": "вручную", "uz": "qo‘lda"},
    "by_recovery": {"en": "by a recover", "ru": "при восстановлении", "uz": "tiklash paytida"},
    "by_lost_lease": {
        "en": "because a dispatcher ended, or lost its lease, before it had recorded the first",
        "ru": "потому что диспетчер завершился или потерял аренду, не успев записать первую",
        "uz": "chunki dispetcher birinchisini yozib ulgurmasdan tugadi yoki ijarasini yo‘qotdi",
    },
    "sent_again": {
        "en": "It is being sent once more, {cause}, and stays delivered whatever comes of that.",
        "ru": "Оно отправляется ещё раз ({cause}) и останется доставленным, чем бы это ни кончилось.",
        "uz": "U yana bir bor yuborilmoqda ({cause}) va natijasi qanday bo‘lishidan qat’i nazar yetkazilgan "
        "bo‘lib qoladi.",
    },
    "again_now": {
        "en": "That attempt is in flight, or begins within a second unless the merchant is paused.",
        "ru": "Эта попытка идёт или начнётся в течение секунды, если мерчант не на паузе.",
        "uz": "Bu urinish bajarilmoqda yoki, merchant pauzada bo‘lmasa, bir soniya ichida boshlanadi.",
    },
    "again_due": {
        "en": "That attempt is due at {at}.",
        "ru": "Эта попытка назначена на {at}.",
        "uz": "Bu urinish {at} ga belgilangan.",
    },
    "finished": {
        "en": "Nothing: it is finished.",
        "ru": "Ничего: всё завершено.",
        "uz": "Hech narsa: hammasi yakunlangan.",
    },
    "failed": {
        "en": "It failed: {because}.",
        "ru": "Оно не доставлено: {because}.",
        "uz": "U yetkazilmadi: {because}.",
    },
    "failed_at": {
        "en": "It failed at {at}: {because}.",
        "ru": "Оно не доставлено ({at}): {because}.",
        "uz": "U yetkazilmadi ({at}): {because}.",
    },
    "nothing_by_itself": {
        "en": "Nothing by itself: a failed delivery is attempted again by hand alone.",
        "ru": "Автоматически — ничего: несостоявшуюся доставку повторяют только вручную.",
        "uz": "O‘z-o‘zidan — hech narsa: bunday yetkazish faqat qo‘lda takrorlanadi.",
    },
    "because_exhausted": {
        "en": {
            "one": "all {count} attempt failed, the last with {last}",
            "other": "all {count} attempts failed, the last with {last}",
        },
        "ru": {
            "one": "не удалась ни одна из {count} попытки, последняя: {last}",
            "few": "не удалась ни одна из {count} попыток, последняя: {last}",
            "many": "не удалась ни одна из {count} попыток, последняя: {last}",
        },
        "uz": "barcha {count} ta urinish muvaffaqiyatsiz bo‘ldi, oxirgisi: {last}",
    },
    "because_of_one": {
        "en": "its one attempt failed with {last}",
        "ru": "единственная попытка не удалась: {last}",
        "uz": "yagona urinish muvaffaqiyatsiz bo‘ldi: {last}",
    },
    "because_not_configured": {
        "en": "the merchant had no endpoint in time, or its endpoint was removed (not_configured)",
        "ru": "адрес вебхука не был задан вовремя или был удалён (not_configured)",
        "uz": "webhook manzili o‘z vaqtida kiritilmagan yoki o‘chirilgan (not_configured)",
    },
    "because_unsendable": {
        "en": "the row breaks a rule, or the database could not read it; it was not sent (unsendable)",
        "ru": "строка нарушает правило, или база данных не смогла её прочитать; отправки не было "
        "(unsendable)",
        "uz": "qator qoidani buzadi yoki ma’lumotlar bazasi uni o‘qiy olmadi; u yuborilmadi (unsendable)",
    },
    "because_cancelled": {
        "en": {
            "one": "it was cancelled, after {count} attempt",
            "other": "it was cancelled, after {count} attempts",
        },
        "ru": {
            "one": "отменено после {count} попытки",
            "few": "отменено после {count} попыток",
            "many": "отменено после {count} попыток",
        },
        "uz": "{count} ta urinishdan so‘ng bekor qilindi",
    },
    "because_cancelled_by": {
        "en": {
            "one": "it was cancelled by {person} (command {command}), after {count} attempt",
            "other": "it was cancelled by {person} (command {command}), after {count} attempts",
        },
        "ru": {
            "one": "отменено после {count} попытки, отменил(а) {person} (команда {command})",
            "few": "отменено после {count} попыток, отменил(а) {person} (команда {command})",
            "many": "отменено после {count} попыток, отменил(а) {person} (команда {command})",
        },
        "uz": "{count} ta urinishdan so‘ng {person} bekor qildi (buyruq {command})",
    },
    "because_skipped": {
        "en": {
            "one": "an operator had what was owed skipped, this one after {count} attempt (skipped)",
            "other": "an operator had what was owed skipped, this one after {count} attempts (skipped)",
        },
        "ru": {
            "one": "оператор пропустил то, что ещё не было доставлено, это — после {count} попытки (skipped)",
            "few": "оператор пропустил то, что ещё не было доставлено, это — после {count} попыток (skipped)",
            "many": "оператор пропустил то, что ещё не было доставлено, это — после {count} попыток "
            "(skipped)",
        },
        "uz": "operator hali yetkazilmaganlarini o‘tkazib yubordi, buni — {count} ta urinishdan so‘ng "
        "(skipped)",
    },
    "because_otherwise": {"en": "{reason}", "ru": "{reason}", "uz": "{reason}"},
    # Attempts and commands.
    "attempt": {
        "en": "{number}. {at}, took {took}{asked}: {result}{reason}{answer}",
        "ru": "{number}. {at}, заняла {took}{asked}: {result}{reason}{answer}",
        "uz": "{number}. {at}, {took} davom etdi{asked}: {result}{reason}{answer}",
    },
    "attempt_asked": {"en": ", {asked}", "ru": ", {asked}", "uz": ", {asked}"},
    "attempt_reason": {"en": " ({reason})", "ru": " ({reason})", "uz": " ({reason})"},
    "attempt_answer": {
        "en": '; it answered "{excerpt}"',
        "ru": "; ответ: «{excerpt}»",
        "uz": "; javob: “{excerpt}”",
    },
    "result_status": {"en": "status {status}", "ru": "статус {status}", "uz": "status {status}"},
    "result": {"en": "{outcome}", "ru": "{outcome}", "uz": "{outcome}"},
    "result_with_status": {
        "en": "{outcome}, status {status}",
        "ru": "{outcome}, статус {status}",
        "uz": "{outcome}, status {status}",
    },
    "attempts_gone": {
        "en": {
            "one": "{count} attempt of it is no longer in the log.",
            "other": "{count} attempts of it are no longer in the log.",
        },
        "ru": {
            "one": "{count} его попытки больше нет в журнале.",
            "few": "{count} его попыток больше нет в журнале.",
            "many": "{count} его попыток больше нет в журнале.",
        },
        "uz": "Uning {count} ta urinishi endi jurnalda yo‘q.",
    },
    "command": {
        "en": "{person} asked for {command} at {at} (command {number}, {status}).",
        "ru": "{person}, {at}: {command} (команда {number}, {status}).",
        "uz": "{person}, {at}: {command} (buyruq {number}, {status}).",
    },
    # What can be done: each is followed by how.
    "to_resume_all": {
        "en": "To send to everybody again",
        "ru": "Снова отправлять всем",
        "uz": "Yana hammaga yuborish",
    },
    "to_resume": {
        "en": "To send to it again",
        "ru": "Снова отправлять ему",
        "uz": "Unga yana yuborish",
    },
    "to_resume_suspended": {
        "en": "To send to it at once",
        "ru": "Отправлять ему сразу",
        "uz": "Unga darhol yuborish",
    },
    "to_resume_first": {
        "en": "To send to the merchant again first (it is suspended: a retry is refused)",
        "ru": "Сначала снова отправлять мерчанту (он приостановлен: в повторе будет отказано)",
        "uz": "Avval merchantga yuborishni davom ettirish (u to‘xtatib turilgan: takrorlash rad etiladi)",
    },
    "to_test": {
        "en": "To see what the merchant answers",
        "ru": "Посмотреть, что отвечает мерчант",
        "uz": "Merchant nima javob berishini ko‘rish",
    },
    "to_test_suspended": {
        "en": "To see whether the merchant answers again",
        "ru": "Посмотреть, отвечает ли мерчант снова",
        "uz": "Merchant yana javob berayotganini ko‘rish",
    },
    "to_list_waiting": {
        "en": "To see all that waits for {merchant}, the oldest first",
        "ru": "Посмотреть всё, что ждёт отправки мерчанту {merchant}, начиная с самого старого",
        "uz": "{merchant} merchantini kutayotganlarning hammasini, eng eskisidan boshlab ko‘rish",
    },
    "to_give_endpoint": {
        "en": "To give it one",
        "ru": "Задать адрес вебхука",
        "uz": "Webhook manzilini kiritish",
    },
    "to_give_endpoint_first": {
        "en": "To give the merchant an endpoint first",
        "ru": "Сначала задать адрес вебхука мерчанта",
        "uz": "Avval merchantning webhook manzilini kiritish",
    },
    "to_rotate_secret": {
        "en": "The receiver may have another secret. To give it a new one",
        "ru": "Возможно, у получателя другой секрет. Выдать новый",
        "uz": "Qabul qiluvchida boshqa maxfiy kalit bo‘lishi mumkin. Yangisini berish",
    },
    "to_see_keys": {
        "en": "To see which keys are wanting",
        "ru": "Посмотреть, каких ключей не хватает",
        "uz": "Qaysi kalitlar yetishmasligini ko‘rish",
    },
    "to_see_faults": {
        "en": "To see what is wrong",
        "ru": "Посмотреть, что не так",
        "uz": "Nima noto‘g‘ri ekanini ko‘rish",
    },
    "to_see_dispatchers": {
        "en": "To see who works, and what is wrong",
        "ru": "Посмотреть, кто работает и что не так",
        "uz": "Kim ishlayotganini va nima noto‘g‘ri ekanini ko‘rish",
    },
    "to_retry_now": {"en": "To attempt it now", "ru": "Попробовать сейчас", "uz": "Hozir urinib ko‘rish"},
    "to_retry_failed": {
        "en": "To attempt it once more",
        "ru": "Попробовать ещё раз",
        "uz": "Yana bir bor urinib ko‘rish",
    },
    "to_send_again": {
        "en": "To send it once more",
        "ru": "Отправить ещё раз",
        "uz": "Yana bir bor yuborish",
    },
    "to_retry_all_failed": {
        "en": "To attempt everything of it once more that failed since then",
        "ru": "Ещё раз попробовать всё, что не доставлено ему с тех пор",
        "uz": "O‘shandan beri unga yetkazilmagan hammasini yana urinib ko‘rish",
    },
    "to_recover": {
        "en": "To see what else of it failed since then, and choose what is sent again",
        "ru": "Посмотреть, что ещё с тех пор не доставлено ему, и выбрать, что отправить заново",
        "uz": "O‘shandan beri unga yana nimalar yetkazilmaganini ko‘rish va qayta yuboriladiganini tanlash",
    },
    "to_cancel": {"en": "To give it up", "ru": "Отказаться от отправки", "uz": "Yuborishdan voz kechish"},
    # What is not found.
    "unknown": {
        "en": "no event and no charge {subject} is known here",
        "ru": "ни события, ни платежа {subject} здесь нет",
        "uz": "bu yerda {subject} hodisasi ham, to‘lovi ham yo‘q",
    },
    "unknown_once_here": {
        "en": "it was here once: command {number} ({command}), given by {person} at {at}, was about it",
        "ru": "когда-то оно здесь было: о нём команда {number} ({command}), её дал(а) {person} {at}",
        "uz": "u bir paytlar shu yerda bo‘lgan: {number}-buyruq ({command}) u haqida edi, {person} {at} da "
        "bergan",
    },
    "unknown_since_delivered": {
        "en": "{merchant} accepted it at {at}; the server that took over (noted at {noted}) lacks it: "
        "docs/runbooks.md, WebhookEventsLost",
        "ru": "мерчант {merchant} принял его {at}; на сервере, который пришёл на смену (замечено {noted}), "
        "его нет: docs/runbooks.md, WebhookEventsLost",
        "uz": "{merchant} uni {at} da qabul qilgan; almashgan serverda ({noted} da aniqlangan) u yo‘q: "
        "docs/runbooks.md, WebhookEventsLost",
    },
    "unknown_since_sent": {
        "en": "it was sent to {merchant} at {at} and not accepted; the server that took over (noted at "
        "{noted}) lacks it: docs/runbooks.md, WebhookEventsLost",
        "ru": "его отправили мерчанту {merchant} {at}, и он его не принял; на сервере, который пришёл на "
        "смену (замечено {noted}), его нет: docs/runbooks.md, WebhookEventsLost",
        "uz": "u {merchant} ga {at} da yuborilgan va qabul qilinmagan; almashgan serverda ({noted} da "
        "aniqlangan) u yo‘q: docs/runbooks.md, WebhookEventsLost",
    },
    "unknown_kept_since": {
        "en": "finished deliveries are kept since {day}: one that finished before that day has been dropped "
        "by retention, and leaves no trace here",
        "ru": "завершённые доставки хранятся с {day}: завершённая раньше удалена по сроку хранения и не "
        "оставила здесь следа",
        "uz": "yakunlangan yetkazishlar {day} dan beri saqlanadi: undan oldin yakunlangani saqlash muddati "
        "bo‘yicha o‘chirilgan va bu yerda iz qoldirmagan",
    },
    "unknown_uncommitted": {
        "en": "an event whose transaction is not committed cannot be found either; of several databases, "
        "--shard names the one to look in",
        "ru": "событие, транзакция которого не завершена, тоже найти нельзя; если баз данных несколько, "
        "--shard называет ту, в которой искать",
        "uz": "tranzaksiyasi yakunlanmagan hodisani ham topib bo‘lmaydi; ma’lumotlar bazasi bir nechta "
        "bo‘lsa, --shard qaysi biridan qidirishni aytadi",
    },
}
