"""Quotas of provider keys that processes share: what each may use of one within a slice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from math import inf

from ...quotas import SLICE, Bucket, QuotaDemand, QuotaGrant
from ...records import record
from ...scope import Operator
from .schedule import check_operator
from .session import Session

TURN = 2 * SLICE
"""Seconds for which the others keep what a process waits for, after it has asked last."""

SET_BACK = 60.0
"""Seconds by which the last exchange is in the future if the clock was set back: no transaction takes so long."""


@record(kw_only=True)
class Quota:
    """A quota, as it was at the last exchange."""

    requests: float = 0.0
    tokens: float = 0.0
    """What was available; negative for a debt."""
    refilled: float = 0.0
    pauses: Mapping[str, float]
    """The end of each pause, by model; "" for the whole key."""


@record(kw_only=True)
class Share:
    """A process's part in a quota."""

    owner: str
    seen: float
    """When it asked last."""
    served: float = 0.0
    """Minutes' quotas that it was granted, divided by its weight: those with the least are served first."""
    requests: int = 0
    tokens: int = 0
    """What its waiting requests still need."""
    tenants: tuple[str, ...] = ()
    """Hashes of the names of the tenants that wait."""


def draw_quota(connection: Session, scope: Operator, demand: QuotaDemand) -> QuotaGrant:
    """Make one exchange; in a transaction."""
    check_operator(scope)
    sql, key = connection.queries, {"key": demand.key}
    ((requests, tokens, refilled, pauses),) = connection.execute(sql["open_quota"], key).fetchall()
    quota = Quota(requests=requests, tokens=tokens, refilled=refilled, pauses=json.loads(pauses))
    shares = [
        Share(
            owner=row["owner"],
            seen=row["seen"],
            served=row["served"],
            requests=row["requests"],
            tokens=row["tokens"],
            tenants=tuple(json.loads(row["tenants"])),
        )
        for row in connection.execute(sql["quota_shares"], key).fetchall()
    ]
    # The lock may have taken longer than the exchanges before it: time never runs backwards here, unless the clock was
    # set back. Then the quota begins anew, since nothing would be refilled until it has caught up.
    clock = connection.now()
    now = max([clock, quota.refilled, *[share.seen for share in shares]])
    if now - clock > SET_BACK:
        pauses = {model: until - quota.refilled + clock for model, until in quota.pauses.items()}
        quota = Quota(requests=min(requests, 0.0), tokens=min(tokens, 0.0), refilled=clock, pauses=pauses)
        now, shares = clock, []
        connection.execute(sql["delete_quota_shares"], {**key, "before": inf})
    grant, quota, own = exchange(quota, shares, demand, now)
    if any(share.seen <= now - TURN for share in shares):
        connection.execute(sql["delete_quota_shares"], {**key, "before": now - TURN})
    written = {**key, "requests": quota.requests, "tokens": quota.tokens, "refilled": quota.refilled}
    connection.execute(sql["write_quota"], {**written, "pauses": json.dumps(quota.pauses)})
    connection.execute(
        sql["write_quota_share"],
        {
            **key,
            "owner": own.owner,
            "seen": own.seen,
            "served": own.served,
            "requests": own.requests,
            "tokens": own.tokens,
            "tenants": json.dumps(own.tenants),
        },
    )
    return grant


def exchange(quota: Quota, shares: Sequence[Share], demand: QuotaDemand, now: float) -> tuple[QuotaGrant, Quota, Share]:
    """Return what *demand* is granted, and the quota and the asker's share from then on.

    This is start-time fair queueing (Goyal et al., 1996) between processes: one leaves in the bucket what those before
    it wait for, so a large request gets its turn, too.
    """
    bucket = Bucket(demand.rates, (quota.requests, quota.tokens))
    bucket.refill(now - max(quota.refilled, min(now, quota.pauses.get("", 0.0))))  # nothing during a pause
    own = next((share for share in shares if share.owner == demand.owner and now - share.seen < TURN), None)
    if own is not None and now - own.seen < SLICE:
        bucket.add(*demand.unused)
    bucket.add(0, demand.correction)
    pauses = {model: until for model, until in quota.pauses.items() if until > now}
    for model, seconds in demand.pauses.items():
        pauses[model] = max(pauses.get(model, 0.0), now + seconds)
    if demand.pauses.get("", 0.0) > 0:
        bucket.empty()  # no burst follows: the provider has refused the last one
    others = [share for share in shares if share.owner != demand.owner and share.requests and now - share.seen < TURN]
    others.sort(key=lambda share: share.served)
    tenants = tuple([blake2s(name.encode(), digest_size=6).hexdigest() for name in demand.tenants])
    elsewhere = Counter(tenant for share in others for tenant in share.tenants)
    weights = [1 / (1 + elsewhere[tenant]) for tenant in tenants]
    weight = sum(weights) or 1.0
    served = 0.0 if own is None else own.served
    if others and (own is None or not own.requests):  # it joins those who wait
        served = max(served, others[0].served)

    granted, tokens, kept, delay = 0, 0, (0.0, 0.0), 0.0
    sizes = () if "" in pauses else (*demand.waiting, *demand.expected)
    for index, size in enumerate(sizes):
        while others and (others[0].served < served or index >= len(demand.waiting)):
            first = others.pop(0)
            kept = (kept[0] + first.requests, kept[1] + first.tokens)
        if (delay := bucket.delay(size, kept)) > 0:
            break
        bucket.take(size)
        served += bucket.cost(size) / weight
        granted, tokens = granted + 1, tokens + size
    left = demand.waiting[granted:]
    return (
        QuotaGrant(
            requests=granted,
            tokens=tokens,
            wait=min(delay, SLICE / 2) if left else 0.0,
            pauses={model: until - now for model, until in pauses.items()},
            weights={name: each for name, each in zip(demand.tenants, weights, strict=True) if each < 1},
        ),
        Quota(requests=bucket.available[0], tokens=bucket.available[1], refilled=now, pauses=pauses),
        Share(
            owner=demand.owner,
            seen=now,
            served=served,
            requests=len(left),
            tokens=sum(left),
            tenants=tenants if left else (),
        ),
    )
