"""Names as the language compares them, straight from the Unicode definitions."""
import hashlib
import unicodedata

# Default_Ignorable_Code_Point (DerivedCoreProperties.txt), as closed ranges.
DEFAULT_IGNORABLE = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
# White_Space (PropList.txt): what trimming a name takes off.
WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def is_ignorable(character):
    return any(low <= ord(character) <= high for low, high in DEFAULT_IGNORABLE)


def drop_ignorables(text):
    return "".join(character for character in text if not is_ignorable(character))


def nfkc_casefold(text):
    """toNFKC_Casefold: each character through NFKC_CF (case folding and NFKC until nothing changes, ignorables dropped), then NFC."""
    mapped = []
    for character in text:
        now = drop_ignorables(character)
        while True:
            following = drop_ignorables(unicodedata.normalize("NFKC", now.casefold()))
            if following == now:
                break
            now = following
        mapped.append(now)
    return unicodedata.normalize("NFC", "".join(mapped))


def normalise_name(name):
    return unicodedata.normalize("NFC", name.strip(WHITE_SPACE))


def entity_id(name):
    return "ent_" + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def tag_id(name):
    return "tag_" + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
