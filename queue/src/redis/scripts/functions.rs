//! Lua functions that several scripts share.

/// The keys, in the order of [`Keys::prepare`](super::super::keys::Keys::prepare).
pub(super) const KEYS: &str = r"
    local claimed, delayed, delayed_details, tenants, deficit, waiting_consumers, lane_prefix = unpack(KEYS)
    local priorities = { 'high', 'normal', 'low' }
    local function tenant_of(lane) return string.match(lane, '^%a+:(.*)$') end
";

/// Redis' clock in milliseconds: `now` is rounded down, and `delay_start`, to which delays are added, is rounded up, so that
/// no job is early.
pub(super) const CLOCK: &str = r"
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local delay_start = clock[1] * 1000 + math.ceil(clock[2] / 1000)
";

/// `add_job(job, lane)` makes a job available: on the stream if every lane is empty and a consumer is waiting, which wakes
/// that consumer at once, and otherwise in its lane. Jobs for lanes are collected; `write_lanes()` writes them with one command
/// per lane.
///
/// The registration that is used first is the oldest, because Redis wakes the reader that has waited longest. A registration
/// begins with the time until which its consumer waits.
pub(super) const ADD_JOB: &str = r"
    local lanes_in_use = nil
    local jobs_of, lanes = {}, {}

    local function take_waiting_consumer()
        if lanes_in_use == nil then lanes_in_use = redis.call('EXISTS', tenants) == 1 end
        while not lanes_in_use do
            local consumer = redis.call('ZPOPMIN', waiting_consumers)[1]
            if not consumer then
                lanes_in_use = true
            elseif tonumber(string.match(consumer, '^%d+')) > now then
                return true
            end
        end
        return false
    end

    local function add_to_stream(job, lane)
        redis.call('XADD', claimed, '*', 'job', lane .. ' ' .. job)
    end

    local function add_job(job, lane)
        if take_waiting_consumer() then return add_to_stream(job, lane) end
        if not jobs_of[lane] then
            jobs_of[lane] = {}
            lanes[#lanes + 1] = lane
        end
        table.insert(jobs_of[lane], job)
    end

    local function write_lanes()
        for _, lane in ipairs(lanes) do
            redis.call('RPUSH', lane_prefix .. lane, unpack(jobs_of[lane]))
            local tenant = tenant_of(lane)
            if not redis.call('ZSCORE', tenants, tenant) then
                local last = redis.call('ZRANGE', tenants, -1, -1, 'WITHSCORES')
                redis.call('ZADD', tenants, (tonumber(last[2]) or 0) + 1, tenant)
            end
        end
        jobs_of, lanes = {}, {}
    end
";

/// `enqueue(lane, delay, text)` adds a job at once if the delay is 0. If a thread has several delayed jobs, the earliest one counts,
/// with its lane and block reason. Only a worker can postpone its own job: it enqueues the job again with a longer delay.
pub(super) const ENQUEUE: &str = r"
    local function enqueue(lane, delay, text)
        if delay == '0' then return add_job(text, lane) end
        local thread, reason = string.match(text, '^(%S+) (.*)$')
        local due, details = delay_start + delay, lane .. ' ' .. reason
        if string.find(reason, '^worker ') and redis.call('HGET', delayed_details, thread) == details then
            redis.call('ZADD', delayed, due, thread)
        elseif redis.call('ZADD', delayed, 'LT', 'CH', due, thread) == 1 then
            redis.call('HSET', delayed_details, thread, details)
        end
    end
";

/// `move_due(limit)` moves delayed jobs that are due to their lanes, earliest first. Returns the milliseconds until the next one
/// is due, or -1 if none is delayed.
///
/// The job is written before the delayed entry is removed: if Redis is full and refuses the write, the entry is kept.
pub(super) const MOVE_DUE: &str = r"
    local function move_due(limit)
        local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, limit)
        if #due > 0 then
            local details = redis.call('HMGET', delayed_details, unpack(due))
            for i, thread in ipairs(due) do
                add_job(thread, string.match(details[i] or '', '^(%S+)') or 'normal:default')
            end
            write_lanes()
            redis.call('ZREM', delayed, unpack(due))
            redis.call('HDEL', delayed_details, unpack(due))
        end
        local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
        if not first[2] then return -1 end
        return math.max(0, first[2] - now)
    end
";

/// `claim(limit, weights)` moves jobs from their lanes to the stream by deficit round robin, and returns their number.
///
/// The turns are computed first, from the number of waiting jobs of each tenant, so that Redis is asked a few times per tenant
/// and not per job. Every tenant has a waiting job, so `limit` tenants are enough. A tenant without further jobs is removed; a
/// tenant whose turn ended moves to the end. An interrupted turn is kept in `deficit`.
pub(super) const CLAIM: &str = r"
    local function count_waiting(tenant)
        local waiting = 0
        for _, priority in ipairs(priorities) do
            waiting = waiting + redis.call('LLEN', lane_prefix .. priority .. ':' .. tenant)
        end
        return waiting
    end

    local function pop(tenant, count)
        for _, priority in ipairs(priorities) do
            if count == 0 then return end
            local lane = priority .. ':' .. tenant
            for _, job in ipairs(redis.call('LPOP', lane_prefix .. lane, count) or {}) do
                add_to_stream(job, lane)
                count = count - 1
            end
        end
    end

    local function claim(limit, weights)
        local turns = redis.call('ZRANGE', tenants, 0, limit - 1)
        if #turns == 0 then return 0 end
        local listed, left, nth = #turns, limit, 1
        local stored = redis.call('GET', deficit)
        local turn_left = tonumber(stored)
        local waiting, taken = {}, {}
        while left > 0 and turns[nth] do
            local tenant = turns[nth]
            if not waiting[tenant] then waiting[tenant], taken[tenant] = count_waiting(tenant), 0 end
            turn_left = turn_left or weights[tenant] or 1
            local count = math.min(turn_left, left, waiting[tenant])
            taken[tenant] = taken[tenant] + count
            waiting[tenant] = waiting[tenant] - count
            left, turn_left = left - count, turn_left - count
            if waiting[tenant] == 0 or turn_left == 0 then
                if waiting[tenant] > 0 then turns[#turns + 1] = tenant end
                nth, turn_left = nth + 1, nil
            end
        end
        for i = 1, math.min(nth, listed) do
            local tenant = turns[i]
            if taken[tenant] then
                pop(tenant, taken[tenant])
                if waiting[tenant] == 0 then redis.call('ZREM', tenants, tenant) end
            end
        end
        if #turns > listed then
            local last = tonumber(redis.call('ZRANGE', tenants, -1, -1, 'WITHSCORES')[2]) or 0
            for i = math.max(nth, listed + 1), #turns do
                redis.call('ZADD', tenants, last + i, turns[i])
            end
        end
        if turn_left then
            redis.call('SET', deficit, turn_left)
        elseif stored then
            redis.call('DEL', deficit)
        end
        return limit - left
    end
";
