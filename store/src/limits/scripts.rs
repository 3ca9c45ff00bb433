//! What must happen in Redis in one piece: the scripts of the limits.
//!
//! The first key of each is the permit; then come, for each want, its places, its minute, the minute's tokens, its day,
//! its tenant's crowd, since when each of these waits, the tenants with a crowd and for whom tokens are kept, in this order.
//! Times are Redis' own.

use std::sync::LazyLock;

use redis::Script;

/// How many keys a want has.
pub(super) const KEYS: usize = 8;

/// Reserves all wants or none: the permit's name, who asks, and in milliseconds how long a place is kept, how long a minute
/// is, how long a permit can be settled, the pause for a place, for each of a crowd, the longest, and how late one of a crowd
/// may be, and for whom; then for each want how many requests at once, requests a minute, tokens a minute and money a day there are for all
/// (-1 without a limit), and how many tokens and how much money it takes.
///
/// Returns which want there was no room for (from 1; 0 if all is reserved), what of it (1 places, 2 requests, 3 tokens,
/// 4 money), when to come back in milliseconds, and the time in seconds.
///
/// A permit that is there already was given by the same wish, whose answer was lost; or nobody waits for it any more.
///
/// Where Redis' clock was set back, what was given by then counts as given now: no minute sees more for that, and none less
/// for longer than a minute.
pub(super) static RESERVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local clock = redis.call('TIME')
        local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
        local day = math.floor(clock[1] / 86400)
        local id, asker = ARGV[1], ARGV[2]
        local hold, minute, settle = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
        local place, each, longest, grace = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
        if redis.call('EXISTS', KEYS[1]) == 1 then return { 0, 0, 0, clock[1] } end

        local function of(want)
            local k, a = 2 + 8 * want, 10 + 6 * want
            return {
                held = KEYS[k], window = KEYS[k + 1], tokens = KEYS[k + 2], money = KEYS[k + 3], crowd = KEYS[k + 4],
                since = KEYS[k + 5], crowds = KEYS[k + 6], first = KEYS[k + 7],
                places = tonumber(ARGV[a]), requests = tonumber(ARGV[a + 1]), rate = tonumber(ARGV[a + 2]),
                budget = tonumber(ARGV[a + 3]), takes = tonumber(ARGV[a + 4]), costs = tonumber(ARGV[a + 5]),
            }
        end
        local function lasts(key, ms)
            if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
        end
        local function forget(it)
            local old = redis.call('ZRANGEBYSCORE', it.window, '-inf', now - minute)
            for _, gone in ipairs(old) do
                local took = redis.call('HGET', it.tokens, gone)
                if took then
                    redis.call('HINCRBY', it.tokens, 'sum', -took)
                    redis.call('HDEL', it.tokens, gone)
                end
            end
            redis.call('ZREMRANGEBYSCORE', it.window, '-inf', now - minute)
            for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', it.window, '(' .. now, '+inf')) do
                redis.call('ZADD', it.window, now, ahead)
            end
        end
        -- Somebody else for whom tokens are kept: since when they wait, when they are expected back, and how many these are.
        local function first(it)
            local who, since, back, takes = unpack(redis.call('HMGET', it.first, 'asker', 'since', 'back', 'takes'))
            if not who or who == asker or back + grace <= now then return nil, now, 0 end
            return tonumber(since), tonumber(back), tonumber(takes)
        end
        -- In how long so many tokens have left the minute; if it has not as many, when they are expected back for whom some are kept.
        local function leaves(it, over, back)
            local from = 0
            while true do
                local page = redis.call('ZRANGE', it.window, from, from + 99, 'WITHSCORES')
                if #page == 0 then return math.max(place, back - now) end
                for i = 1, #page, 2 do
                    over = over - (redis.call('HGET', it.tokens, page[i]) or 0)
                    if over <= 0 then return page[i + 1] + minute - now end
                end
                from = from + 100
            end
        end

        local count = (#KEYS - 1) / 8
        local late, at, what = -1, 0, 0
        local function refuse(want, measure, ms)
            if ms > late then late, at, what = ms, want + 1, measure end
        end
        for want = 0, count - 1 do
            local it = of(want)
            if it.places >= 0 then
                redis.call('ZREMRANGEBYSCORE', it.held, '-inf', now)
                if redis.call('ZCARD', it.held) >= it.places then refuse(want, 1, place) end
            end
            if it.requests >= 0 or it.rate >= 0 then forget(it) end
            if it.requests >= 0 then
                local over = redis.call('ZCARD', it.window) - it.requests
                if over >= 0 then
                    local first = redis.call('ZRANGE', it.window, over, over, 'WITHSCORES')
                    refuse(want, 2, first[2] and first[2] + minute - now or minute)
                end
            end
            if it.rate >= 0 then
                local _, back, kept = first(it)
                local over = (redis.call('HGET', it.tokens, 'sum') or 0) + kept + it.takes - it.rate
                if over > 0 then refuse(want, 3, leaves(it, over, back)) end
            end
            if it.budget >= 0 then
                local known = redis.call('HMGET', it.money, 'day', 'spent')
                local spent = tonumber(known[1]) == day and tonumber(known[2]) or 0
                if spent + it.costs > it.budget then refuse(want, 4, (day + 1) * 86400000 - now) end
            end
        end

        if at > 0 then
            local it = of(at - 1)
            for _, gone in ipairs(redis.call('ZRANGEBYSCORE', it.crowd, '-inf', now - grace)) do
                redis.call('HDEL', it.since, gone)
            end
            redis.call('ZREMRANGEBYSCORE', it.crowd, '-inf', now - grace)
            redis.call('ZREMRANGEBYSCORE', it.crowds, '-inf', now - grace)
            redis.call('ZREM', it.crowd, asker)
            redis.call('ZADD', it.crowds, 'GT', now, it.crowd)
            redis.call('HSETNX', it.since, asker, now)
            local since, before = tonumber(redis.call('HGET', it.since, asker)), first(it)
            if what == 3 and (not before or since < before) then
                redis.call('HSET', it.first, 'asker', asker, 'since', since, 'back', now + late, 'takes', it.takes)
                lasts(it.first, late + grace)
            else
                local all = redis.call('ZCARD', it.crowd) * redis.call('ZCARD', it.crowds)
                late = math.min(longest, math.max(late, each * all))
            end
            redis.call('ZADD', it.crowd, now + late, asker)
            redis.call('ZADD', it.crowds, 'GT', now + late, it.crowd)
            lasts(it.crowd, late + grace)
            lasts(it.since, late + grace)
            lasts(it.crowds, late + grace)
            return { at, what, math.ceil(late), clock[1] }
        end

        for want = 0, count - 1 do
            local it = of(want)
            if redis.call('HGET', it.first, 'asker') == asker then redis.call('DEL', it.first) end
            redis.call('HDEL', it.since, asker)
            redis.call('ZREM', it.crowd, asker)
            if redis.call('EXISTS', it.crowd) == 0 then redis.call('ZREM', it.crowds, it.crowd) end
            if it.places >= 0 then
                redis.call('ZADD', it.held, now + hold, id)
                lasts(it.held, hold)
            end
            if it.requests >= 0 or it.rate >= 0 then
                redis.call('ZADD', it.window, now, id)
                lasts(it.window, minute)
            end
            if it.rate >= 0 then
                redis.call('HSET', it.tokens, id, it.takes)
                redis.call('HINCRBY', it.tokens, 'sum', it.takes)
                lasts(it.tokens, minute)
            end
            if it.budget >= 0 then
                if tonumber(redis.call('HGET', it.money, 'day')) ~= day then
                    redis.call('HSET', it.money, 'day', day, 'spent', 0)
                end
                redis.call('HINCRBY', it.money, 'spent', it.costs)
                lasts(it.money, 172800000)
            end
        end
        redis.call('SET', KEYS[1], day, 'PX', hold + settle)
        return { 0, 0, 0, clock[1] }
        ",
    )
});

/// Keeps the places of a permit: its name, and in milliseconds how long a place is kept and a permit can be settled.
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local clock = redis.call('TIME')
        local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
        local hold = tonumber(ARGV[2])
        for k = 2, #KEYS, 8 do
            redis.call('ZADD', KEYS[k], 'XX', now + hold, ARGV[1])
            if redis.call('PTTL', KEYS[k]) < hold then redis.call('PEXPIRE', KEYS[k], hold) end
        end
        redis.call('PEXPIRE', KEYS[1], hold + ARGV[3])
        ",
    )
});

/// Settles a permit: its name, the tokens and the money that were taken (-1 where nobody told), how long in milliseconds it
/// cannot be given later (0 if somebody has it; else it counts for no request either), and for each want the money that was reserved (-1 without a limit).
///
/// **Invariant:** it is the permit's own key that makes it happen once: what is repeated, or comes after `FLUSHALL`, gives
/// nothing back.
pub(super) static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(SETTLING));

/// The text of [`SETTLE`].
pub(super) const SETTLING: &str = r"
        local day, gone = redis.call('GET', KEYS[1]), tonumber(ARGV[4])
        if gone > 0 then
            redis.call('SET', KEYS[1], '', 'PX', gone)
        elseif day then
            redis.call('DEL', KEYS[1])
        end
        if not day or day == '' then return end
        local id, tokens, money = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
        for want = 0, (#KEYS - 1) / 8 - 1 do
            local k, reserved = 2 + 8 * want, tonumber(ARGV[5 + want])
            redis.call('ZREM', KEYS[k], id)
            local took = redis.call('HGET', KEYS[k + 2], id)
            if tokens >= 0 and took then
                redis.call('HSET', KEYS[k + 2], id, tokens)
                redis.call('HINCRBY', KEYS[k + 2], 'sum', tokens - took)
            end
            if gone > 0 then
                redis.call('ZREM', KEYS[k + 1], id)
                redis.call('HDEL', KEYS[k + 2], id)
            end
            if money >= 0 and reserved >= 0 and redis.call('HGET', KEYS[k + 3], 'day') == day then
                redis.call('HINCRBY', KEYS[k + 3], 'spent', money - reserved)
            end
        end
        ";
