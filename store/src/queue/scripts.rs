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

/// Ends tokens and adds their successors, of those that the consumer still holds: group, consumer, and for each its
/// token, thread, the successor's delay in milliseconds (0 at once, -1 none) and where the thread's log ends (-1 if that
/// is not known). Returns for each 1, or 0 if it does not hold it.
///
/// It asks who holds a token first, because XACK ends anybody's. The successor is written before the token is
/// ended: should Redis refuse, the token is still held.
pub(super) static FINISH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local ended = {}
        for i = 3, #ARGV, 4 do
            local token, thread, delay, head = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
            local held = redis.pcall('XPENDING', KEYS[1], ARGV[1], token, token, 1, ARGV[2])
            if held.err and not string.find(held.err, 'NOGROUP', 1, true) then return held end
            if held.err or #held == 0 then
                ended[#ended + 1] = 0
            else
                if delay == 0 and head == '-1' then
                    redis.call('XADD', KEYS[1], '*', 'thread', thread)
                elseif delay == 0 then
                    redis.call('XADD', KEYS[1], '*', 'thread', thread, 'head', head)
                elseif delay > 0 then
                    local clock = redis.call('TIME')
                    local due = clock[1] * 1000 + math.ceil(clock[2] / 1000) + delay
                    redis.call('ZADD', KEYS[2], 'LT', due, thread)
                end
                redis.call('XACK', KEYS[1], ARGV[1], token)
                redis.call('XDEL', KEYS[1], token)
                ended[#ended + 1] = 1
            end
        end
        return ended
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
