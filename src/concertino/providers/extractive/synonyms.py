"""A small thesaurus of everyday, computing and business English: what a question calls by another word."""

from __future__ import annotations

from .words import stem

_TABLE = """
abort cancel kill stop terminate shutdown halt
fast faster performance quick speed
accept allow permit
add append insert include attach
alter change edit modify update adjust mutate
amount sum quantity number count
annotation hint
apply enroll register signup application
argument parameter arg
array list sequence
dictionary dict mapping
string str
integer int
boolean bool
configuration config settings
database db
expression expr
regex regexp
message msg
asynchronous async
async asynchronous asynchronously asyncio
author wrote written writer propose invent
begin start launch spawn initiate
block freeze hang stall wait
bug defect error exception failure fault
build construct create make
buy purchase
cap limit maximum max threshold ceiling restrict
charge cost fee price
check verify validate confirm test
combine merge join concatenate union
command cli
compare comparison equality
concurrency concurrent concurrently parallel simultaneous simultaneously
condense compress zip
convert transform cast translate parse
copy clone duplicate
correct fix repair resolve
criteria requirement eligibility condition prerequisite
customer client user holder
default initial
delay sleep wait pause
delete remove erase drop discard unlink
deny decline refuse reject disallow
deposit fund
depart leave exit quit
disadvantage drawback caveat limitation downside
display print show output
disagreement dispute contest
encode serialize dump
decode deserialize load
expire lapse timeout
execute run invoke call
extend subclass inherit derive
fallback default
file document
folder directory dir
format layout
formatting format
function callable method
freeze immutable frozen readonly
guideline recommendation advice
immutable unchangeable
increase raise grow
install setup
interest apy apr rate
interval period duration
length size
location path place
lock mutex
log record
loop iterate iteration
lower reduce decrease minimize
match compare
minimum least min
mistake error
mock fake stub patch
money cash currency fund
motivation rationale reason
nest nested inner
number digit
open unlock
obsolete deprecated superseded replaced withdrawn
order sort
package distribution
past previous earlier prior
pick select choose
precise exact accuracy precision accurate
prevent avoid
procedure process step
proposal pep
punish penalty fee
random pseudo
read load
receive earn
recurring repeat periodic
requirement need necessary require must
reimburse refund
result outcome output
retain keep preserve
retry repeat
return yield
rotate rollover
save store persist write
search find lookup locate
send transmit transfer
separate split divide
share shared
shared common
silence suppress ignore mute
stolen lost theft
subprocess process
tag label
test testing unittest
thread threading
throw raise
transfer move send
unique distinct
unpack extract
user customer
value amount
variable name
warn warning
year annual yearly annually
month monthly
day daily
week weekly
abroad foreign international overseas
bonus promotion promo reward
"""

_GROUPS = [line for line in _TABLE.splitlines() if line]


def _table() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in _GROUPS:
        stems = list(dict.fromkeys(stem(word) for word in group.split()))
        for word in stems:
            found.setdefault(word, {}).update(dict.fromkeys(other for other in stems if other != word))
    return {word: tuple(others) for word, others in found.items()}


_BY_STEM = _table()


def synonyms(stemmed: str) -> tuple[str, ...]:
    """The stems of words that can stand for the word with this stem; often none."""
    return _BY_STEM.get(stemmed, ())


def plain_synonyms(word: str) -> tuple[str, ...]:
    """Whole words that can stand for *word*, for the wording of a second search."""
    wanted = stem(word)
    for group in _GROUPS:
        members = group.split()
        if any(stem(member) == wanted for member in members):
            return tuple(member for member in members if stem(member) != wanted)
    return ()
