//! The Lua scripts of the [availability](super::availability) of subjects. They compute what its types compute in memory.
//!
//! The first key is the record of the subject, the second the set of all subjects that have one. Times are Redis' own, in
//! milliseconds. A time that never came is 0.

use std::sync::LazyLock;

use redis::Script;

use super::{
    answers::{COUNT_MS, MIN_ELAPSED_MS},
    availability::{
        CROWD_PART, FAST_GAIN, FEW_ANSWERS, FIRST_RATE, KEEP_MS, MAX_REDUCTION, MAX_REDUCTIONS, MIN_RATE,
        RECOVERY_MS, RECOVERY_REQUESTS, REDUCTION, SLACK,
    },
};

/// Puts the constants of the availability in place of their names.
pub(super) fn with_constants(source: &str) -> String {
    // A name that begins with another comes first.
    let constants = [
        ("MAX_REDUCTIONS", f64::from(MAX_REDUCTIONS)),
        ("MAX_REDUCTION", MAX_REDUCTION),
        ("REDUCTION", REDUCTION),
        ("RECOVERY_REQUESTS", RECOVERY_REQUESTS),
        ("RECOVERY_MS", RECOVERY_MS),
        ("FIRST_RATE", FIRST_RATE),
        ("FEW_ANSWERS", FEW_ANSWERS),
        ("MIN_RATE", MIN_RATE),
        ("FAST_GAIN", FAST_GAIN),
        ("CROWD_PART", CROWD_PART),
        ("MIN_ELAPSED_MS", MIN_ELAPSED_MS),
        ("COUNT_MS", COUNT_MS),
        ("KEEP_MS", KEEP_MS),
        ("SLACK", SLACK),
    ];
    let replace = |text: String, (name, value): (&str, f64)| text.replace(name, &value.to_string());
    constants.into_iter().fold(source.to_owned(), replace)
}

/// Functions of both scripts: the record, and the answers that it counted lately.
const PRELUDE: &str = r"
        local clock = redis.call('TIME')
        local now = clock[1] * 1000 + clock[2] / 1000
        local it = {}
        local stored = redis.call('HGETALL', KEYS[1])
        for i = 1, #stored, 2 do it[stored[i]] = tonumber(stored[i + 1]) end
        local function advance()
            local period = math.floor(now / COUNT_MS)
            if period ~= it.period then
                it.previous = period == it.period + 1 and it.count or 0
                it.period, it.count = period, 0
            end
        end
        local function recovery() return math.max(RECOVERY_MS, RECOVERY_REQUESTS * 1000 / it.rate) end
        local function spacing()
            return math.max(1000 / it.rate, it.refusals < 2 and 0 or it.pause)
        end
        local function store()
            local fields = {}
            for name, value in pairs(it) do
                fields[#fields + 1] = name
                fields[#fields + 1] = value
            end
            redis.call('HSET', KEYS[1], unpack(fields))
        end
";

/// Records a refusal.
///
/// Arguments: name of the subject; in milliseconds the time since the request was sent, the delay that the endpoint asked for (-1
/// for none), the first and the longest pause; the answers per second that the caller received lately; and the error.
///
/// Returns the refusals in a row if this one counts (0 otherwise), the milliseconds until the next request, the milliseconds since
/// the first refusal without an answer since (-1 for none), its time in seconds, and 1 if another request was answered since this one
/// was sent.
pub(super) static REFUSED: LazyLock<Script> = LazyLock::new(|| {
    let script = r"
        local name, sent, named = ARGV[1], now - ARGV[2], tonumber(ARGV[3])
        local first_pause, max_pause, observed = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
        if not it.rate then
            it = {
                rate = math.max(FIRST_RATE, observed * REDUCTION), known_rate = -1, refusals = 0, since = -1, pause = 0,
                paused_until = 0, next_at = 0, reduced_at = 0, answered_at = observed > 0 and now or 0,
                started = now, period = math.floor(now / COUNT_MS), count = 0, previous = 0,
            }
        end
        it.error = nil
        redis.call('HSET', KEYS[1], 'error', ARGV[7])
        local counts = sent >= math.max(it.reduced_at, it.paused_until)
        if not counts then
            it.paused_until = math.max(it.paused_until, now + math.max(0, named))
            local keep = math.ceil(it.paused_until - now + KEEP_MS / 5)
            if (tonumber(redis.call('ZSCORE', KEYS[2], name)) or 0) < now + keep then redis.call('ZADD', KEYS[2], now + keep, name) end
            for _, key in ipairs(KEYS) do
                if redis.call('PTTL', key) < keep then redis.call('PEXPIRE', key, keep) end
            end
        else
            local is_first, answered = it.reduced_at == 0, now - it.answered_at < RECOVERY_MS
            it.refusals = it.refusals + 1
            if it.since < 0 then it.since = math.floor(now) end
            if not is_first and it.refusals <= MAX_REDUCTIONS then
                advance()
                local elapsed = math.max(MIN_ELAPSED_MS, math.min(now - it.started, COUNT_MS + now % COUNT_MS))
                local few = (it.previous + it.count) * 1000 / elapsed < it.rate * FEW_ANSWERS
                it.rate = math.max(MIN_RATE, it.rate * (few and MAX_REDUCTION or REDUCTION))
            end
            if not is_first and it.refusals == 1 then it.known_rate = it.rate end
            it.reduced_at = now
            it.pause = math.min(max_pause, first_pause * 2 ^ (math.min(it.refusals, 30) - 1))
            local pause = it.pause
            if named >= 0 then pause = named elseif it.refusals == 1 and answered then pause = 0 end
            it.paused_until = math.max(it.paused_until, now + pause)
            local keep = math.max(KEEP_MS, 4 * recovery(), pause + KEEP_MS / 5)
            redis.call('ZADD', KEYS[2], now + keep, name)
            if redis.call('PTTL', KEYS[2]) < keep then redis.call('PEXPIRE', KEYS[2], math.ceil(keep)) end
            store()
            redis.call('PEXPIRE', KEYS[1], math.ceil(keep))
        end
        if not counts then store() end
        return {
            counts and it.refusals or 0, math.ceil(math.max(0, math.max(it.paused_until, it.next_at) - now)),
            it.since < 0 and -1 or math.floor(now - it.since), math.floor(it.since / 1000), sent < it.answered_at and 1 or 0,
        }
        ";
    Script::new(&with_constants(&[PRELUDE, script].concat()))
});

/// Records an answer. Arguments: the milliseconds since its request was sent. Returns the milliseconds for which the subject was
/// out, or -1 if it was not.
pub(super) static ANSWERED: LazyLock<Script> = LazyLock::new(|| {
    let script = r"
        if not it.rate then return -1 end
        local sent, out_for = now - ARGV[1], -1
        it.error = nil
        advance()
        it.count = it.count + 1
        if sent >= it.reduced_at then
            if it.refusals >= 2 and it.since >= 0 then out_for = math.floor(now - it.since) end
            it.refusals, it.since, it.answered_at = 0, -1, now
            it.next_at = math.min(it.next_at, now + spacing())
            if it.known_rate < 0 then
                it.rate = it.rate + math.min(it.rate, 1)
            elseif it.rate < it.known_rate then
                it.rate = it.rate + math.min(it.rate, 1, it.known_rate - it.rate)
            elseif now - it.reduced_at > 2 * recovery() then
                it.rate = it.rate + math.min(FAST_GAIN, it.rate / 2)
            else
                local part = (now - it.reduced_at) / recovery() - 1
                it.rate = math.max(it.rate, it.known_rate / REDUCTION * (1 + (1 - REDUCTION) * part ^ 3))
            end
        end
        store()
        return out_for
        ";
    Script::new(&with_constants(&[PRELUDE, script].concat()))
});

/// Forgets a subject. The only argument is its name.
pub(super) static FORGET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        redis.call('DEL', KEYS[1])
        redis.call('ZREM', KEYS[2], ARGV[1])
        ",
    )
});

/// Returns the names of the subjects that refused a request lately. The only key is their set.
pub(super) static REFUSING: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local clock = redis.call('TIME')
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', clock[1] * 1000)
        return redis.call('ZRANGE', KEYS[1], 0, -1)
        ",
    )
});
