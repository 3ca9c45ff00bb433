//! The Lua scripts of the queue. Each runs atomically in Redis.
//!
//! Every script receives the same [keys](super::keys::Keys); the keys of the lanes are built from the last one. Times are
//! Redis' own, so the clocks of workers do not matter.
//!
//! A lane is written `PRIORITY:TENANT`, a waiting job `thread`, `thread seq` or `thread seq note`, and a stream entry
//! `lane job`.

mod functions;

use std::sync::LazyLock;

use redis::Script;

use self::functions::{
    ADD_JOB, CLAIM, CLOCK, ENQUEUE as ENQUEUE_FUNCTION, KEYS, MOVE_DUE as MOVE_DUE_FUNCTION,
};

fn script(parts: &[&str]) -> Script {
    Script::new(&parts.concat())
}

/// Enqueues a job. Arguments: lane, delay in milliseconds (0 for at once), and the text to store, which is a waiting job, or
/// `thread reason` for a delayed one.
pub(super) static ENQUEUE: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        enqueue(unpack(ARGV))
        write_lanes()
    ";
    script(&[KEYS, CLOCK, ADD_JOB, ENQUEUE_FUNCTION, body])
});

/// Enqueues many threads at once. Arguments: lane, threads.
pub(super) static ENQUEUE_MANY: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        for nth = 2, #ARGV do add_job(ARGV[nth], ARGV[1]) end
        write_lanes()
    ";
    script(&[KEYS, CLOCK, ADD_JOB, body])
});

/// Moves delayed jobs that are due to their lanes. Argument: limit. Returns what the function `move_due` returns.
pub(super) static MOVE_DUE: LazyLock<Script> = LazyLock::new(|| {
    script(&[KEYS, CLOCK, ADD_JOB, MOVE_DUE_FUNCTION, "return move_due(tonumber(ARGV[1]))"])
});

/// Acknowledges the jobs that the consumer still holds and adds their successors; then claims other jobs, or registers the
/// consumer as waiting.
///
/// Arguments: group, consumer, lease in milliseconds, claim limit (0 for no claim), limit of due jobs to move, milliseconds that
/// the consumer will wait, and the longest wait of any consumer; number of weights, and each tenant and weight; then for each
/// job to acknowledge: token, lane, delay of the successor in milliseconds (empty for no successor), and its text as in
/// [`ENQUEUE`].
///
/// Returns the positions, from 0, of the jobs that the consumer does not hold; the milliseconds until the next delayed job is
/// due, -1 if there is none, or -2 if the group is missing; and the claimed entries as one flat list of token and text. A nested
/// list would cost a worker an eighth of its time to decode.
///
/// XACK acknowledges a job of any consumer, so the script asks for the holder first. It does not ask if the job is younger than
/// a lease, because no other consumer can have taken it over yet. (A consumer with a shorter lease could lose a job to this one;
/// the successor is added nevertheless.) A full Redis refuses the first write of a script but none after it, so every
/// acknowledged job has its successor.
///
/// Unread stream entries were meant for a waiting consumer that may have died, so every claim reads them first. It does so
/// before acknowledging, because successors that the script hands to waiting consumers belong to those.
pub(super) static ACK_CLAIM: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local group, consumer, lease, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
        local weights, first_ack = {}, 9 + 2 * ARGV[8]
        for i = 9, first_ack - 1, 2 do weights[ARGV[i]] = tonumber(ARGV[i + 1]) end

        local entries, count = {}, 0
        local function read(max)
            local reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', max, 'STREAMS', claimed, '>')
            if reply and reply.err then return reply end
            for _, entry in ipairs(reply and reply[1][2] or {}) do
                local field, text = entry[2][1], entry[2][2]
                entries[#entries + 1] = entry[1]
                entries[#entries + 1] = field == 'job' and text or ''
                count = count + 1
            end
        end
        local failure = limit > 0 and read(limit)
        if failure and not string.find(failure.err, 'NOGROUP', 1, true) then return failure end

        local function may_hold(token)
            local age = now - string.match(token, '^%d+')
            if age >= 0 and age < lease then return true end
            local pending = redis.pcall('XPENDING', claimed, group, token, token, 1, consumer)
            if pending.err and not string.find(pending.err, 'NOGROUP', 1, true) then error(pending.err) end
            return not pending.err and #pending == 1
        end
        local lost, done = {}, {}
        for i = first_ack, #ARGV, 4 do
            local token, lane, delay, text = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
            if may_hold(token) and redis.call('XACK', claimed, group, token) == 1 then
                if delay ~= '' then enqueue(lane, delay, text) end
                done[#done + 1] = token
            else
                lost[#lost + 1] = (i - first_ack) / 4
            end
        end
        write_lanes()
        if #done > 0 then redis.call('XDEL', claimed, unpack(done)) end

        if failure then return { lost, -2, entries } end
        if limit == 0 then return { lost, -1, entries } end
        local next_due = move_due(tonumber(ARGV[5]))
        if count < limit then
            local moved = claim(limit - count, weights)
            if moved > 0 then read(moved) end
        end
        if count == 0 then
            local since, longest = clock[1] * 1000000 + clock[2], tonumber(ARGV[7])
            redis.call('ZREMRANGEBYSCORE', waiting_consumers, '-inf', since - longest * 1000)
            redis.call('ZADD', waiting_consumers, since, (now + ARGV[6]) .. ' ' .. consumer)
            redis.call('PEXPIRE', waiting_consumers, longest)
        end
        return { lost, next_due, entries }
    ";
    script(&[KEYS, CLOCK, ADD_JOB, ENQUEUE_FUNCTION, MOVE_DUE_FUNCTION, CLAIM, body])
});

/// Renews the leases that the consumer still holds. Arguments: group, consumer, tokens. Returns the tokens that it lost.
///
/// XCLAIM takes a job from any consumer, so the script asks for the holder first. `JUSTID` leaves the delivery count unchanged.
pub(super) static RENEW_LEASES: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local lost = {}
        for i = 3, #ARGV do
            local pending = redis.pcall('XPENDING', claimed, ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
            if pending.err and not string.find(pending.err, 'NOGROUP', 1, true) then return pending end
            if pending.err or #pending == 0
                or #redis.call('XCLAIM', claimed, ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID') == 0 then
                lost[#lost + 1] = ARGV[i]
            end
        end
        return lost
    ";
    script(&[KEYS, body])
});

/// Takes over jobs whose lease expired.
///
/// Arguments: group, consumer, lease in milliseconds, limit, cursor of the scan, number of leases to read, number of deaths from
/// which on a job is in quarantine, and 1 if the consumer may take over one of those.
///
/// Returns the cursor of the next call, `-` if the scan is complete, and a row for each job: token, text, previous holder, and
/// the number of its deaths, which is how often it was delivered before. XCLAIM counts a delivery; renewing a lease does not.
///
/// XAUTOCLAIM would do the same with one command, but tells neither the previous holder nor the deliveries.
pub(super) static TAKE_OVER: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local group, consumer, lease, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
        local cursor, scanned = ARGV[5], tonumber(ARGV[6])
        local quarantine_deaths, may_quarantine = tonumber(ARGV[7]), ARGV[8] == '1'
        local pending = redis.pcall('XPENDING', claimed, group, cursor, '+', scanned)
        if pending.err then return pending end
        local taken = {}
        for nth, it in ipairs(pending) do
            local token, holder, idle, deaths = it[1], it[2], it[3], it[4]
            local is_quarantined = deaths >= quarantine_deaths
            if idle >= lease and (may_quarantine or not is_quarantined) then
                local entry = redis.call('XCLAIM', claimed, group, consumer, lease, token)[1]
                if entry then
                    local field, text = entry[2][1], entry[2][2]
                    taken[#taken + 1] = { token, field == 'job' and text or '', holder, deaths }
                    may_quarantine = may_quarantine and not is_quarantined
                else
                    redis.call('XACK', claimed, group, token)
                end
            end
            if #taken == limit and nth < #pending then return { '(' .. token, taken } end
        end
        if #pending < scanned then return { '-', taken } end
        return { '(' .. pending[#pending][1], taken }
    ";
    script(&[KEYS, body])
});

/// Returns Redis' clock in milliseconds.
pub(super) static NOW: LazyLock<Script> = LazyLock::new(|| script(&[KEYS, CLOCK, "return now"]));

/// Counts the waiting, claimed and delayed jobs. Argument: group.
pub(super) static DEPTH: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local pending = redis.pcall('XPENDING', claimed, ARGV[1])
        if pending.err and not string.find(pending.err, 'NOGROUP', 1, true) then return pending end
        local in_flight = pending.err and 0 or pending[1]
        local waiting = math.max(0, redis.call('XLEN', claimed) - in_flight)
        for _, tenant in ipairs(redis.call('ZRANGE', tenants, 0, -1)) do
            for _, priority in ipairs(priorities) do
                waiting = waiting + redis.call('LLEN', lane_prefix .. priority .. ':' .. tenant)
            end
        end
        return { waiting, in_flight, redis.call('ZCARD', delayed) }
    ";
    script(&[KEYS, body])
});

/// Lists jobs. Arguments: group, limit. Each row is the state, the thread, the lane and three details: for `in_flight` the
/// consumer, the milliseconds since the last renewal and the number of deaths, for `waiting` the position in the lane, and for
/// `delayed` the milliseconds until it is due and the block reason.
pub(super) static LIST: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local rows, limit, holders = {}, tonumber(ARGV[2]), {}
        local pending = redis.pcall('XPENDING', claimed, ARGV[1], '-', '+', limit)
        if pending.err and not string.find(pending.err, 'NOGROUP', 1, true) then return pending end
        if not pending.err then
            for _, it in ipairs(pending) do holders[it[1]] = it end
        end
        local unread = {}
        for _, entry in ipairs(redis.call('XRANGE', claimed, '-', '+', 'COUNT', limit)) do
            local lane, thread = string.match(entry[2][2], '^(%S+) (%S+)')
            local holder = holders[entry[1]]
            if thread and holder then
                rows[#rows + 1] = { 'in_flight', thread, lane, holder[2], tostring(holder[3]), tostring(holder[4] - 1) }
            elseif thread then
                unread[#unread + 1] = { 'waiting', thread, lane, '0', '', '' }
            end
        end
        for _, row in ipairs(unread) do rows[#rows + 1] = row end
        for _, tenant in ipairs(redis.call('ZRANGE', tenants, 0, limit - 1)) do
            for _, priority in ipairs(priorities) do
                local lane = priority .. ':' .. tenant
                if #rows >= limit then return rows end
                for nth, job in ipairs(redis.call('LRANGE', lane_prefix .. lane, 0, limit - #rows - 1)) do
                    rows[#rows + 1] = { 'waiting', string.match(job, '^%S+'), lane, tostring(nth - 1), '', '' }
                end
            end
        end
        if #rows >= limit then return rows end
        local due = redis.call('ZRANGE', delayed, 0, limit - #rows - 1, 'WITHSCORES')
        for i = 1, #due, 2 do
            local lane, reason = string.match(redis.call('HGET', delayed_details, due[i]) or '', '^(%S+) (.*)$')
            local due_in = string.format('%d', math.max(0, due[i + 1] - now))
            rows[#rows + 1] = { 'delayed', due[i], lane or '', due_in, reason or '', '' }
        end
        return rows
    ";
    script(&[KEYS, CLOCK, body])
});

/// Removes consumers that hold no job and have been idle for this many milliseconds. Arguments: group, milliseconds. Returns
/// the number of removed consumers.
///
/// **Invariant:** a consumer that holds a job is never removed, because its jobs would be removed with it.
pub(super) static REMOVE_IDLE_CONSUMERS: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local removed = 0
        for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', claimed, ARGV[1])) do
            local consumer = {}
            for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
            if consumer.pending == 0 and consumer.idle > tonumber(ARGV[2]) then
                redis.call('XGROUP', 'DELCONSUMER', claimed, ARGV[1], consumer.name)
                removed = removed + 1
            end
        end
        return removed
    ";
    script(&[KEYS, body])
});
