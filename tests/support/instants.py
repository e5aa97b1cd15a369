"""Instants: microseconds since 1970, UTC, and the two ways to write them that tests need."""
from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse(text):
    """An ISO 8601 date or date-time as the tests write them; without an offset it is UTC."""
    if len(text) == 10:
        text += "T00:00:00Z"
    if text[-1] in "zZ":
        text = text[:-1] + "+00:00"
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - EPOCH) // timedelta(microseconds=1)


def write(us):
    """As an answer has it: RFC 3339, Z, a fraction only where there is one, without trailing zeros."""
    moment = EPOCH + timedelta(microseconds=us)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    if us % 1_000_000:
        text += ("." + "%06d" % (us % 1_000_000)).rstrip("0")
    return text + "Z"


def write_with_offset(us, minutes):
    """The same instant with another offset."""
    moment = (EPOCH + timedelta(microseconds=us)).astimezone(timezone(timedelta(minutes=minutes)))
    return moment.isoformat()
