//! The Lua scripts of the rate limits. Each runs atomically in Redis.
//!
//! The first key of each script is the permit's; then follow, for each demand, the keys `in_use`, `minute`, `tokens`, `day`, `part`,
//! `waiting`, `since`, `tenants`, `first` and `refusing`. Times are Redis' own.

use std::sync::LazyLock;

use redis::Script;

use super::availability_scripts::with_constants;

pub(super) const KEYS_PER_DEMAND: usize = 10;

/// Reserves all demands or none.
///
/// Arguments: permit id, requester; then in milliseconds the lifetime of a permit, the length of a minute, the grace for
/// settling, the pause after the concurrency limit, the pause per waiting request, the longest pause, and the grace for a waiting
/// request; then for each demand the limits of concurrency, requests per minute, tokens per minute, money per day without the
/// parts of tenants, and the tenant's part of it (-1 for none), and the estimated tokens and money.
///
/// Returns the number of the demand that was rejected (from 1; 0 if everything is reserved), the limit that was reached (1
/// concurrency, 2 requests, 3 tokens, 4 money; 5 if the subject refuses requests), the pause in milliseconds, and the time in seconds;
/// for 5 also the time of the first refusal without an answer since, in milliseconds (-1 for none), and the last error.
///
/// If the permit's key exists, the same request was granted before and its answer was lost, or it was abandoned.
///
/// If Redis' clock is set back, permits with a later time count as granted now. No minute then exceeds a limit, and no capacity
/// is lost for longer than a minute.
pub(super) static RESERVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&with_constants(
        r"
        local clock = redis.call('TIME')
        local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
        local day = math.floor(clock[1] / 86400)
        local id, requester = ARGV[1], ARGV[2]
        local permit_ttl, minute, settle_grace = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
        local concurrency_pause, crowd_pause, max_pause, crowd_grace = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
        if redis.call('EXISTS', KEYS[1]) == 1 then return { 0, 0, 0, clock[1], -1, '' } end

        local function extend_ttl(key, ms)
            if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, math.ceil(ms)) end
        end
        local function demand(nth)
            local k, a = 2 + 10 * nth, 10 + 7 * nth
            return {
                in_use = KEYS[k], minute = KEYS[k + 1], tokens = KEYS[k + 2], day = KEYS[k + 3], part = KEYS[k + 4],
                waiting = KEYS[k + 5], since = KEYS[k + 6], tenants = KEYS[k + 7], first = KEYS[k + 8], refusing = KEYS[k + 9],
                max_concurrency = tonumber(ARGV[a]), max_requests = tonumber(ARGV[a + 1]), max_tokens = tonumber(ARGV[a + 2]),
                max_money = tonumber(ARGV[a + 3]), own_money = tonumber(ARGV[a + 4]),
                token_estimate = tonumber(ARGV[a + 5]), money_estimate = tonumber(ARGV[a + 6]),
            }
        end
        local function spent_today(key)
            local known = redis.call('HMGET', key, 'day', 'spent')
            return tonumber(known[1]) == day and tonumber(known[2]) or 0
        end
        local function spend(key, amount)
            redis.call('HSET', key, 'day', day, 'spent', spent_today(key) + amount)
            extend_ttl(key, 172800000)
        end
        -- The part of the estimated money that the tenant's own part does not cover.
        local function beyond_part(it)
            if it.own_money < 0 then return it.money_estimate end
            local before = spent_today(it.part)
            return math.max(0, before + it.money_estimate - it.own_money) - math.max(0, before - it.own_money)
        end
        local function expire(it)
            local old = redis.call('ZRANGEBYSCORE', it.minute, '-inf', now - minute)
            for _, permit in ipairs(old) do
                local counted = redis.call('HGET', it.tokens, permit)
                if counted then
                    redis.call('HINCRBY', it.tokens, 'sum', -counted)
                    redis.call('HDEL', it.tokens, permit)
                end
            end
            redis.call('ZREMRANGEBYSCORE', it.minute, '-inf', now - minute)
            for _, permit in ipairs(redis.call('ZRANGEBYSCORE', it.minute, '(' .. now, '+inf')) do
                redis.call('ZADD', it.minute, now, permit)
            end
        end
        -- Another request for which tokens are kept: the start of its wait, its next try, and the tokens.
        local function other_first(it)
            local who, since, next_try, tokens = unpack(redis.call('HMGET', it.first, 'requester', 'since', 'next_try', 'tokens'))
            if not who or who == requester or next_try + crowd_grace <= now then return nil, now, 0 end
            return tonumber(since), tonumber(next_try), tonumber(tokens)
        end
        -- Milliseconds until this many tokens expire; if the minute has fewer, until the next try of the first in line.
        local function expires_in(it, over, next_try)
            local from = 0
            while true do
                local page = redis.call('ZRANGE', it.minute, from, from + 99, 'WITHSCORES')
                if #page == 0 then return math.max(concurrency_pause, next_try - now) end
                for i = 1, #page, 2 do
                    over = over - (redis.call('HGET', it.tokens, page[i]) or 0)
                    if over <= 0 then return page[i + 1] + minute - now end
                end
                from = from + 100
            end
        end

        -- Milliseconds between two requests to a subject that refuses some.
        local function spacing(it)
            local rate, refusals, pause = unpack(redis.call('HMGET', it.refusing, 'rate', 'refusals', 'pause'))
            return math.max(1000 / rate, tonumber(refusals) < 2 and 0 or tonumber(pause))
        end

        local count = (#KEYS - 1) / 10
        local pause, rejected, reached = -1, 0, 0
        local function reject(nth, measure, ms)
            if ms > pause then pause, rejected, reached = ms, nth + 1, measure end
        end
        for nth = 0, count - 1 do
            local it = demand(nth)
            if it.max_concurrency >= 0 then
                redis.call('ZREMRANGEBYSCORE', it.in_use, '-inf', now)
                if redis.call('ZCARD', it.in_use) >= it.max_concurrency then reject(nth, 1, concurrency_pause) end
            end
            if it.max_requests >= 0 or it.max_tokens >= 0 then expire(it) end
            if it.max_requests >= 0 then
                local over = redis.call('ZCARD', it.minute) - it.max_requests
                if over >= 0 then
                    local first = redis.call('ZRANGE', it.minute, over, over, 'WITHSCORES')
                    reject(nth, 2, first[2] and first[2] + minute - now or minute)
                end
            end
            if it.max_tokens >= 0 then
                local _, next_try, kept = other_first(it)
                local over = (redis.call('HGET', it.tokens, 'sum') or 0) + kept + it.token_estimate - it.max_tokens
                if over > 0 then reject(nth, 3, expires_in(it, over, next_try)) end
            end
            if it.max_money >= 0 then
                if spent_today(it.day) + beyond_part(it) > it.max_money then reject(nth, 4, (day + 1) * 86400000 - now) end
            end
            local known = redis.call('HMGET', it.refusing, 'paused_until', 'next_at')
            if known[1] then
                local ms = math.max(known[1], known[2]) - now
                if ms > 0 then reject(nth, 5, ms) end
            end
        end

        if rejected > 0 then
            -- Tokens are not kept for a request that waits for something else.
            for nth = 0, count - 1 do
                local first = demand(nth).first
                if nth ~= rejected - 1 and redis.call('HGET', first, 'requester') == requester then redis.call('DEL', first) end
            end
            local it = demand(rejected - 1)
            for _, request in ipairs(redis.call('ZRANGEBYSCORE', it.waiting, '-inf', now - crowd_grace)) do
                redis.call('HDEL', it.since, request)
            end
            redis.call('ZREMRANGEBYSCORE', it.waiting, '-inf', now - crowd_grace)
            redis.call('ZREMRANGEBYSCORE', it.tenants, '-inf', now - crowd_grace)
            redis.call('ZREM', it.waiting, requester)
            redis.call('ZADD', it.tenants, 'GT', now, it.waiting)
            redis.call('HSETNX', it.since, requester, now)
            local since, before = tonumber(redis.call('HGET', it.since, requester)), other_first(it)
            if reached == 3 and (not before or since < before) then
                redis.call('HSET', it.first, 'requester', requester, 'since', since, 'next_try', now + pause,
                    'tokens', it.token_estimate)
                extend_ttl(it.first, pause + crowd_grace)
            else
                local crowd = redis.call('ZCARD', it.waiting) * redis.call('ZCARD', it.tenants)
                if reached == 5 then crowd_pause = math.max(crowd_pause, CROWD_PART * spacing(it)) end
                pause = math.min(max_pause, math.max(pause, crowd_pause * crowd))
            end
            redis.call('ZADD', it.waiting, now + pause, requester)
            redis.call('ZADD', it.tenants, 'GT', now + pause, it.waiting)
            extend_ttl(it.waiting, pause + crowd_grace)
            extend_ttl(it.since, pause + crowd_grace)
            extend_ttl(it.tenants, pause + crowd_grace)
            local first_refusal, last_error = unpack(redis.call('HMGET', it.refusing, 'since', 'error'))
            return { rejected, reached, math.ceil(pause), clock[1], first_refusal or -1, last_error or '' }
        end

        for nth = 0, count - 1 do
            local it = demand(nth)
            if redis.call('HGET', it.first, 'requester') == requester then redis.call('DEL', it.first) end
            if redis.call('EXISTS', it.refusing) == 1 then
                local every = spacing(it)
                local next_at = math.max(redis.call('HGET', it.refusing, 'next_at'), now - SLACK * every) + every
                redis.call('HSET', it.refusing, 'next_at', next_at)
            end
            redis.call('HDEL', it.since, requester)
            redis.call('ZREM', it.waiting, requester)
            if redis.call('EXISTS', it.waiting) == 0 then redis.call('ZREM', it.tenants, it.waiting) end
            if it.max_concurrency >= 0 then
                redis.call('ZADD', it.in_use, now + permit_ttl, id)
                extend_ttl(it.in_use, permit_ttl)
            end
            if it.max_requests >= 0 or it.max_tokens >= 0 then
                redis.call('ZADD', it.minute, now, id)
                extend_ttl(it.minute, minute)
            end
            if it.max_tokens >= 0 then
                redis.call('HSET', it.tokens, id, it.token_estimate)
                redis.call('HINCRBY', it.tokens, 'sum', it.token_estimate)
                extend_ttl(it.tokens, minute)
            end
            if it.max_money >= 0 then
                spend(it.day, beyond_part(it))
                if it.own_money >= 0 then spend(it.part, it.money_estimate) end
            end
        end
        redis.call('SET', KEYS[1], day, 'PX', permit_ttl + settle_grace)
        return { 0, 0, 0, clock[1], -1, '' }
        ",
    ))
});

/// Renews a permit. Arguments: permit id, and in milliseconds the lifetime of a permit and the grace for settling.
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local clock = redis.call('TIME')
        local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
        local permit_ttl = tonumber(ARGV[2])
        for k = 2, #KEYS, 10 do
            redis.call('ZADD', KEYS[k], 'XX', now + permit_ttl, ARGV[1])
            if redis.call('PTTL', KEYS[k]) < permit_ttl then redis.call('PEXPIRE', KEYS[k], permit_ttl) end
        end
        redis.call('PEXPIRE', KEYS[1], permit_ttl + ARGV[3])
        ",
    )
});

/// Settles a permit. Arguments: permit id, tokens and money used (-1 if unknown), the milliseconds during which the permit cannot
/// be granted later (0 for a permit in use; otherwise the request is not counted either), and for each demand the money reserved
/// and the tenant's part of the money (-1 without a limit or a part).
///
/// **Invariant:** the permit's key makes this happen once. A repeated call, or one after `FLUSHALL`, returns nothing.
pub(super) static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new(SETTLE_SOURCE));

/// Source of [`SETTLE`].
pub(super) const SETTLE_SOURCE: &str = r"
        local day, block_for = redis.call('GET', KEYS[1]), tonumber(ARGV[4])
        if block_for > 0 then
            redis.call('SET', KEYS[1], '', 'PX', block_for)
        elseif day then
            redis.call('DEL', KEYS[1])
        end
        if not day or day == '' then return end
        local id, tokens, money = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
        for nth = 0, (#KEYS - 1) / 10 - 1 do
            local k, reserved, own = 2 + 10 * nth, tonumber(ARGV[5 + 2 * nth]), tonumber(ARGV[6 + 2 * nth])
            redis.call('ZREM', KEYS[k], id)
            local counted = redis.call('HGET', KEYS[k + 2], id)
            if tokens >= 0 and counted then
                redis.call('HSET', KEYS[k + 2], id, tokens)
                redis.call('HINCRBY', KEYS[k + 2], 'sum', tokens - counted)
            end
            if block_for > 0 then
                redis.call('ZREM', KEYS[k + 1], id)
                redis.call('HDEL', KEYS[k + 2], id)
            end
            if money >= 0 and reserved >= 0 and redis.call('HGET', KEYS[k + 3], 'day') == day then
                local change, part = money - reserved, KEYS[k + 4]
                if own >= 0 and redis.call('HGET', part, 'day') == day then
                    local before = tonumber(redis.call('HGET', part, 'spent'))
                    redis.call('HINCRBY', part, 'spent', change)
                    change = math.max(0, before + change - own) - math.max(0, before - own)
                end
                redis.call('HINCRBY', KEYS[k + 3], 'spent', change)
            end
        end
        ";
