"""What a file is that was to be text and is not, told by its first bytes."""

from panprivacy.events.batch import BadInput

PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"  # what each of its messages begins with

NOT_UTF8 = "not UTF-8; convert it, for example with iconv -f latin1 -t utf-8"

_UTF16 = "UTF-16, not UTF-8; convert it, for example with iconv -f utf-16 -t utf-8"
_KNOWN = {
    b"\xff\xfe": _UTF16,
    b"\xfe\xff": _UTF16,
    PARQUET: "a Parquet file; say --format parquet",
    ARROW_FILE: "an Arrow file; say --format arrow",
    ARROW_STREAM: "an Arrow stream; say --format arrow",
    b"BZh": "compressed with bzip2; unpack it, or use gzip or zstd",
    b"\xfd7zXZ\0": "compressed with xz; unpack it, or use gzip or zstd",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as CSV",
}


def refuse_known(file: str, first: bytes) -> None:
    """Refuse what begins like a file that is not text in UTF-8.

    >>> refuse_known("visits.csv", b"BZh91AY&SY")
    Traceback (most recent call last):
        ...
    panprivacy.events.batch.BadInput: visits.csv: this is compressed with bzip2; unpack it, or use gzip or zstd
    """
    for magic, what in _KNOWN.items():
        if first.startswith(magic):
            raise BadInput(file, f"this is {what}")


def is_utf8(row: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True
