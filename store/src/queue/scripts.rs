//! What must happen in Redis in one piece: the scripts of the doorbell.
//!
//! Each is given the same [keys](super::keys::Keys); the keys of the lanes are made from the last of them. Times are Redis' own, so that
//! the clocks of workers do not matter.
//!
//! A lane is written `priority:tenant`, what waits in it `thread` or `thread head`, and on the stream `lane thread` or
//! `lane thread head`.

use std::sync::LazyLock;

use redis::Script;

fn script(parts: &[&str]) -> Script {
    Script::new(&parts.concat())
}

/// The names of the keys.
const NAMES: &str = r"
    local stream, later, notes, tenants, credit, hungry, lane_of = unpack(KEYS)
    local priorities = { 'high', 'normal', 'low' }
    local function tenant_of(lane) return string.match(lane, '^%a+:(.*)$') end
";

/// The clock, rounded down; when a delay that begins now is counted from is rounded up, so that nothing is early.
const CLOCK: &str = r"
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local counted_from = clock[1] * 1000 + math.ceil(clock[2] / 1000)
";

/// How a token comes to wait: in its lane, or, if no lane has any and a worker waits, on the stream, where that worker
/// hears it at once. The tokens for lanes are gathered, and written by `settle`: one command a lane.
///
/// Tickets are used up oldest first, as Redis wakes the reader that has waited longest. A ticket says until when its
/// worker waits and how many tokens that can take.
const PUT: &str = r"
    local seats, crowded = 0, nil
    local gathered, lanes = {}, {}

    local function is_seat_free()
        if crowded == nil then crowded = redis.call('EXISTS', tenants) == 1 end
        while not crowded and seats == 0 do
            local ticket = redis.call('ZPOPMIN', hungry)[1]
            if not ticket then
                crowded = true
            else
                local till, room = string.match(ticket, '^(%d+) (%d+) ')
                if tonumber(till) > now then seats = tonumber(room) end
            end
        end
        return not crowded
    end

    local function add(token, lane)
        redis.call('XADD', stream, '*', 'job', lane .. ' ' .. token)
    end

    local function put(token, lane)
        if is_seat_free() then
            seats = seats - 1
            return add(token, lane)
        end
        if not gathered[lane] then
            gathered[lane] = {}
            lanes[#lanes + 1] = lane
        end
        table.insert(gathered[lane], token)
    end

    local function settle()
        for _, lane in ipairs(lanes) do
            redis.call('RPUSH', lane_of .. lane, unpack(gathered[lane]))
            local tenant = tenant_of(lane)
            if not redis.call('ZSCORE', tenants, tenant) then
                local last = redis.call('ZRANGE', tenants, -1, -1, 'WITHSCORES')
                redis.call('ZADD', tenants, (tonumber(last[2]) or 0) + 1, tenant)
            end
        end
        gathered, lanes = {}, {}
    end
";

/// How a ring is heard: at once, if its delay is 0; of delayed ones the earliest counts, with its lane and what holds it
/// back. But who is at the thread and says the same again puts its own ring off.
const HEAR: &str = r"
    local function ring(lane, wait, says)
        if wait == '0' then return put(says, lane) end
        local thread, why = string.match(says, '^(%S+) (.*)$')
        local due, note = counted_from + wait, lane .. ' ' .. why
        if string.find(why, '^worker ') and redis.call('HGET', notes, thread) == note then
            redis.call('ZADD', later, due, thread)
        elseif redis.call('ZADD', later, 'LT', 'CH', due, thread) == 1 then
            redis.call('HSET', notes, thread, note)
        end
    end
";

/// How delayed rings that are due come to wait, in the order of their times: how many at most. Returns in how many
/// milliseconds to come again, or -1 if no ring is delayed.
///
/// The token is written before the ring is removed: should Redis refuse (it is full), the ring is still there.
const FIRE: &str = r"
    local function fire(most)
        local due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, most)
        if #due > 0 then
            local said = redis.call('HMGET', notes, unpack(due))
            for i, thread in ipairs(due) do
                put(thread, string.match(said[i] or '', '^(%S+)') or 'normal:default')
            end
            settle()
            redis.call('ZREM', later, unpack(due))
            redis.call('HDEL', notes, unpack(due))
        end
        local first = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
        if not first[2] then return -1 end
        return math.max(0, first[2] - now)
    end
";

/// How tokens leave their lanes: tenants in turn, as many each as its weight, and of each the most urgent first.
///
/// Whose turns these are is reckoned first, from how much each has waiting, so that Redis is asked a few times a
/// tenant and not a few times a token. Everyone in the ring has something waiting, so `room` tenants are enough to look
/// at; whoever has nothing left leaves the ring, and whoever's turn is over goes to its end. What is left of the turn of
/// the first is kept in `credit`.
const DRAW: &str = r"
    local function waiting_of(tenant)
        local waiting = 0
        for _, it in ipairs(priorities) do
            waiting = waiting + redis.call('LLEN', lane_of .. it .. ':' .. tenant)
        end
        return waiting
    end

    local function pop(tenant, count)
        for _, it in ipairs(priorities) do
            if count == 0 then return end
            local lane = it .. ':' .. tenant
            for _, token in ipairs(redis.call('LPOP', lane_of .. lane, count) or {}) do
                add(token, lane)
                count = count - 1
            end
        end
    end

    local function draw(room, weights)
        local turns = redis.call('ZRANGE', tenants, 0, room - 1)
        if #turns == 0 then return 0 end
        local seen, left, nth = #turns, room, 1
        local kept = redis.call('GET', credit)
        local may = tonumber(kept)
        local waiting, given = {}, {}
        while left > 0 and turns[nth] do
            local tenant = turns[nth]
            if not waiting[tenant] then waiting[tenant], given[tenant] = waiting_of(tenant), 0 end
            may = may or weights[tenant] or 1
            local count = math.min(may, left, waiting[tenant])
            given[tenant] = given[tenant] + count
            waiting[tenant] = waiting[tenant] - count
            left, may = left - count, may - count
            if waiting[tenant] == 0 or may == 0 then
                if waiting[tenant] > 0 then turns[#turns + 1] = tenant end
                nth, may = nth + 1, nil
            end
        end
        for i = 1, math.min(nth, seen) do
            local tenant = turns[i]
            if given[tenant] then
                pop(tenant, given[tenant])
                if waiting[tenant] == 0 then redis.call('ZREM', tenants, tenant) end
            end
        end
        if #turns > seen then
            local last = tonumber(redis.call('ZRANGE', tenants, -1, -1, 'WITHSCORES')[2]) or 0
            for i = math.max(nth, seen + 1), #turns do
                redis.call('ZADD', tenants, last + i, turns[i])
            end
        end
        if may then
            redis.call('SET', credit, may)
        elseif kept then
            redis.call('DEL', credit)
        end
        return room - left
    end
";

/// Rings: lane, delay in milliseconds (0 at once), and what the token says, as a successor in [`SERVE`].
pub(super) static RING: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        ring(unpack(ARGV))
        settle()
    ";
    script(&[NAMES, CLOCK, PUT, HEAR, body])
});

/// Rings at once for many threads: their lane, and each of them.
pub(super) static RING_MANY: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        for nth = 2, #ARGV do put(ARGV[nth], ARGV[1]) end
        settle()
    ";
    script(&[NAMES, CLOCK, PUT, body])
});

/// Has delayed rings wait that are due: how many at most. Returns when to come again, as `fire` does.
pub(super) static DUE: LazyLock<Script> =
    LazyLock::new(|| script(&[NAMES, CLOCK, PUT, FIRE, "return fire(tonumber(ARGV[1]))"]));

/// Ends tokens and adds their successors, of those that the consumer still holds; and takes others, or notes that somebody
/// waits for them. Given are group, consumer, its lease in milliseconds; how many tokens it takes at most, how many delayed
/// rings to fire at most before, for how many milliseconds it then waits, and how long anybody does; how many tenants weigh
/// more than 1, and of each its name and weight; and for each token that ends that, its lane, the successor's delay in
/// milliseconds (0 at once, empty if there is none), and what the successor says: what waits in a lane, or of a delayed one
/// `thread why`.
///
/// Returns which of the tokens that were to end the consumer does not hold, counted from 0; when to come again for the
/// delayed rings, as `fire` does, or -2 if nothing was taken because there is no group; and of each entry that was taken
/// its token, and what it says, in one flat list: to read an entry as a list in a list took a worker an eighth of its time.
///
/// XACK ends anybody's, so it is asked first who holds a token; but not of one that is younger than a lease: nobody can
/// have claimed it yet. (Whoever claims after a shorter lease than ours would lose a token to us, which has its successor
/// all the same.) Redis, when it is full, refuses no write of a script that has written already: what is acknowledged has
/// its successor.
///
/// What is on the stream was meant for a worker that waited and may have died: whoever comes first is given it. The
/// stream is read before anything else: what successors are put there for others is theirs.
pub(super) static SERVE: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local group, consumer, lease, room = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
        local weights, first = {}, 9 + 2 * ARGV[8]
        for i = 9, first - 1, 2 do weights[ARGV[i]] = tonumber(ARGV[i + 1]) end

        local entries, taken = {}, 0
        local function read(count)
            local reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', stream, '>')
            if reply and reply.err then return reply end
            for _, entry in ipairs(reply and reply[1][2] or {}) do
                local field, says = entry[2][1], entry[2][2]
                entries[#entries + 1] = entry[1]
                entries[#entries + 1] = field == 'job' and says or ''
                taken = taken + 1
            end
        end
        local refused = room > 0 and read(room)
        if refused and not string.find(refused.err, 'NOGROUP', 1, true) then return refused end

        local function may_be_ours(token)
            local age = now - string.match(token, '^%d+')
            if age >= 0 and age < lease then return true end
            local held = redis.pcall('XPENDING', stream, group, token, token, 1, consumer)
            if held.err and not string.find(held.err, 'NOGROUP', 1, true) then error(held.err) end
            return not held.err and #held == 1
        end
        local lost, done = {}, {}
        for i = first, #ARGV, 4 do
            local token, lane, wait, says = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
            if may_be_ours(token) and redis.call('XACK', stream, group, token) == 1 then
                if wait ~= '' then ring(lane, wait, says) end
                done[#done + 1] = token
            else
                lost[#lost + 1] = (i - first) / 4
            end
        end
        settle()
        if #done > 0 then redis.call('XDEL', stream, unpack(done)) end

        if refused then return { lost, -2, entries } end
        if room == 0 then return { lost, -1, entries } end
        local next = fire(tonumber(ARGV[5]))
        if taken < room then
            local drawn = draw(room - taken, weights)
            if drawn > 0 then read(drawn) end
        end
        if taken == 0 then
            local since, longest = clock[1] * 1000000 + clock[2], tonumber(ARGV[7])
            redis.call('ZREMRANGEBYSCORE', hungry, '-inf', since - longest * 1000)
            redis.call('ZADD', hungry, since, (now + ARGV[6]) .. ' ' .. room .. ' ' .. consumer)
            redis.call('PEXPIRE', hungry, longest)
        end
        return { lost, next, entries }
    ";
    script(&[NAMES, CLOCK, PUT, HEAR, FIRE, DRAW, body])
});

/// Renews the leases that the consumer still holds: group, consumer, tokens. Returns the tokens that it does not
/// hold.
///
/// It asks who holds a token first, because XCLAIM takes anybody's. `JUSTID` leaves the count of deliveries as
/// it is.
pub(super) static RENEW: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local lost = {}
        for i = 3, #ARGV do
            local held = redis.pcall('XPENDING', stream, ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
            if held.err and not string.find(held.err, 'NOGROUP', 1, true) then return held end
            if held.err or #held == 0
                or #redis.call('XCLAIM', stream, ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID') == 0 then
                lost[#lost + 1] = ARGV[i]
            end
        end
        return lost
    ";
    script(&[NAMES, body])
});

/// Redis' clock, in milliseconds.
pub(super) static NOW: LazyLock<Script> = LazyLock::new(|| script(&[NAMES, CLOCK, "return now"]));

/// How many tokens wait, how many are held, and how many rings are delayed: group.
pub(super) static DEPTH: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local held = redis.pcall('XPENDING', stream, ARGV[1])
        if held.err and not string.find(held.err, 'NOGROUP', 1, true) then return held end
        held = held.err and 0 or held[1]
        local waiting = math.max(0, redis.call('XLEN', stream) - held)
        for _, tenant in ipairs(redis.call('ZRANGE', tenants, 0, -1)) do
            for _, it in ipairs(priorities) do
                waiting = waiting + redis.call('LLEN', lane_of .. it .. ':' .. tenant)
            end
        end
        return { waiting, held, redis.call('ZCARD', later) }
    ";
    script(&[NAMES, body])
});

/// Where tokens are: group, how many at most. Returns of each in which way it is there, its thread and lane, and what
/// there is to say: of one that is `held` the consumer and since how many milliseconds, of one that is `waiting` its
/// place in the lane, of one that is `delayed` in how many milliseconds it is due and what holds it back.
pub(super) static LIST: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local rows, most, holder = {}, tonumber(ARGV[2]), {}
        local held = redis.pcall('XPENDING', stream, ARGV[1], '-', '+', most)
        if held.err and not string.find(held.err, 'NOGROUP', 1, true) then return held end
        if not held.err then
            for _, it in ipairs(held) do holder[it[1]] = it end
        end
        local waiting = {}
        for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', most)) do
            local lane, thread = string.match(entry[2][2], '^(%S+) (%S+)')
            local it = holder[entry[1]]
            if thread and it then
                rows[#rows + 1] = { 'held', thread, lane, it[2], tostring(it[3]) }
            elseif thread then
                waiting[#waiting + 1] = { 'waiting', thread, lane, '0', '' }
            end
        end
        for _, row in ipairs(waiting) do rows[#rows + 1] = row end
        for _, tenant in ipairs(redis.call('ZRANGE', tenants, 0, most - 1)) do
            for _, it in ipairs(priorities) do
                local lane = it .. ':' .. tenant
                if #rows >= most then return rows end
                for nth, token in ipairs(redis.call('LRANGE', lane_of .. lane, 0, most - #rows - 1)) do
                    rows[#rows + 1] = { 'waiting', string.match(token, '^%S+'), lane, tostring(nth - 1), '' }
                end
            end
        end
        if #rows >= most then return rows end
        local due = redis.call('ZRANGE', later, 0, most - #rows - 1, 'WITHSCORES')
        for i = 1, #due, 2 do
            local lane, why = string.match(redis.call('HGET', notes, due[i]) or '', '^(%S+) (.*)$')
            local wait = string.format('%d', math.max(0, due[i + 1] - now))
            rows[#rows + 1] = { 'delayed', due[i], lane or '', wait, why or '' }
        end
        return rows
    ";
    script(&[NAMES, CLOCK, body])
});

/// Forgets consumers that hold nothing and have not been seen for long: group, for how many milliseconds.
/// Returns how many it forgot.
///
/// **Invariant:** a consumer that holds a token is never deleted, because its tokens would go with it.
pub(super) static FORGET: LazyLock<Script> = LazyLock::new(|| {
    let body = r"
        local forgotten = 0
        for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', stream, ARGV[1])) do
            local consumer = {}
            for i = 1, #fields, 2 do consumer[fields[i]] = fields[i + 1] end
            if consumer.pending == 0 and consumer.idle > tonumber(ARGV[2]) then
                redis.call('XGROUP', 'DELCONSUMER', stream, ARGV[1], consumer.name)
                forgotten = forgotten + 1
            end
        end
        return forgotten
    ";
    script(&[NAMES, body])
});
