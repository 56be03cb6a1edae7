# ruff: noqa: RUF001 - the scripts of the world have letters that look alike
"""The estimate of tokens, next to a tokenizer, for many scripts and kinds of text."""

from __future__ import annotations

import base64
import random

import pytest

from concertino.token_engine import EstimatingCounter, TiktokenCounter

CHANCE = random.Random(1)
TEXTS = {
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
    "emoji": "".join(CHANCE.choice("😀🎉🚀🔥💡✅❌🧠") for _ in range(400)),
    "base64": base64.b64encode(CHANCE.randbytes(3_000)).decode(),
    "letters": "".join(CHANCE.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(3_000)),
    "digits": "".join(CHANCE.choice("0123456789") for _ in range(3_000)),
    "hex": CHANCE.randbytes(3_000).hex(),
    "CSV": "\n".join(f"{n},{CHANCE.randint(0, 999)},name{n},2024-01-1{n % 10}" for n in range(200)),
    "table": "| name | value | note |\n| --- | --- | --- |\n" + "| item 12 | 47 | ok |\n" * 60,
    "boxes": "┌──────┬──────┐\n│ name │ size │\n├──────┼──────┤\n" + "│ a    │ 12   │\n" * 60,
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_estimate_is_near_for_every_script_and_kind(name: str) -> None:
    text = TEXTS[name] * (15 if len(TEXTS[name]) < 200 else 1)
    assert 0.9 <= EstimatingCounter().count(text) / TiktokenCounter().count(text) <= 1.7
