# ruff: noqa: RUF001 - the scripts of the world have letters that look alike
"""Estimated tokens of the characters beyond ASCII, by script."""

from __future__ import annotations

# Letters that are common in the words of a script are nearly free, as in ASCII, and all others are nearly a token each:
# so words have few tokens, and letters at random have many. The letters were selected so that prose, lists of names,
# random letters and pieces of 60 to 300 characters of them have between 0.9 and 1.6 times the tokens of o200k_base.
_ACCENTED = 1.4
_PER_COMMON_LETTER = 0.1
_SCRIPTS: tuple[tuple[float, bytes, str], ...] = (
    (1.6, b"\x20", ""),  # punctuation
    (1.8, bytes(range(0x21, 0x28)), ""),  # symbols, lines of boxes
    (_ACCENTED, b"\x01\x02", "ə"),
    (1.0, bytes([*range(0x31, 0x34), *range(0x4E, 0xA0)]), ""),  # Chinese
    (1.6, b"\x30", "ーいントしドをクでアてッルさイにるシ"),  # Japanese
    (0.85, bytes(range(0xAC, 0xD8)), ""),  # Korean
    (1.2, b"\x04", "еотаснлиурывмьқәіОЕА"),
    (1.25, b"\x05", "יוהלארןעקכ" + "անոերիտվհ։ւպմև"),
    (1.3, b"\x06", "لاتمرنوعکيهشےقہسأح"),
    (1.3, b"\x1e", "ạầếộớựủểốừềậọẹị"),  # Vietnamese
    (1.6, b"\x03", "αεοιντσρκπίέήςΗά"),
    (1.6, b"\x09", "ा्रकिनतसेमवोपहलीैआंअ" + "াি্রেনকসতয়বছগলভষপ"),  # Devanagari, Bengali
    (1.6, b"\x0a", "ਾਕਤੇਰਿਦਹੰਟੋਆਸ਼ਲ੍" + "ારક્વનેતિોયંમગસપુખ"),  # Gurmukhi, Gujarati
    (1.6, b"\x0b", "ାୁୈ" + "்துகிமடவாலறனயளஅ"),  # Odia, Tamil
    (1.6, b"\x0c", "ి్నాువరకయంేీడశట" + "್ಿನುಾರದತಕಲಗೂಂಅಯಸ"),  # Telugu, Kannada
    (1.6, b"\x0d", "്കിതുാനമചരലടളസംീങയ" + "්යකිීනුැාේෙෝෑසොූං"),  # Malayalam, Sinhala
    (1.6, b"\x0e", "านรอกม่งั้ดทละเหิีต"),  # Thai
    (1.6, b"\x10", "်းုာေိအင့ံ၊။မျ၏" + "აიემსრდოლვთცფშკზ"),  # Burmese, Georgian
    (1.6, b"\x17", "ា្រកនសប់ំពើ។"),  # Khmer
    (1.1, bytes(range(0xD8, 0xE0)), ""),  # half an emoji
    (2.1, b"\x07\x0f\x12\xff", ""),  # Syriac, Tibetan, Ethiopic, wide letters
    (3.0, bytes(range(256)), ""),  # all others
)
"""Tokens of o200k_base per UTF-16 unit, by its high byte, and the letters that have fewer: those common in words."""
_PARTS_OF_SCRIPTS = (
    (b"\x02", 0.85, (b"\xc9", b"\xca", b"\xcb")),  # phonetic letters
    (b"\x03", 0.3, (b"\xcc", b"\xcd")),  # combining accents
    (b"\x0e", 1.1, (b"\xe0\xba", b"\xe0\xbb")),  # Lao
    (b"\xd8", 1.4, (b"\xf0",)),  # old scripts, rare Chinese and
    (b"\xd8", -1.4, (b"\xf0\x9f",)),  # not emoji
)
"""Scripts that share a high byte with another one: what they have more per character, and how their UTF-8 begins."""
_SAMPLE, _PER_DIFFERENT = 1_000, 1.25
"""Of the first characters of prose, at most 60 % and 30 are different; others are rare, and have more tokens."""


def foreign_tokens(text: str, encoded: bytes, plain: int) -> float:
    """Return the estimated tokens of the characters beyond ASCII; *plain* is the number of the others."""
    highs = text.encode("utf-16-be", "surrogatepass")[::2]
    left = highs.translate(None, b"\0")
    estimate = (len(highs) - len(left) - plain) * _ACCENTED
    for weight, bytes_, common in _SCRIPTS:
        if not left:
            break
        rest = left.translate(None, bytes_)
        if len(rest) < len(left):
            estimate += weight * (len(left) - len(rest))
            estimate -= (weight - _PER_COMMON_LETTER) * sum(map(text.count, common))
            left = rest
    for high, more, beginnings in _PARTS_OF_SCRIPTS:
        if high in highs:
            estimate += more * sum(map(encoded.count, beginnings))
    sample = text[:_SAMPLE]
    if len(set(sample)) > 0.6 * len(sample) + 30:
        estimate += _PER_DIFFERENT * (len(text) - plain)
    return estimate
