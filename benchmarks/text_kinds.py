# ruff: noqa: RUF001 - the scripts of the world have letters that look alike; nothing here is a secret
"""Short texts of many scripts and kinds, to compare the estimate of tokens with a tokenizer."""

from __future__ import annotations

import base64
import functools
import json
import random
import unicodedata
import uuid
from collections.abc import Callable

SENTENCES = {
    "English": "The committee decided to postpone the meeting because several members could not attend. ",
    "German": "Der Ausschuss beschloss, die Sitzung auf nächste Woche zu verschieben, weil mehrere fehlten. ",
    "French": "Le comité a décidé de reporter la réunion à la semaine prochaine, car plusieurs étaient absents. ",
    "Polish": "Komitet postanowił przełożyć posiedzenie na następny tydzień, ponieważ kilku było nieobecnych. ",
    "Turkish": "Komite, birkaç üyenin katılamaması nedeniyle toplantıyı gelecek haftaya ertelemeye karar verdi. ",
    "Russian": "Комитет решил перенести заседание на следующую неделю. ",
    "Greek": "Η επιτροπή αποφάσισε να αναβάλει τη συνεδρίαση για την επόμενη εβδομάδα. ",
    "Hebrew": "הוועדה החליטה לדחות את הישיבה לשבוע הבא. ",
    "Arabic": "قررت اللجنة تأجيل الاجتماع إلى الأسبوع التالي. ",
    "Hindi": "समिति ने बैठक को अगले सप्ताह तक स्थगित करने का निर्णय लिया। ",
    "Thai": "คณะกรรมการตัดสินใจเลื่อนการประชุมออกไปเป็นสัปดาห์หน้า ",
    "Amharic": "ኮሚቴው ስብሰባውን ወደሚቀጥለው ሳምንት ለማስተላለፍ ወሰነ። ",
    "Burmese": "ကော်မတီသည် အစည်းအဝေးကို နောက်အပတ်သို့ ရွှေ့ဆိုင်းရန် ဆုံးဖြတ်ခဲ့သည်။ ",
    "Chinese": "委员会决定将会议推迟到下周，因为几位成员无法出席。",
    "Japanese": "委員会は、数名の委員が出席できないため、会議を来週に延期することを決定しました。",
    "Korean": "위원회는 여러 위원이 참석할 수 없기 때문에 회의를 다음 주로 연기하기로 결정했다. ",
    "Ukrainian": "Комітет вирішив перенести засідання на наступний тиждень. ",
    "Bulgarian": "Комисията реши да отложи заседанието за следващата седмица. ",
    "Persian": "کمیته تصمیم گرفت جلسه را به هفته آینده موکول کند. ",
    "Urdu": "کمیٹی نے اجلاس اگلے ہفتے تک ملتوی کرنے کا فیصلہ کیا۔ ",
    "Bengali": "কমিটি সভাটি আগামী সপ্তাহে স্থগিত করার সিদ্ধান্ত নিয়েছে। ",
    "Tamil": "கூட்டத்தை அடுத்த வாரத்திற்கு ஒத்திவைக்க குழு முடிவு செய்தது. ",
    "Telugu": "సమావేశాన్ని వచ్చే వారానికి వాయిదా వేయాలని కమిటీ నిర్ణయించింది. ",
    "Gujarati": "સમિતિએ બેઠક આવતા અઠવાડિયા સુધી મુલતવી રાખવાનું નક્કી કર્યું. ",
    "Punjabi": "ਕਮੇਟੀ ਨੇ ਮੀਟਿੰਗ ਨੂੰ ਅਗਲੇ ਹਫ਼ਤੇ ਤੱਕ ਮੁਲਤਵੀ ਕਰਨ ਦਾ ਫੈਸਲਾ ਕੀਤਾ। ",
    "Malayalam": "യോഗം അടുത്ത ആഴ്ചയിലേക്ക് മാറ്റിവയ്ക്കാൻ സമിതി തീരുമാനിച്ചു. ",
    "Sinhala": "රැස්වීම ලබන සතියට කල් දැමීමට කමිටුව තීරණය කළේය. ",
    "Odia": "କମିଟି ବୈଠକକୁ ଆସନ୍ତା ସପ୍ତାହକୁ ସ୍ଥଗିତ ରଖିବାକୁ ନିଷ୍ପତ୍ତି ନେଇଛି। ",
    "Lao": "ຄະນະກໍາມະການໄດ້ຕັດສິນໃຈເລື່ອນກອງປະຊຸມໄປອາທິດໜ້າ. ",
    "Khmer": "គណៈកម្មាធិការបានសម្រេចចិត្តពន្យារពេលការប្រជុំទៅសប្តាហ៍ក្រោយ។ ",
    "Georgian": "კომიტეტმა გადაწყვიტა სხდომის გადადება მომავალ კვირამდე. ",
    "Armenian": "Կոմիտեն որոշեց նիստը հետաձգել մինչև հաջորդ շաբաթ։ ",
    "Cherokee": "ᎦᏚᏏ ᎠᏂᎳᏫᎩ ᎤᏂᏍᏆᏂᎪᏗ ᎠᏂᏬᏂᏍᎩ ",
    "Vietnamese": "Ủy ban quyết định hoãn cuộc họp sang tuần sau vì một số thành viên không thể tham dự. ",
    "Czech": "Výbor se rozhodl odložit schůzi na příští týden, protože několik členů se nemohlo zúčastnit. ",
    "Hungarian": "A bizottság úgy döntött, hogy a jövő hétre halasztja az ülést. ",
    "Finnish": "Komitea päätti lykätä kokousta ensi viikkoon, koska useat jäsenet eivät päässeet paikalle. ",
    "Spanish": "El comité decidió posponer la reunión hasta la próxima semana porque varios no podían asistir. ",
    "Italian": "Il governo ha approvato questa mattina una nuova legge che prevede aiuti alle famiglie con figli. ",
    "Portuguese": "O comitê decidiu adiar a reunião para a próxima semana porque vários não puderam comparecer. ",
    "Romanian": "Comitetul a decis să amâne ședința pentru săptămâna viitoare. ",
    "Dutch": "De commissie besloot de vergadering uit te stellen omdat verschillende leden niet konden komen. ",
    "Swahili": "Kamati iliamua kuahirisha mkutano hadi wiki ijayo kwa sababu wajumbe hawakuweza kuhudhuria. ",
    "Indonesian": "Komite memutuskan untuk menunda rapat hingga minggu depan karena anggota tidak dapat hadir. ",
    "Yoruba": "Ìgbìmọ̀ náà pinnu láti sún ìpàdé náà síwájú di ọ̀sẹ̀ tó ń bọ̀. ",
    "old Chinese": "委員會決定將會議推遲到下週，因為幾位成員無法出席。",
    "Russian capitals": "КОМИТЕТ РЕШИЛ ПЕРЕНЕСТИ ЗАСЕДАНИЕ НА СЛЕДУЮЩУЮ НЕДЕЛЮ. ",
    "Greek capitals": "Η ΕΠΙΤΡΟΠΗ ΑΠΟΦΑΣΙΣΕ ΝΑ ΑΝΑΒΑΛΕΙ ΤΗ ΣΥΝΕΔΡΙΑΣΗ. ",
    "phonetic": "ðə kəˈmɪti dɪˈsaɪdɪd tə pəʊstˈpəʊn ðə ˈmiːtɪŋ bɪˈkɒz ˈsɛvrəl ˈmɛmbəz kʊd nɒt əˈtɛnd ",
    "capitals": "THE COMMITTEE DECIDED TO POSTPONE THE MEETING BECAUSE SEVERAL MEMBERS COULD NOT ATTEND. ",
}
ALPHABETS = {
    "Cyrillic": (0x430, 0x44F),
    "Cyrillic capitals": (0x410, 0x42F),
    "Greek": (0x3B1, 0x3C9),
    "Hebrew": (0x5D0, 0x5EA),
    "Armenian": (0x561, 0x586),
    "Georgian": (0x10D0, 0x10F0),
    "Arabic": (0x627, 0x64A),
    "Devanagari": (0x905, 0x94D),
    "Bengali": (0x985, 0x9CD),
    "Gurmukhi": (0xA05, 0xA4D),
    "Gujarati": (0xA85, 0xACD),
    "Odia": (0xB05, 0xB4D),
    "Tamil": (0xB85, 0xBCD),
    "Telugu": (0xC05, 0xC4D),
    "Kannada": (0xC85, 0xCCD),
    "Malayalam": (0xD05, 0xD4D),
    "Sinhala": (0xD85, 0xDCF),
    "Thai": (0xE01, 0xE4D),
    "Lao": (0xE81, 0xEC8),
    "Burmese": (0x1000, 0x103F),
    "Khmer": (0x1780, 0x17C5),
    "Ethiopic": (0x1200, 0x135A),
    "Hiragana": (0x3041, 0x3093),
    "Katakana": (0x30A1, 0x30F3),
}
"""Letters of scripts, from the first to the last."""
_SCRIPT_OF = {"Russian": "Cyrillic", "Hindi": "Devanagari", "Japanese": "Hiragana"}
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_WORDS = [
    *("account", "error", "value", "path", "handler", "request", "user", "total", "index", "cache", "node"),
    *("field", "queue", "limit", "order", "key"),
]
_CHANCE = random.Random(1)
_pick, _number = _CHANCE.choice, _CHANCE.randint


def _some(letters: str, count: int) -> str:
    return "".join(_CHANCE.choices(letters, k=count))


def _word(letters: str) -> str:
    return _some(letters, _number(2, 9))


def _times(count: int, line: Callable[[], str], between: str = "\n") -> str:
    return between.join(line() for _ in range(count))


def _id() -> str:
    return str(uuid.UUID(bytes=_CHANCE.randbytes(16), version=4))


TEXTS = {name: sentence * 15 for name, sentence in SENTENCES.items()} | {
    "short Italian": "La riunione è stata rinviata perché diversi membri non potevano partecipare.",
    "Italian question": "Mi chiamo Giulia e vorrei sapere dove si trova la stazione.",
    "Italian dish": "Gli spaghetti alle vongole sono un piatto tipico della cucina napoletana.",
    "mixed scripts": "".join(SENTENCES[name] for name in ("Czech", "Russian", "Chinese", "Arabic", "Thai")) * 5,
    "emoji": _some("😀🎉🚀🔥💡✅❌🧠", 400),
    "emoji, joined": "👨‍👩‍👧‍👦🏳️‍🌈👩🏽‍💻" * 50,
    "emoji in words": _times(150, lambda: _pick(_WORDS) + _pick("😀🎉🚀🔥💡✅❌🧠"), " "),
    "base64": base64.b64encode(_CHANCE.randbytes(3_000)).decode(),
    "base64 in lines": base64.encodebytes(_CHANCE.randbytes(3_000)).decode(),
    "base32": base64.b32encode(_CHANCE.randbytes(2_000)).decode(),
    "base85": base64.b85encode(_CHANCE.randbytes(2_000)).decode(),
    "letters": _some(_LOWER + _LOWER.upper(), 3_000),
    "small letters": _some(_LOWER, 3_000),
    "capital letters": _some(_LOWER.upper(), 3_000),
    "genome": _some("ACGT", 3_000),
    "words of letters": _times(300, lambda: _some(_LOWER, 8), " "),
    "letters and signs": _some("".join(map(chr, range(33, 127))), 3_000),
    "signs": _some("!@#$%^&*()_+-=[]{}|;:',.<>?/~`", 3_000),
    "control characters": _some("".join(map(chr, range(32))), 3_000),
    "digits": _some("0123456789", 3_000),
    "hex": _CHANCE.randbytes(3_000).hex(),
    "hex, in bytes": _CHANCE.randbytes(1_000).hex(" "),
    "percent encoding": "".join(f"%{byte:02X}" for byte in _CHANCE.randbytes(700)),
    "UUIDs": _times(100, _id),
    "addresses": _times(150, lambda: ".".join(str(_number(0, 255)) for _ in range(4))),
    "times": _times(
        100, lambda: f"2024-0{_number(1, 9)}-1{_number(0, 9)}T0{_number(0, 9)}:{_number(10, 59)}:03.{_number(0, 99)}Z"
    ),
    "CSV": _times(200, lambda: f"{_number(0, 200)},{_number(0, 999)},{_pick(_WORDS)},2024-01-1{_number(0, 9)}"),
    "CSV of digits": _times(150, lambda: ",".join(str(_number(0, 9)) for _ in range(12))),
    "CSV of numbers": _times(100, lambda: ",".join(f"{_CHANCE.random() * 100:.3f}" for _ in range(8))),
    "table": "| name | value | note |\n| --- | --- | --- |\n" + "| item 12 | 47 | ok |\n" * 60,
    "columns": _times(80, lambda: f"{_pick(_WORDS):<20}{_pick(_WORDS):<20}{_number(1, 999):>12}"),
    "boxes": "┌──────┬──────┐\n│ name │ size │\n├──────┼──────┤\n" + "│ a    │ 12   │\n" * 60,
    "dense JSON": json.dumps(
        [{"a": _number(0, 9), "b": [], "c": {}, "d": None} for _ in range(99)], separators=(",", ":")
    ),
    "dense JSON of numbers": json.dumps([[_number(0, 99) for _ in range(6)] for _ in range(99)], separators=(",", ":")),
    "dense JSON of words": json.dumps([{_pick(_WORDS): _pick(_WORDS)} for _ in range(99)], separators=(",", ":")),
    "JSON in JSON": json.dumps({"x": json.dumps({"y": json.dumps([{"a": n, "b": 'c"d\n'} for n in range(60)])})}),
    "indented JSON": json.dumps([{"id": _number(1, 10**6), "tags": [_pick(_WORDS)]} for _ in range(60)], indent=2),
    "ANSI": _times(150, lambda: f"\x1b[{_pick((31, 32, 36, 90))}m{_pick(_WORDS)}\x1b[0m {_pick(_WORDS)}"),
    "ANSI, dense": _times(200, lambda: f"\x1b[1;38;5;{_number(0, 255)}m{_pick('abc.#')}\x1b[0m", ""),
    "log": _times(
        60,
        lambda: f"2024-01-15 10:{_number(10, 59)}:03,{_number(100, 999)} INFO [worker-{_number(1, 9)}] {_pick(_WORDS)}",
    ),
    "web log": _times(
        50,
        lambda: (
            f"10.0.{_number(1, 255)}.7 - - [10/Oct/2024:13:55:36 +0000] "
            f'"GET /api/{_pick(_WORDS)}/{_number(1, 999)} HTTP/1.1" 200'
        ),
    ),
    "URLs": _times(
        60, lambda: f"https://www.example.org/{_pick(_WORDS)}/{_pick(_WORDS)}?id={_number(1, 10**6)}&by={_pick(_WORDS)}"
    ),
    "paths": _times(60, lambda: "/".join(f"{_pick(_WORDS)}_{_pick(_WORDS)}" for _ in range(5)) + ".py"),
    "minified code": _times(
        60,
        lambda: (
            f"function {_pick(_LOWER)}({_pick(_LOWER)},e){{for(var i=0;i<{_pick(_LOWER)}.length;i++)"
            f"t[i]?{_number(0, 9)}:!{_pick(_LOWER)}}}"
        ),
        "",
    ),
    "source code": _times(
        40,
        lambda: (
            f"    def {_pick(_WORDS)}(self, {_pick(_WORDS)}: int) -> None:\n"
            f"        if self.{_pick(_WORDS)} is None:\n            return"
        ),
    ),
    "tabbed code": _times(
        40, lambda: f"\tfor (size_t i = 0; i < n; i++)\n\t\tp->{_pick(_WORDS)}[i] ^= 0x{_number(16, 255):02x};"
    ),
    "names in camel case": _times(200, lambda: _pick(_WORDS) + _pick(_WORDS).title() + _pick(_WORDS).title(), " "),
    "markup": _times(60, lambda: f'<div class="{_pick(_WORDS)}"><a href="/{_pick(_WORDS)}">{_pick(_WORDS)}</a></div>'),
    "formulas": r"\frac{\partial f}{\partial x_{i}} &= \sum_{j=1}^{n} \alpha_{ij} \cdot \mathbf{x}_{j}^{2} \\ " * 20,
    "diff": _times(
        40, lambda: f"@@ -{_number(1, 999)},7 +{_number(1, 999)},7 @@\n-    {_pick(_WORDS)}\n+    {_pick(_WORDS)}"
    ),
    "rules": _times(30, lambda: "-" * 72 + f" {_pick(_WORDS)} " + "=" * 20),
    "blank lines": _times(60, lambda: _pick(_WORDS) + "\n" * 5),
    "tabs": "\t" * 500,
    "deeply tabbed code": _times(100, lambda: "\t" * _number(1, 6) + "if x {"),
    "columns by tabs": _times(60, lambda: "\t".join(_pick(_WORDS) for _ in range(8))),
    "random Chinese": "".join(chr(_number(0x4E00, 0x9FFF)) for _ in range(2_000)),
    "random Korean": "".join(chr(_number(0xAC00, 0xD7A3)) for _ in range(2_000)),
}
for _name, (_first, _last) in ALPHABETS.items():
    _letters = "".join(letter for letter in map(chr, range(_first, _last + 1)) if unicodedata.name(letter, ""))
    TEXTS[f"random {_name}"] = _some(_letters, 2_000)
    TEXTS[f"words of random {_name}"] = _times(300, functools.partial(_word, _letters), " ")
for _name in ("Russian", "Greek", "Arabic", "Hindi", "Thai", "Georgian", "Japanese"):  # half of it is no language
    _random = TEXTS[f"random {_SCRIPT_OF.get(_name, _name)}"]
    TEXTS[f"{_name} and letters"] = "".join(SENTENCES[_name] + _random[at : at + 60] for at in range(0, 900, 60))
"""Texts by name; the same in every process."""
