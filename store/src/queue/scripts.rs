//! What must happen in Redis in one piece: the scripts of the doorbell.
//!
//! Each is given the stream and the delayed rings as its keys, in this order. Times are Redis' own, so that the
//! clocks of workers do not matter.

use std::sync::LazyLock;

use redis::Script;

/// Rings later: thread, delay in milliseconds. A ring that is due earlier already stays.
///
/// The clock is rounded up here and down in [`DUE`], so that nothing is early.
pub(super) static LATER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local clock = redis.call('TIME')
        local due = clock[1] * 1000 + math.ceil(clock[2] / 1000) + ARGV[2]
        redis.call('ZADD', KEYS[2], 'LT', due, ARGV[1])
        ",
    )
});

/// Turns delayed rings that are due into tokens, in the order of their times: how many at most. Returns in how
/// many milliseconds to come again, or -1 if no ring is delayed.
///
/// The token is written before the ring is removed: should Redis refuse (it is full), the ring is still there.
pub(super) static DUE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local clock = redis.call('TIME')
        local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
        local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])
        for _, thread in ipairs(due) do
            redis.call('XADD', KEYS[1], '*', 'thread', thread)
            redis.call('ZREM', KEYS[2], thread)
        end
        local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
        if not first[2] then return -1 end
        return math.max(0, first[2] - now)
        ",
    )
});

/// Ends a token and adds its successor, if the consumer still holds it: group, consumer, token, thread, and the
/// successor's delay in milliseconds (0 at once, -1 none). Returns 1, or 0 if it does not hold it.
///
/// It asks who holds the token first, because XACK ends anybody's. The successor is written before the token is
/// ended: should Redis refuse, the token is still held.
pub(super) static FINISH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local held = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
        if held.err then
            if string.find(held.err, 'NOGROUP', 1, true) then return 0 end
            return held
        end
        if #held == 0 then return 0 end
        local delay = tonumber(ARGV[5])
        if delay == 0 then
            redis.call('XADD', KEYS[1], '*', 'thread', ARGV[4])
        elseif delay > 0 then
            local clock = redis.call('TIME')
            local due = clock[1] * 1000 + math.ceil(clock[2] / 1000) + delay
            redis.call('ZADD', KEYS[2], 'LT', due, ARGV[4])
        end
        redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
        redis.call('XDEL', KEYS[1], ARGV[3])
        return 1
        ",
    )
});

/// Renews the leases that the consumer still holds: group, consumer, tokens. Returns the tokens that it does not
/// hold.
///
/// It asks who holds a token first, because XCLAIM takes anybody's. `JUSTID` leaves the count of deliveries as
/// it is.
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local lost = {}
        for i = 3, #ARGV do
            local held = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
            if held.err and not string.find(held.err, 'NOGROUP', 1, true) then return held end
            if held.err or #held == 0
                or #redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID') == 0 then
                lost[#lost + 1] = ARGV[i]
            end
        end
        return lost
        ",
    )
});

/// How many tokens there are, how many of them are held, and how many rings are delayed: group.
pub(super) static DEPTH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local held = redis.pcall('XPENDING', KEYS[1], ARGV[1])
        if held.err and not string.find(held.err, 'NOGROUP', 1, true) then return held end
        return { redis.call('XLEN', KEYS[1]), held.err and 0 or held[1], redis.call('ZCARD', KEYS[2]) }
        ",
    )
});

/// Forgets consumers that hold nothing and have not been seen for long: group, for how many milliseconds.
/// Returns how many it forgot.
///
/// **Invariant:** a consumer that holds a token is never deleted, because its tokens would go with it.
pub(super) static FORGET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local forgotten = 0
        for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
            local consumer = {}
            for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
            if consumer.pending == 0 and consumer.idle > tonumber(ARGV[2]) then
                redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
                forgotten = forgotten + 1
            end
        end
        return forgotten
        ",
    )
});
