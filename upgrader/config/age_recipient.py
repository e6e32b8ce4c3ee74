"""age public keys in `upgrader.yaml`: a mistyped one is an error with its line, not a backup that no one can
decrypt.
"""

from __future__ import annotations

__all__ = ["check_recipient"]

_PREFIX = "age"
_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_CHARACTERS = 62
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def check_recipient(text: object) -> str:
    """The key itself; raises ValueError unless it is one, its checksum included (Bech32, BIP 173)."""
    if isinstance(text, str) and text.upper().startswith("AGE-SECRET-KEY-"):
        # Not quoted: it would be in logs, and whoever reads it can read every backup.
        raise ValueError(
            "backup.recipients: this is an age private key; write its public key (age1…) instead, and keep the private "
            "key out of this folder"
        )
    where = f"backup.recipients: {text!r} is not an age public key"
    if not isinstance(text, str) or not text.startswith(f"{_PREFIX}1") or len(text) != _CHARACTERS:
        raise ValueError(f"{where}; `upgrader backup keygen` prints one: age1 and 58 more characters")
    values = [_ALPHABET.find(character) for character in text[len(_PREFIX) + 1 :]]
    if -1 in values or _checksum(values) != 1:
        raise ValueError(f"{where}: the checksum is wrong, so the key is mistyped")
    return text


def _checksum(values: list[int]) -> int:
    prefix = [ord(c) >> 5 for c in _PREFIX] + [0] + [ord(c) & 31 for c in _PREFIX]
    total = 1
    for value in prefix + values:
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATOR):
            if top >> bit & 1:
                total ^= generator
    return total
